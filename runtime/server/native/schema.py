"""Messages of the client in the native protocol ``voicewright.speech.v1``.

Error messages never contain the client's input.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from runtime.errors import InvalidConfig
from runtime.server.session.dialogue import MAX_TURN_PAUSE_MS, MAX_TURNS, TURN_PAUSE_MS
from runtime.server.session.speech_fields import SpeechFields
from runtime.server.wire import Name, StrictFields, Text, VoiceFields, validate_fields


def _pcm(word: str) -> str:
    if word != "pcm":
        raise ValueError("it must be pcm; other formats are not served on this route")
    return word


ContextId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
Milliseconds = Annotated[float, Field(ge=0, le=1e9)]


class Message(StrictFields):
    """Base class of all client messages in the native protocol."""

    context_id: ContextId | None = Field(None, description="name of the utterance; null: default")


class SessionConfig(SpeechFields, Message):
    """Settings of all later contexts, or only of the next utterance of `context_id`."""

    type: Literal["session.config"]
    response_format: Annotated[str, AfterValidator(_pcm)] = Field("pcm", description="only pcm")
    frames: Literal["plain", "labelled"] = Field("plain", description="format of binary messages")


class InputText(Message):
    """Text to append to an utterance, which the first text opens.

    Speech may start immediately.
    """

    type: Literal["input.text"]
    text: Text


class DialogueTurn(VoiceFields):
    """Turn of a dialogue."""

    text: Text
    voice: Name | None = Field(None, description="null: voice of session.config")

    @property
    def voice_name(self) -> str | None:
        return self.voice


class InputDialogue(Message):
    """Complete dialogue with one audio stream and seed."""

    type: Literal["input.dialogue"]
    inputs: Annotated[list[DialogueTurn], Field(min_length=1, max_length=MAX_TURNS)] = Field(description="in sequence")
    turn_pause_ms: Annotated[float, Field(ge=0, le=MAX_TURN_PAUSE_MS)] = Field(
        TURN_PAUSE_MS, description="pause between turns in ms"
    )


class InputFlush(Message):
    """Request to speak all text so far, even if the last word is incomplete."""

    type: Literal["input.flush"]


class InputDone(Message):
    """End of the text."""

    type: Literal["input.done"]


class ContextCancel(Message):
    """Request to cancel the utterance, unless it has ended."""

    type: Literal["context.cancel"]
    played_ms: Milliseconds | None = Field(None, description="played audio, returned in the response")


class Playback(Message):
    """Playback position of the listener."""

    type: Literal["playback"]
    played_ms: Milliseconds = Field(description="playback position in the utterance")
    buffered_ms: Milliseconds | None = Field(None, description="received audio that is not played yet")


class Ping(Message):
    """Request for a pong, which also keeps an idle session open."""

    type: Literal["ping"]
    t: float | int | None = Field(None, description="returned in the pong")


class SessionClose(Message):
    """Request to cancel all utterances and close the session."""

    type: Literal["session.close"]


ClientMessage = (
    SessionConfig | InputText | InputDialogue | InputFlush | InputDone | ContextCancel | Playback | Ping | SessionClose
)
MESSAGES: dict[str, type[ClientMessage]] = {
    "session.config": SessionConfig,
    "input.text": InputText,
    "input.dialogue": InputDialogue,
    "input.flush": InputFlush,
    "input.done": InputDone,
    "context.cancel": ContextCancel,
    "playback": Playback,
    "ping": Ping,
    "session.close": SessionClose,
}
_CONTEXT_ID = TypeAdapter(ContextId)


def parse(fields: dict[str, Any]) -> ClientMessage:
    """Validate a decoded client message and return a message object of its type.

    Raises:
        InvalidConfig: The type is unknown, or a field has the wrong type or is out of range.
    """
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise InvalidConfig(where="type", why=f"it must be one of {', '.join(MESSAGES)}", param="type")
    return validate_fields(MESSAGES[kind], fields)


def context_of(fields: dict[str, Any]) -> str | None:
    """Return the context id of an invalid message, or None if the id is also invalid."""
    try:
        return _CONTEXT_ID.validate_python(fields.get("context_id"), strict=True)
    except ValidationError:
        return None
