"""Alias rules of ElevenLabs' pronunciation dictionaries.

Phoneme rules are not supported and are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from runtime.errors import InvalidConfig
from runtime.pronunciations.dictionary import MAX_DESCRIPTION_CHARS, MAX_WORDS, Word
from runtime.server.pronunciations.schema import Description
from runtime.server.text.pronunciations import Replacement, WordText
from runtime.server.wire import Name, StrictFields, Text

ALIAS = "alias"


class Rule(StrictFields):
    """Rule with a string and the alias that is spoken instead.

    A rule matches whole words, and by default only with the same case.
    """

    type: Name = ALIAS
    string_to_replace: WordText
    alias: Replacement
    case_sensitive: bool | None = None
    word_boundaries: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_an_alias(cls, fields: object) -> object:
        if isinstance(fields, dict) and fields.get("type", ALIAS) != ALIAS:
            raise ValueError("phonemes are not supported; give the word an alias that sounds the same")
        return fields

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if self.word_boundaries is False:
            raise ValueError("only whole words are replaced; omit word_boundaries")
        return self

    def as_word(self) -> Word:
        return Word(self.string_to_replace, self.alias, case_sensitive=self.case_sensitive is not False)


class Rules(StrictFields):
    """Request body with a list of rules.

    If several rules have the same string, the last rule applies.
    """

    rules: Annotated[list[Rule], Field(max_length=MAX_WORDS)]


class NewDictionary(Rules):
    """Request body that creates a pronunciation dictionary."""

    name: Name
    description: Description = ""


class ChangedDictionary(StrictFields):
    """Request body that renames or archives a pronunciation dictionary."""

    name: Name | None = None
    archived: bool | None = None


class RuleStrings(StrictFields):
    """Request body with the strings of the rules to remove."""

    rule_strings: Annotated[list[Text], Field(max_length=MAX_WORDS)]


class LexiconForm(TypedDict):
    """Form with the name of a new dictionary and a PLS lexicon with aliases."""

    name: str
    file: Annotated[str, Field(json_schema_extra={"format": "binary"})]
    description: NotRequired[str]


class AliasRule(TypedDict):
    """Alias rule of a pronunciation dictionary in ElevenLabs' format."""

    type: Literal["alias"]
    string_to_replace: str
    alias: str
    case_sensitive: bool
    word_boundaries: Literal[True]


def rule_of(word: Word) -> dict[str, Any]:
    """Convert a dictionary entry to ElevenLabs' rule format."""
    return {
        "type": ALIAS,
        "string_to_replace": word.word,
        "alias": word.say_as,
        "case_sensitive": word.case_sensitive,
        "word_boundaries": True,
    }


def description_of(text: str) -> str:
    """Validate and return the `description` field of the form that creates a dictionary.

    Raises:
        InvalidConfig: The description is too long.
    """
    text = text.replace("\x00", "").strip()
    if len(text) > MAX_DESCRIPTION_CHARS:
        why = f"it has {len(text)} characters; the limit is {MAX_DESCRIPTION_CHARS}"
        raise InvalidConfig(where="description", why=why, param="description")
    return text
