"""What the client's user hands in and gets back. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from runtime.request import RequestStats


class Config(TypedDict, total=False):
    """How an utterance is to be spoken: the fields of ``session.config`` (docs/api.md)."""

    task_type: str
    model: str
    voice: str
    language: str
    instructions: str
    ref_audio: str | bytes  # bytes: of a sound file
    ref_text: str
    x_vector_only_mode: bool
    non_streaming_mode: bool
    split_granularity: str
    max_buffer_delay_ms: float
    text_filter: str  # "none" where a whole text is spoken and nothing else is said
    initial_codec_chunk_frames: int
    seed: int
    max_frames: int
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float


class SpeechRefused(Exception):
    """The runtime's no: a stable ``code`` (docs/api.md, Errors), a sentence for people, the field at fault."""

    def __init__(self, code: str, message: str, param: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.param, self.retryable = code, message, param, retryable

    @classmethod
    def from_fields(cls, error: Mapping[str, Any]) -> Self:
        return cls(error["code"], error["message"], error.get("param"), bool(error.get("retryable")))


class ConnectionLost(SpeechRefused):
    """Nobody answers, or the connection broke while something was in flight."""

    def __init__(self) -> None:
        sentence = "The connection to the runtime was lost or could not be made; connect again."
        super().__init__("runtime_unavailable", sentence, retryable=True)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next piece of an utterance: mono s16le at ``SAMPLE_RATE``, and the index of its first sample."""

    pcm: bytes
    first_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The utterance holds a slot. ``notes`` are sentences about what the checkpoint ignores."""

    model: str
    mode: str
    voice: str | None
    seed: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The utterance was spoken to its end. ``stop_reason`` is a `runtime.request.StopReason`."""

    stop_reason: str
    seed: int
    samples: int
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The utterance was stopped; milliseconds of it that had left the runtime, and that were reported as played."""

    sent_ms: float
    played_ms: float | None


End = Done | Cancelled | SpeechRefused
