"""Request and response types of stored pronunciation dictionaries."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from runtime.pronunciations.dictionary import LONGEST_ABOUT
from runtime.server.text.pronunciations import Pronunciations
from runtime.server.wire import Name, StrictFields, Text

Description = Annotated[Text, Field(max_length=LONGEST_ABOUT)]


class NewDictionary(StrictFields):
    """A dictionary that is to be kept."""

    name: Name
    description: Description = ""
    pronunciations: Pronunciations = Field([])


class ChangedDictionary(StrictFields):
    """Changes to a dictionary; ``pronunciations`` replace all of its entries."""

    name: Name | None = None
    description: Description | None = None
    pronunciations: Pronunciations | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("send name, description or pronunciations")
        return self


class KeptPronunciation(TypedDict):
    """A word, and how it is said."""

    word: str
    say_as: str
    case_sensitive: bool


class DictionaryEntry(TypedDict):
    """A kept dictionary without its words."""

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


class KeptDictionary(DictionaryEntry):
    """The same with them."""

    pronunciations: list[KeptPronunciation]


class DictionaryList(TypedDict):
    """Every dictionary, the newest first; one's own before those of the server."""

    object: Literal["list"]
    data: list[DictionaryEntry]


class DeletedDictionary(TypedDict):
    """It is gone for good."""

    id: str
    object: Literal["audio.pronunciation_dictionary.deleted"]
    deleted: Literal[True]
