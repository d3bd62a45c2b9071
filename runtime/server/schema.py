"""The client's messages of ``voicewright.speech.v1``, read strictly: the one edge where they are checked.

Field names are vLLM-Omni's where it has them, so that its clients' configurations work here. Unknown keys
are ignored, as there. No sentence of an error quotes what the client sent.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from runtime.errors import InvalidConfig, InvalidMessage
from runtime.request import Layout, Mode, Reference, Sampling, SpeechRequest

MODES = {
    **{mode.value: mode for mode in Mode},
    "CustomVoice": Mode.CUSTOM_VOICE,
    "VoiceDesign": Mode.VOICE_DESIGN,
    "Base": Mode.BASE,
}


def _mode(word: object) -> object:
    if isinstance(word, str) and word in MODES:
        return MODES[word]
    raise ValueError("it must be CustomVoice, VoiceDesign or Base")


def _whole(text: str) -> str:
    if "\x00" in text:
        raise ValueError("it holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    return text


def _pcm(word: str) -> str:
    if word != "pcm":
        raise ValueError("it must be pcm; other formats are not served on this route")
    return word


ContextId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
Text = Annotated[str, AfterValidator(_whole)]
Name = Annotated[Text, StringConstraints(max_length=256)]
Milliseconds = Annotated[float, Field(ge=0, le=1e9)]
Temperature = Annotated[float, Field(gt=0, le=5)]
TopK = Annotated[int, Field(ge=0, le=100_000)]
TopP = Annotated[float, Field(gt=0, le=1)]


class Message(BaseModel):
    """What all messages share."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)

    context_id: ContextId | None = None


class SessionConfig(Message):
    """How the contexts that open later speak."""

    type: Literal["session.config"]
    task_type: Annotated[Mode, BeforeValidator(_mode)] | None = None
    model: Name | None = None
    voice: Name | None = Field(None, validation_alias=AliasChoices("voice", "speaker"))
    language: Name | None = None
    instruct: Text | None = Field(None, validation_alias=AliasChoices("instructions", "instruct", "voice_description"))
    response_format: Annotated[str, AfterValidator(_pcm)] = "pcm"
    ref_audio: str | None = Field(None, repr=False)
    ref_text: Text | None = None
    x_vector_only_mode: bool = False
    non_streaming_mode: bool | None = None
    frames: Literal["plain", "labelled"] = "plain"
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    max_frames: Annotated[int, Field(ge=1)] | None = None
    max_new_tokens: Annotated[int, Field(ge=2)] | None = None
    do_sample: bool = True
    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: TopP | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: TopP | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_name_each(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for names in (("voice", "speaker"), ("instructions", "instruct", "voice_description")):
            given = [fields[name] for name in names if fields.get(name) is not None]
            if any(value != given[0] for value in given[1:]):
                raise ValueError(f"{' and '.join(names)} are the same field and differ")
        # An alias that is null must not hide the other one that is set.
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def frame_limit(self) -> int | None:
        """The asked number of frames; the last of max_new_tokens is the end token and no frame."""
        if self.max_frames is None and self.max_new_tokens is not None:
            return self.max_new_tokens - 1
        return self.max_frames

    @property
    def layout(self) -> Layout | None:
        if self.non_streaming_mode is None:
            return None
        return Layout.NON_STREAMING if self.non_streaming_mode else Layout.STREAMING

    def request(self, text: str, mode: Mode, reference: Reference | None) -> SpeechRequest:
        """Return the utterance that this configuration makes of a text."""
        return SpeechRequest(
            text=text,
            mode=mode,
            voice=self.voice,
            language=self.language or "auto",
            instruct=self.instruct,
            reference=reference,
            layout=self.layout,
            sampling=Sampling(
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                repetition_penalty=self.repetition_penalty,
                predictor_temperature=self.subtalker_temperature,
                predictor_top_k=self.subtalker_top_k,
                predictor_top_p=self.subtalker_top_p,
                greedy=not self.do_sample,
            ),
            seed=self.seed,
            max_frames=self.frame_limit,
        )


class InputText(Message):
    """More of an utterance's text."""

    type: Literal["input.text"]
    text: Text


class InputFlush(Message):
    type: Literal["input.flush"]


class InputDone(Message):
    """The text is complete."""

    type: Literal["input.done"]


class ContextCancel(Message):
    type: Literal["context.cancel"]
    played_ms: Milliseconds | None = None


class Playback(Message):
    """What the listener has heard so far."""

    type: Literal["playback"]
    played_ms: Milliseconds
    buffered_ms: Milliseconds | None = None


class Ping(Message):
    type: Literal["ping"]
    t: float | int | None = None


class SessionClose(Message):
    type: Literal["session.close"]


ClientMessage = SessionConfig | InputText | InputFlush | InputDone | ContextCancel | Playback | Ping | SessionClose
MESSAGES: dict[str, type[ClientMessage]] = {
    "session.config": SessionConfig,
    "input.text": InputText,
    "input.flush": InputFlush,
    "input.done": InputDone,
    "context.cancel": ContextCancel,
    "playback": Playback,
    "ping": Ping,
    "session.close": SessionClose,
}
Checked = TypeVar("Checked", bound=BaseModel)
_CONTEXT_ID = TypeAdapter(ContextId)


def decode(text: str) -> dict[str, Any]:
    """Read one text message as a JSON object, stricter than ``json.loads``.

    Raises:
        InvalidMessage: not JSON, not an object, a key twice, a number that is not finite, nested too deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise InvalidMessage(why=f"the syntax breaks at character {error.pos}") from None
    except RecursionError:
        raise InvalidMessage(why="it is nested too deep") from None
    except ValueError:  # an integer of thousands of digits
        raise InvalidMessage(why="a number in it is too long") from None
    if not isinstance(value, dict):
        raise InvalidMessage(why="it is another JSON value")
    return value


def parse(fields: dict[str, Any]) -> ClientMessage:
    """Check a decoded message.

    Raises:
        InvalidConfig: unknown type, or a field of the wrong type or out of its range.
    """
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise InvalidConfig(where="type", why=f"it must be one of {', '.join(MESSAGES)}", param="type")
    return checked(MESSAGES[kind], fields)


def checked(kind: type[Checked], fields: dict[str, Any]) -> Checked:
    """Check fields against a model.

    Raises:
        InvalidConfig: a field of the wrong type or out of its range; the first that is found.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _sentence(error) from None


def context_of(fields: dict[str, Any]) -> str | None:
    """Return the context id of a message that may be wrong elsewhere, or None."""
    try:
        return _CONTEXT_ID.validate_python(fields.get("context_id"), strict=True)
    except ValidationError:
        return None


def _sentence(error: ValidationError) -> InvalidConfig:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = str(first["loc"][0]) if first["loc"] else None
    why = first["msg"].removeprefix("Value error, ")
    return InvalidConfig(where=where or "The message", why=why[0].lower() + why[1:], param=where)


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
