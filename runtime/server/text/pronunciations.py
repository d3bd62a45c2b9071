"""Pronunciations of a request, which come from the request and from stored dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field

from runtime.errors import DictionaryNotFound
from runtime.pronunciations.dictionary import MAX_REPLACEMENT_CHARS, MAX_WORD_CHARS, MAX_WORDS, Word
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.wire import Name, StrictFields, Text
from runtime.settings import Limits
from runtime.shared.text.inline_tags import tag_pattern
from runtime.shared.text.pronouncing import Dictionary, dictionary_of

MAX_DICTIONARIES = 3  # Maximum number of dictionaries in a request.


def _line_validator(max_chars: int) -> Callable[[str], str]:
    """Return a validator that strips a text and limits it to `max_chars` characters."""

    def check(text: str) -> str:
        text = text.strip()
        if not 1 <= len(text) <= max_chars:
            raise ValueError(f"it must have 1 to {max_chars} characters")
        return text

    return check


WordText = Annotated[Text, AfterValidator(_line_validator(MAX_WORD_CHARS))]
Replacement = Annotated[Text, AfterValidator(_line_validator(MAX_REPLACEMENT_CHARS))]


class Pronunciation(StrictFields):
    """Word and its replacement, where `case_sensitive` requires exactly the same case."""

    word: WordText
    say_as: Replacement
    case_sensitive: bool = False

    def as_word(self) -> Word:
        return Word(self.word, self.say_as, self.case_sensitive)


Pronunciations = Annotated[list[Pronunciation], Field(max_length=MAX_WORDS)]


DictionaryIds = Annotated[list[Name], Field(max_length=MAX_DICTIONARIES)]


class HasDictionaries(Protocol):
    """Interface of requests with pronunciations or with ids of stored dictionaries."""

    @property
    def pronunciations(self) -> list[Pronunciation]: ...

    @property
    def dictionaries(self) -> Sequence[tuple[str, str | None]]:
        """Return pairs of dictionary id and version id, where None means the latest version."""
        ...

    @property
    def dictionaries_field(self) -> str:
        """Return the name of the request field that contains the dictionary ids."""
        ...


def all_pronunciations(request: HasDictionaries, library: VoiceLibrary) -> list[Pronunciation]:
    """Return the pronunciations of the request, then the entries of its dictionaries.

    Thread: event loop. A dictionary file of at most 0.5 MB is read if it is not cached.

    Raises:
        DictionaryNotFound: A dictionary or a version does not exist.
    """
    word_entries = list(request.pronunciations)
    for dictionary_id, version_id in request.dictionaries:
        try:
            version = library.pronunciations.version(dictionary_id, version_id)
        except DictionaryNotFound as error:
            error.param = request.dictionaries_field
            raise
        word_entries += (
            Pronunciation.model_construct(word=word.word, say_as=word.say_as, case_sensitive=word.case_sensitive)
            for word in version.words
        )
    return word_entries


def dictionary_for(entries: Iterable[Pronunciation], limits: Limits, *, tags: bool) -> Dictionary | None:
    """Return a dictionary of `entries`, or None if there are no entries.

    Text inside of tags is not replaced.
    """
    word_entries = tuple((entry.word, entry.say_as, entry.case_sensitive) for entry in entries)
    return dictionary_of(word_entries, tag_pattern(limits, brackets=tags)) if word_entries else None
