"""Validation of recordings' metadata, scripts and preferences that clients send.

The store sets the other fields of a record, such as the id, the creation time and measurements of the audio.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from runtime.errors import InvalidConfig, InvalidMessage
from runtime.request import Mode
from runtime.shared.names import UNSEEN
from runtime.shared.strict_json import parse_object
from runtime.shared.text.inline_tags import untagged
from runtime.shared.validation import first_fault

MAX_SCRIPT_LINES = 10_000  # Maximum number of lines of a script. A novel has about 6,000 paragraphs.
MAX_WORDS = 500  # Maximum number of entries of a pronunciation dictionary.
MAX_REQUEST_TAKES = 1000  # Maximum number of takes that one request deletes or restores.
MAX_REQUEST_WORDS = 200  # Maximum number of pronunciations in a request.

_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SCRIPT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")


def _no_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("it holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character") from None
    return text


def _one_line(text: str) -> str:
    text = unicodedata.normalize("NFC", text).strip()
    if any(unicodedata.category(character) in UNSEEN - {"Cf"} for character in text):
        raise ValueError("it contains invisible characters")
    return text


def _mode(word: str) -> str:
    if word not in set(Mode):
        raise ValueError(f"it must be one of {', '.join(Mode)}")
    return word


def _without_sound(config: dict[str, Any]) -> dict[str, Any]:
    if "ref_audio" in config:
        raise ValueError("send the recording in the form field reference, not in ref_audio")
    return config


Text = Annotated[str, AfterValidator(_no_nul)]
Line = Annotated[Text, AfterValidator(_one_line)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Tag = Annotated[Line, Field(min_length=1, max_length=40)]


class Fields(BaseModel):
    """Base class of validated JSON objects.

    Unknown fields and wrong types are refused.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TakeChanges(Fields):
    """Metadata fields of a stored recording that a client may change.

    A field that is not set stays unchanged.
    """

    name: Annotated[Line, Field(max_length=120)] | None = None
    tags: Annotated[list[Tag], Field(max_length=16)] = []
    favourite: bool = False
    notes: Annotated[Text, Field(max_length=4000)] = ""


class TakeFields(TakeChanges):
    """Metadata fields that the client sends with a new recording.

    ``samples`` (the number of samples) and ``sha256`` must match the uploaded audio.
    """

    room: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
    mode: Annotated[str, AfterValidator(_mode)]
    text: Annotated[Text, Field(max_length=100_000)]
    # Text that was sent to the runtime, if pronunciations replaced words.
    spoken: Annotated[Text, Field(max_length=100_000)] | None = None
    label: Annotated[Text, Field(max_length=200)] | None = None
    config: Annotated[dict[str, Any], AfterValidator(_without_sound)] = {}
    seed: Annotated[int, Field(ge=0, le=2**64 - 1)] | None = None
    model: Annotated[Text, Field(max_length=500)] | dict[str, Any] | None = None
    voice: Annotated[Text, Field(max_length=200)] | None = None
    language: Annotated[Text, Field(max_length=64)] | None = None
    metrics: dict[str, Any] | None = None
    stop_reason: Annotated[str, Field(max_length=40)] | None = None
    parent: Id | None = None
    samples: int | None = None
    sha256: str | None = None


class TakeIds(Fields):
    """Request with the ids of recordings that are moved into the recycle bin or restored."""

    takes: Annotated[list[Id], Field(max_length=MAX_REQUEST_TAKES)]


class TakeCount(Fields):
    """Request with the number of recordings that are moved into the recycle bin."""

    takes: Annotated[int, Field(ge=1, le=10**6)]


class Pronunciation(Fields):
    """Stored entry of a pronunciation dictionary: a word and its spoken form."""

    word: Annotated[Line, Field(min_length=1, max_length=80)]
    said: Annotated[Line, Field(min_length=1, max_length=200)]


def _each_once(words: list[Pronunciation]) -> list[Pronunciation]:
    known: set[str] = set()
    for number, entry in enumerate(words):
        if entry.word in known:
            raise ValueError(f"word {number + 1} is listed twice")
        known.add(entry.word)
    return words


class PronunciationFields(Fields):
    """Pronunciation dictionary as the page sends it, with all fields validated."""

    words: Annotated[list[Pronunciation], Field(max_length=MAX_WORDS), AfterValidator(_each_once)]
    updated_at: float | None = None


class RequestPronunciation(Fields):
    """Entry of a pronunciation dictionary in an API request (docs/api.md).

    The field `say_as` is the text that is spoken instead of `word`.
    """

    word: Annotated[Line, Field(min_length=1, max_length=80)]
    say_as: Annotated[Line, Field(min_length=1, max_length=200)]


class TextToSay(Fields):
    """Request to replace words of a text by their pronunciations.

    The pronunciations in the request override the entries of the visitor's dictionary.
    """

    text: Annotated[Text, Field(max_length=100_000)]
    pronunciations: Annotated[list[RequestPronunciation], Field(max_length=MAX_REQUEST_WORDS)] = []


class TakeVoice(Fields):
    """Request that stores a recording of generated speech as a voice with a name."""

    name: Annotated[Line, Field(min_length=1)]


class ScriptLine(BaseModel):
    """Fields that the store validates in one line of a speech script.

    The page may add further fields, which are stored unchanged.
    """

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    id: Id
    text: Annotated[Text, Field(max_length=100_000)] = ""


class ScriptHead(BaseModel):
    """Fields of a speech script, without its lines."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    name: Annotated[Line, Field(max_length=120)] = ""
    updated_at: float | None = None


Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], fields: dict[str, Any], within: str = "") -> Model:
    """Validate a JSON object that a client has sent, and return it as an object of `model`.

    `within` is the path of the object in the request body, for error messages.

    Raises:
        InvalidConfig: A field is missing, unknown or invalid.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        path, why = first_fault(error, fields)
        where = ".".join(part for part in (within, path) if part) or "body"
        raise InvalidConfig(where=where, why=why, param=where) from None


def decode(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object that a client has sent.

    Values that cannot be stored are refused (runtime/shared/strict_json.py).

    Raises:
        InvalidMessage: The text is not a JSON object, or has values that cannot be stored.
    """
    try:
        return parse_object(text)
    except ValueError as error:
        raise InvalidMessage(why=str(error)) from None


def displayed_text(record: dict[str, Any]) -> str:
    """Return the original text of a recording, without style tags."""
    return _untagged(record, record["text"])


def spoken_text(record: dict[str, Any]) -> str:
    """Return the spoken text of a recording, without style tags.

    It differs from the original text if words were replaced by their pronunciations.
    """
    return _untagged(record, record.get("spoken") or record["text"])


def _untagged(record: dict[str, Any], text: str) -> str:
    return untagged(text) if record["config"].get("tags") else text


def is_script_id(text: str) -> bool:
    """Return True if the text is a valid id of a stored speech script."""
    return _SCRIPT_ID.fullmatch(text) is not None


def preferences_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Validate the preferences that a client has sent, and return them.

    The value None deletes a preference.

    Raises:
        InvalidConfig: A name or a value is invalid.
    """
    for name, value in fields.items():
        why = None
        if _KEY.fullmatch(name) is None:
            why = "the name of a preference must be short and have only lower-case letters, digits and _"
        elif not isinstance(value, str | int | float | bool | None):
            why = "it must be a string, a number, a boolean or null"
        elif isinstance(value, str) and (len(value) > 1000 or "\x00" in value):
            why = "it must be a text of at most 1000 characters"
        elif name == "language" and value is not None and not _LANGUAGE.fullmatch(str(value)):
            why = "it must be a language code such as en or zh"
        elif name == "theme" and value not in {None, "system", "light", "dark"}:
            why = "it must be system, light or dark"
        if why is not None:
            raise InvalidConfig(where=name[:40], why=why, param=name[:40])
    return fields
