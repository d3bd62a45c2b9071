"""Messages of the server in the native protocol ``voicewright.speech.v1``.

protocol_page.py generates docs/protocol.md and the JSON schema from these types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE, Finished, ModelCard, Queued, Started
from runtime.server.descriptions import Metrics, Model, finish_notes, metrics, model_entry
from runtime.server.native.contexts import NativeUtterance
from runtime.server.wire import SAMPLE_BYTES
from runtime.settings import Limits

PROTOCOL: Final = "voicewright.speech.v1"


def _limits_schema() -> dict[str, Any]:
    kinds = {int: "integer", float: "number"}
    return {
        "type": "object",
        "description": "limits of a request, by the lower-case names of docs/settings.md (max_text_chars)",
        "properties": {
            limit.name: {"type": kinds[type(limit.default)], "description": limit.metadata["about"]}
            for limit in fields(Limits)
        },
    }


ContextName = Annotated[str, Field(description="name of the utterance")]
LimitsNow = Annotated[dict[str, Any], WithJsonSchema(_limits_schema())]


class AudioFormat(TypedDict):
    """Format of the audio in all messages."""

    encoding: Literal["pcm_s16le"]
    sample_rate: int
    channels: Literal[1]


class SessionCreated(TypedDict):
    """First message of every session."""

    type: Literal["session.created"]
    protocol: Literal["voicewright.speech.v1"]
    server: Annotated[str, Field(description="version of the server")]
    session_id: Annotated[str, Field(description="also in the server's log")]
    audio: AudioFormat
    models: list[Model]
    limits: LimitsNow


class Queue(TypedDict):
    """Queue position of an utterance that waits for a slot."""

    type: Literal["queue"]
    context_id: ContextName
    position: Annotated[int, Field(description="0: next in the queue")]
    eta_ms: Annotated[float | None, Field(description="estimated wait; null: unknown")]


class AudioStart(TypedDict):
    """Start of an utterance: it has a slot, and audio follows."""

    type: Literal["audio.start"]
    context_id: ContextName
    channel: Annotated[int, Field(description="channel number in labelled frames")]
    frames: Literal["plain", "labelled"]
    format: Literal["pcm"]
    sample_rate: int
    mode: str
    model: str
    voice: Annotated[str | None, Field(description="speaker or stored voice; null: none")]
    seed: int
    notes: Annotated[list[str], Field(description="notes about replaced or ignored settings")]


class DialogueTurnStart(TypedDict):
    """Start of a dialogue turn."""

    type: Literal["dialogue.turn"]
    context_id: ContextName
    turn: int
    first_sample: Annotated[int, Field(description="index of the first sample in the utterance")]
    voice: str | None
    notes: list[str]


class AudioDone(TypedDict):
    """Last message of a completed utterance."""

    type: Literal["audio.done"]
    context_id: ContextName
    channel: int
    total_bytes: int
    total_samples: int
    stop_reason: Annotated[
        str,
        Field(
            description="eos; max_tokens: max_frames or the end of the slot was reached; "
            "runaway: the speech did not end; short: much less audio than the text needs"
        ),
    ]
    seed: int | None
    error: Literal[False]
    notes: Annotated[list[str], Field(description="notes about detected speech problems")]
    metrics: Metrics


class ContextCancelled(TypedDict):
    """Last message of a cancelled utterance."""

    type: Literal["context.cancelled"]
    context_id: ContextName
    sent_ms: Annotated[float, Field(description="sent audio in ms")]
    played_ms: Annotated[float | None, Field(description="last reported playback position")]


class Error(TypedDict):
    """Error message, which is the last message of the utterance `context_id`.

    A null id means that a message was refused or the socket closes.
    """

    type: Literal["error"]
    message: Annotated[str, Field(description="human-readable message")]
    code: Annotated[str, Field(description="stable code of docs/api.md")]
    param: Annotated[str | None, Field(description="the invalid field")]
    retryable: bool
    facts: Annotated[dict[str, Any], Field(description="values in the message, for translations")]
    context_id: str | None
    partial_audio: NotRequired[Annotated[Literal[True], Field(description="some audio was already sent")]]
    retry_after_s: NotRequired[Annotated[float, Field(description="seconds to wait before a retry")]]


class Pong(TypedDict):
    """Response to ping."""

    type: Literal["pong"]
    t: float | None


class SessionExpiring(TypedDict):
    """Warning that the socket has been open for almost `limits.session_s` and will close."""

    type: Literal["session.expiring"]
    remaining_s: float


class SessionDone(TypedDict):
    """Response to session.close, sent before close code 1000."""

    type: Literal["session.done"]
    utterances: int


ServerMessage = (
    SessionCreated
    | Queue
    | AudioStart
    | DialogueTurnStart
    | AudioDone
    | ContextCancelled
    | Error
    | Pong
    | SessionExpiring
    | SessionDone
)


def session_created(session_id: str, server: str, cards: Sequence[ModelCard], limits: Limits) -> SessionCreated:
    return {
        "type": "session.created",
        "protocol": PROTOCOL,
        "server": server,
        "session_id": session_id,
        "audio": {"encoding": "pcm_s16le", "sample_rate": SAMPLE_RATE, "channels": 1},
        "models": [model_entry(card) for card in cards],
        "limits": asdict(limits),
    }


def queue(context_id: str, event: Queued) -> Queue:
    eta_ms = None if event.eta_ms is None else round(event.eta_ms, 3)
    return {"type": "queue", "context_id": context_id, "position": event.position, "eta_ms": eta_ms}


def audio_start(utterance: NativeUtterance, event: Started) -> AudioStart:
    return {
        "type": "audio.start",
        "context_id": utterance.name,
        "channel": utterance.channel,
        "frames": utterance.voice.config.frames,
        "format": "pcm",
        "sample_rate": SAMPLE_RATE,
        "mode": utterance.voice.resolved.mode.value,
        "model": event.checkpoint,
        "voice": utterance.voice_name,
        "seed": event.seed,
        "notes": list(event.notes),
    }


def dialogue_turn(utterance: NativeUtterance, event: Started) -> DialogueTurnStart:
    return {
        "type": "dialogue.turn",
        "context_id": utterance.name,
        "turn": utterance.turn,
        "first_sample": utterance.turn_start,
        "voice": utterance.voice_name,
        "notes": list(event.notes),
    }


def audio_done(utterance: NativeUtterance, event: Finished) -> AudioDone:
    return {
        "type": "audio.done",
        "context_id": utterance.name,
        "channel": utterance.channel,
        "total_bytes": utterance.samples * SAMPLE_BYTES,
        "total_samples": utterance.samples,
        "stop_reason": event.stop_reason.value,
        "seed": utterance.seed,
        "error": False,
        "notes": finish_notes(event),
        "metrics": metrics(event.stats),
    }


def context_cancelled(context_id: str, played_ms: float | None, sent_samples: int = 0) -> ContextCancelled:
    sent_ms = round(sent_samples * 1000 / SAMPLE_RATE, 3)
    return {"type": "context.cancelled", "context_id": context_id, "sent_ms": sent_ms, "played_ms": played_ms}


def error(problem: SpeechError, context_id: str | None = None, *, partial_audio: bool = False) -> Error:
    reply: Error = {
        "type": "error",
        "message": str(problem),
        "code": problem.code,
        "param": problem.param,
        "retryable": problem.retryable,
        "facts": problem.public_facts,
        "context_id": context_id,
    }
    if partial_audio:
        reply["partial_audio"] = True
    if isinstance(wait_s := problem.facts.get("retry_after_s"), int | float):
        reply["retry_after_s"] = wait_s
    return reply
