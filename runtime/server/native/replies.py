"""Makes the server's messages of ``voicewright.speech.v1``: their types, and one function each.

The types are plain dicts at run time. docs/protocol.md and the JSON schema come from them (protocol.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE, Finished, ModelCard, Queued, RequestStats, Started, StopReason
from runtime.server.native.contexts import NativeUtterance
from runtime.settings import Limits

PROTOCOL: Final = "voicewright.speech.v1"

Reply = Mapping[str, Any]

BYTES_PER_SAMPLE = 2  # s16le, mono
# A quarter of a second: control messages and other contexts pass between the pieces of a long chunk.
PIECE_BYTES = SAMPLE_RATE // 4 * BYTES_PER_SAMPLE


def _limits_schema() -> dict[str, Any]:
    kinds = {int: "integer", float: "number"}
    return {
        "type": "object",
        "properties": {
            one.name: {"type": kinds[type(one.default)], "description": one.metadata["about"]} for one in fields(Limits)
        },
    }


ContextName = Annotated[str, Field(description="the utterance")]
LimitsNow = Annotated[dict[str, Any], WithJsonSchema(_limits_schema())]


class Model(TypedDict):
    """A loaded checkpoint, as /v1/models lists it too."""

    id: Annotated[str, Field(description="a name, never a path")]
    object: Literal["model"]
    created: Annotated[int, Field(description="seconds since the epoch, when its files came here")]
    owned_by: str
    modes: Sequence[str]
    speakers: Sequence[str]
    languages: Annotated[Sequence[str], Field(description="without auto, which always works")]
    layouts: Sequence[str]
    takes_instruct: bool
    speaks: Annotated[bool, Field(description="false: random weights, it makes sound but not speech")]
    part_chars: Annotated[int, Field(description="characters that are spoken as one part; longer texts are split")]
    fingerprint: Annotated[str, Field(description="of configuration and weights")]
    loaded: Annotated[bool, Field(description="false: it is loaded at its first request")]
    samples_per_frame: int
    device: str
    dtype: str
    sample_rate: int


class AudioFormat(TypedDict):
    """Of every sound."""

    encoding: Literal["pcm_s16le"]
    sample_rate: int
    channels: Literal[1]


class SessionCreated(TypedDict):
    """Always the first message."""

    type: Literal["session.created"]
    protocol: Literal["voicewright.speech.v1"]
    server: Annotated[str, Field(description="its version")]
    session_id: Annotated[str, Field(description="also in the server's log")]
    audio: AudioFormat
    models: list[Model]
    limits: LimitsNow


class Queue(TypedDict):
    """The utterance waits for a slot."""

    type: Literal["queue"]
    context_id: ContextName
    position: Annotated[int, Field(description="0 is next")]
    eta_ms: Annotated[float | None, Field(description="estimated wait; null: nothing to judge by yet")]


class AudioStart(TypedDict):
    """The utterance holds a slot; sound follows."""

    type: Literal["audio.start"]
    context_id: ContextName
    channel: Annotated[int, Field(description="of its labelled frames")]
    frames: Literal["plain", "labelled"]
    format: Literal["pcm"]
    sample_rate: int
    mode: str
    model: str
    voice: Annotated[str | None, Field(description="the speaker or stored voice; null where there is none")]
    seed: int
    notes: Annotated[list[str], Field(description="sentences about what the checkpoint ignores")]


class Metrics(TypedDict):
    """Figures of one utterance, times in milliseconds."""

    queue_ms: float
    prefill_ms: float
    ttfa_ms: Annotated[float | None, Field(description="from submission to the first sound; null without sound")]
    total_ms: float
    prompt_tokens: int
    frames: Annotated[int, Field(description="codec frames of 80 ms")]
    audio_s: float
    parts: Annotated[int, Field(description="into which the text was split")]
    repeated: Annotated[int, Field(description="of them that were made twice, being much too short at first")]
    underruns: Annotated[int, Field(description="chunks that came after a listener without a buffer had run dry")]
    guard: Annotated[str | None, Field(description="what was wrong: budget, repetition, silence, short")]
    rtf: Annotated[float | None, Field(description="compute time over audio time")]


class AudioDone(TypedDict):
    """Terminal: the utterance was spoken."""

    type: Literal["audio.done"]
    context_id: ContextName
    channel: int
    total_bytes: int
    total_samples: int
    stop_reason: Annotated[
        str,
        Field(
            description="eos; max_tokens: max_frames or the slot is used up; runaway: a guard stopped it; "
            "short: much less sound than the text can be said in"
        ),
    ]
    seed: int | None
    error: Literal[False]
    notes: Annotated[list[str], Field(description="sentences about what is wrong with the speech")]
    metrics: Metrics


class ContextCancelled(TypedDict):
    """Terminal: nothing of the utterance follows."""

    type: Literal["context.cancelled"]
    context_id: ContextName
    sent_ms: Annotated[float, Field(description="of sound that had left the server")]
    played_ms: Annotated[float | None, Field(description="as last reported")]


class Error(TypedDict):
    """Terminal where context_id is not null; else one message was refused, or the socket is about to close."""

    type: Literal["error"]
    message: Annotated[str, Field(description="one sentence for people")]
    code: Annotated[str, Field(description="stable; docs/api.md lists them")]
    param: Annotated[str | None, Field(description="the field")]
    retryable: bool
    facts: Annotated[dict[str, Any], Field(description="the figures and names of the sentence, to word it otherwise")]
    context_id: str | None
    partial_audio: NotRequired[Annotated[Literal[True], Field(description="sound was sent before")]]
    retry_after_s: NotRequired[Annotated[float, Field(description="when to try again, where that is known")]]


class Pong(TypedDict):
    """Answer to ping."""

    type: Literal["pong"]
    t: float | None


class SessionExpiring(TypedDict):
    """The socket has been open for almost limits.session_s and will be closed."""

    type: Literal["session.expiring"]
    remaining_s: float


class SessionDone(TypedDict):
    """Answer to session.close; close 1000 follows."""

    type: Literal["session.done"]
    utterances: int


ServerMessage = (
    SessionCreated | Queue | AudioStart | AudioDone | ContextCancelled | Error | Pong | SessionExpiring | SessionDone
)


def card(model: ModelCard) -> Model:
    """Describe a loaded checkpoint as /v1/models and session.created do."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "voicewright",
        "modes": model.modes,
        "speakers": model.speakers,
        "languages": model.languages,
        "layouts": model.layouts,
        "takes_instruct": model.takes_instruct,
        "speaks": model.speaks,
        "part_chars": model.part_chars,
        "fingerprint": model.fingerprint,
        "loaded": model.loaded,
        "samples_per_frame": model.samples_per_frame,
        "device": model.device,
        "dtype": model.dtype,
        "sample_rate": SAMPLE_RATE,
    }


def session_created(session_id: str, server: str, cards: Sequence[ModelCard], limits: Limits) -> SessionCreated:
    return {
        "type": "session.created",
        "protocol": PROTOCOL,
        "server": server,
        "session_id": session_id,
        "audio": {"encoding": "pcm_s16le", "sample_rate": SAMPLE_RATE, "channels": 1},
        "models": [card(model) for model in cards],
        "limits": asdict(limits),
    }


def queue(context_id: str, event: Queued) -> Queue:
    eta_ms = None if event.eta_ms is None else round(event.eta_ms, 3)
    return {"type": "queue", "context_id": context_id, "position": event.position, "eta_ms": eta_ms}


def audio_start(one: NativeUtterance, event: Started) -> AudioStart:
    return {
        "type": "audio.start",
        "context_id": one.context_id,
        "channel": one.channel,
        "frames": one.voice.config.frames,
        "format": "pcm",
        "sample_rate": SAMPLE_RATE,
        "mode": one.voice.resolved.mode.value,
        "model": event.checkpoint,
        "voice": one.voice.name,
        "seed": event.seed,
        "notes": list(event.notes),
    }


def audio_done(one: NativeUtterance, event: Finished) -> AudioDone:
    return {
        "type": "audio.done",
        "context_id": one.context_id,
        "channel": one.channel,
        "total_bytes": one.total_bytes,
        "total_samples": one.total_bytes // BYTES_PER_SAMPLE,
        "stop_reason": event.stop_reason.value,
        "seed": one.seed,
        "error": False,
        "notes": end_notes(event),
        "metrics": metrics(event.stats),
    }


def end_notes(event: Finished) -> list[str]:
    """Sentences about what is wrong with the speech that has ended."""
    notes = []
    if event.stats.repeated:
        notes.append("A part of the text ended much too early and was spoken again.")
    if event.stop_reason is StopReason.SHORT:
        notes.append("The speech is much shorter than its text; words are missing.")
    return notes


def metrics(stats: RequestStats) -> Metrics:
    return {
        "queue_ms": round(stats.queue_ms, 3),
        "prefill_ms": round(stats.prefill_ms, 3),
        "ttfa_ms": None if stats.ttfa_ms is None else round(stats.ttfa_ms, 3),
        "total_ms": round(stats.total_ms, 3),
        "prompt_tokens": stats.prompt_tokens,
        "frames": stats.frames,
        "audio_s": round(stats.audio_s, 3),
        "parts": stats.parts,
        "repeated": stats.repeated,
        "underruns": stats.underruns,
        "guard": stats.guard,
        "rtf": None if stats.rtf is None else round(stats.rtf, 3),
    }


def context_cancelled(one: NativeUtterance) -> ContextCancelled:
    sent_ms = one.sent_bytes // BYTES_PER_SAMPLE * 1000 / SAMPLE_RATE
    return {
        "type": "context.cancelled",
        "context_id": one.context_id,
        "sent_ms": round(sent_ms, 3),
        "played_ms": one.played_ms,
    }


def error(problem: SpeechError, context_id: str | None = None, *, partial_audio: bool = False) -> Error:
    reply: Error = {
        "type": "error",
        "message": str(problem),
        "code": problem.code,
        "param": problem.param,
        "retryable": problem.retryable,
        "facts": problem.told,
        "context_id": context_id,
    }
    if partial_audio:
        reply["partial_audio"] = True
    if isinstance(wait_s := problem.facts.get("retry_after_s"), int | float):
        reply["retry_after_s"] = wait_s
    return reply


def pong(t: float | None) -> Pong:
    return {"type": "pong", "t": t}


def session_expiring(remaining_s: float) -> SessionExpiring:
    return {"type": "session.expiring", "remaining_s": remaining_s}


def session_done(utterances: int) -> SessionDone:
    return {"type": "session.done", "utterances": utterances}
