"""Parsing and validation of client messages, shared by all APIs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)

from runtime.errors import InvalidConfig, InvalidMessage, MessageTooLarge, TextTooLong
from runtime.request import SAMPLE_RATE, UNKNOWN_FIELDS
from runtime.settings import Limits
from runtime.shared.strict_json import has_more_values
from runtime.shared.validation import first_fault

Reply = Mapping[str, Any]

SAMPLE_BYTES = 2  # Number of bytes of one sample of 16-bit mono audio.
# Maximum size in bytes of an audio message: a quarter of a second, so that other messages can be sent between two audio
# messages.
PIECE_BYTES = SAMPLE_RATE // 4 * SAMPLE_BYTES
# Language names that checkpoints use, by ISO 639-1 code.
LANGUAGES = {
    "zh": "chinese",
    "en": "english",
    "ja": "japanese",
    "ko": "korean",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "pt": "portuguese",
    "es": "spanish",
    "it": "italian",
}
_CODES = {name: code for code, name in LANGUAGES.items()}
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
MAX_FIELDS = 256  # Maximum number of fields that an object in a message may have.
_MAX_SHOWN_NAMES = 5  # Maximum number of unknown fields that are listed in a note to the client.

Checked = TypeVar("Checked", bound=BaseModel)


def _whole(text: str) -> str:
    if "\x00" in text:
        raise ValueError("it holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]
Name = Annotated[Text, StringConstraints(max_length=256)]


class StrictFields(BaseModel):
    """Base class of client messages, with strict types and finite numbers.

    Unknown fields are ignored.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)

    _notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note about unknown fields, or an empty tuple if all fields are known."""
        return self._notes


class VoiceFields(StrictFields):
    """Base class of client messages that select a voice.

    `voice_field` is the name of the field in which the client has sent the voice.
    """

    _voice_field: str = "voice"

    @model_validator(mode="wrap")
    @classmethod
    def _with_voice_field(cls, fields: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        message = read(fields)
        if isinstance(fields, Mapping):
            written = next((name for name in ("voice", "speaker") if fields.get(name) is not None), "voice")
            message._voice_field = f"{written}.id" if isinstance(fields.get(written), Mapping) else written
        return message

    @property
    def voice_field(self) -> str:
        return self._voice_field


def decode(text: str, max_values: int | None = None) -> dict[str, Any]:
    """Parse a client's text message as a JSON object, more strictly than `json.loads`.

    A byte order mark at the start is ignored.

    Raises:
        InvalidMessage: The message is not a JSON object, has a duplicate key or a number that is not finite, is nested
            too deeply, or has more than about `max_values` values.
    """
    if max_values is not None and has_more_values(text, max_values):
        raise InvalidMessage(why=f"it holds more than {max_values} values")
    try:
        value = json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise InvalidMessage(why=f"syntax error at character {error.pos}") from None
    except RecursionError:
        raise InvalidMessage(why="it is nested too deep") from None
    except ValueError:  # `int` raises ValueError for a number with thousands of digits.
        raise InvalidMessage(why="a number in it is too long") from None
    if not isinstance(value, dict):
        raise InvalidMessage(why="it is another JSON value")
    return value


def check_size(text: str, limit: int) -> None:
    """Check that a message has at most `limit` bytes in UTF-8.

    Raises:
        MessageTooLarge: The message has more bytes.
    """
    # A character has at most four bytes in UTF-8, so the text rarely has to be encoded for this check.
    if len(text) * 4 > limit and (size := len(text.encode(errors="replace"))) > limit:
        raise MessageTooLarge(what="The message", size=size, limit=limit)


def check_text(count: int, limits: Limits, *, param: str = "text") -> None:
    """Check that a text of `count` characters is not too long.

    Raises:
        TextTooLong: `count` exceeds `limits.max_text_chars`.
    """
    if count > limits.max_text_chars:
        raise TextTooLong(count=count, unit="characters", limit=limits.max_text_chars, param=param)


def check_frames(frames: int | None, max_frames: int, *, param: str = "max_frames") -> None:
    """Check that the requested number of codec frames is at most `max_frames`.

    Raises:
        InvalidConfig: `frames` exceeds `max_frames`.
    """
    if frames is not None and frames > max_frames:
        raise InvalidConfig(where=param, why=f"it must be at most {max_frames}", param=param)


def parse_integer(text: str, parameter: str, low: int, high: int) -> int:
    """Parse the text of the URL parameter `parameter` as an integer.

    Raises:
        InvalidConfig: The value is not an integer from `low` to `high`.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise InvalidConfig(where=parameter, why=f"it must be a number from {low} to {high}", param=parameter)
    return int(text)


def check_choice(text: str, parameter: str, choices: Sequence[str]) -> None:
    """Check that the text of the URL parameter `parameter` is one of `choices`.

    Raises:
        InvalidConfig: It is another text.
    """
    if text not in choices:
        raise InvalidConfig(where=parameter, why=f"it must be {' or '.join(choices)}", param=parameter)


def validate_fields(kind: type[Checked], fields: dict[str, Any]) -> Checked:
    """Validate fields with the pydantic model `kind` and return the model instance.

    Raises:
        InvalidConfig: A field has the wrong type or is out of range. The error names the first invalid field.
    """
    check_field_count(fields)
    try:
        message = kind.model_validate(fields)
    except ValidationError as error:
        raise _sentence(error, fields) from None
    unknown = [name for name in fields if name not in _known_names(kind)]
    if unknown and isinstance(message, StrictFields):
        shown = [name for name in unknown if _FIELD_NAME.fullmatch(name)][:_MAX_SHOWN_NAMES]
        names = ", ".join([*shown, "…"] if len(shown) < len(unknown) else shown)
        message._notes = (UNKNOWN_FIELDS.format(names=names),)
    return message


def check_field_count(fields: Mapping[str, Any]) -> None:
    """Check that an object has at most `MAX_FIELDS` fields.

    Raises:
        InvalidConfig: The object has more fields.
    """
    if len(fields) > MAX_FIELDS:
        raise InvalidConfig(where="body", why=f"it has more than {MAX_FIELDS} fields", param="body")


@cache
def _known_names(kind: type[BaseModel]) -> frozenset[str]:
    """Return all field names and aliases that clients may send."""
    names: set[str] = set()
    for name, field in kind.model_fields.items():
        alias = field.validation_alias
        names.update(map(str, alias.choices) if isinstance(alias, AliasChoices) else [str(alias or name)])
    return frozenset(names)


def without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `fields` without the entries that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def language_of(code: str | None) -> str:
    """Return the language name of a code such as "en" or "en-US".

    None becomes "auto", and any other text is returned unchanged.
    """
    word = code or "auto"
    return LANGUAGES.get(word.lower().replace("_", "-").split("-")[0], word)


def code_of(language: str) -> str | None:
    """Return the ISO 639-1 code of a language name, or None for "auto" and unknown names."""
    return _CODES.get(language.lower())


def split_pcm(pcm: bytes) -> Iterator[bytes]:
    """Split PCM audio into pieces of at most `PIECE_BYTES`."""
    return (pcm[start : start + PIECE_BYTES] for start in range(0, len(pcm), PIECE_BYTES))


def _sentence(error: ValidationError, fields: dict[str, Any]) -> InvalidConfig:
    # The path contains only field names and indices, but no data of the client, because the models have no arbitrary
    # keys.
    path, why = first_fault(error, fields)
    return InvalidConfig(where=path or "The message", why=why, param=path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidMessage(why="a key appears twice")
    return fields


def _not_finite(_: str) -> NoReturn:
    raise InvalidMessage(why="a number in it is not finite")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidMessage(why="a number in it is not finite")
    return number
