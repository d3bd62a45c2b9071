"""Reads the pronunciation dictionary that a request brings with it; shared by all dialects.

Dictionaries that are kept belong to the studio's visitors. The runtime keeps none, so that no id names one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from runtime.errors import InvalidConfig
from runtime.server.wire import StrictFields, Text
from runtime.settings import Limits
from runtime.shared.inline_tags import may_be_tag
from runtime.shared.pronouncing import Dictionary, dictionary_of

MOST_WORDS = 200


def _line(most: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        text = text.strip()
        if not 1 <= len(text) <= most:
            raise ValueError(f"it must have 1 to {most} characters")
        return text

    return check


class Pronunciation(StrictFields):
    """A word, and how it is said."""

    word: Annotated[Text, AfterValidator(_line(80))]
    say_as: Annotated[Text, AfterValidator(_line(200))]


Pronunciations = Annotated[list[Pronunciation], Field(max_length=MOST_WORDS)]


def dictionary_for(entries: Iterable[Pronunciation], limits: Limits, *, tags: bool) -> Dictionary | None:
    """Return the dictionary of these words, or None without any; in a text with ``tags`` it leaves these alone."""
    words = tuple((entry.word, entry.say_as) for entry in entries)
    return dictionary_of(words, may_be_tag(limits.max_instruct_chars) if tags else "") if words else None


def refuse_dictionary(param: str) -> None:
    """Refuse the id of a dictionary that is kept elsewhere, so that no text is said otherwise than its client thinks.

    Raises:
        InvalidConfig: always.
    """
    why = "no pronunciation dictionaries are kept here; send the words as pronunciations"
    raise InvalidConfig(where=param, why=why, param=param)
