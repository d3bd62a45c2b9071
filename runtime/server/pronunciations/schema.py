"""Request and response types of the pronunciation dictionary routes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from runtime.pronunciations.dictionary import MAX_DESCRIPTION_CHARS
from runtime.server.text.pronunciations import Pronunciations
from runtime.server.wire import Name, StrictFields, Text

Description = Annotated[Text, Field(max_length=MAX_DESCRIPTION_CHARS)]


class NewDictionary(StrictFields):
    """Request body that creates a pronunciation dictionary."""

    name: Name
    description: Description = ""
    pronunciations: Pronunciations = Field([])


class ChangedDictionary(StrictFields):
    """Request body that changes a dictionary.

    `pronunciations` replaces all entries of the dictionary.
    """

    name: Name | None = None
    description: Description | None = None
    pronunciations: Pronunciations | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("send name, description or pronunciations")
        return self


class PronunciationEntry(TypedDict):
    """Entry of a pronunciation dictionary: a word, and the text that is spoken instead."""

    word: str
    say_as: str
    case_sensitive: bool


class DictionarySummary(TypedDict):
    """Stored pronunciation dictionary without its entries."""

    id: str
    object: Literal["audio.pronunciation_dictionary"]
    name: str
    description: str
    version: str
    words: int
    created_at: int
    updated_at: int
    archived: bool
    yours: bool


class StoredDictionary(DictionarySummary):
    """Stored pronunciation dictionary with its entries."""

    pronunciations: list[PronunciationEntry]


class DictionaryList(TypedDict):
    """List of pronunciation dictionaries: the owner's dictionaries, then the shared ones.

    Both groups are sorted from newest to oldest.
    """

    object: Literal["list"]
    data: list[DictionarySummary]


class DeletedDictionary(TypedDict):
    """Confirmation that a pronunciation dictionary was deleted."""

    id: str
    object: Literal["audio.pronunciation_dictionary.deleted"]
    deleted: Literal[True]
