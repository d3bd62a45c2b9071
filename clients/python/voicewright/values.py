"""Data types of the client: settings, events and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from voicewright.errors import VoicewrightError


class Config(TypedDict, total=False):
    """Settings of an utterance, such as the voice and the language.

    They are the fields of the message ``session.config`` (docs/api.md).
    """

    task_type: str
    model: str
    voice: str
    language: str
    instructions: str
    graft: bool  # Experimental option that makes a stored voice follow instructions.
    ref_audio: str | bytes  # URL or bytes of an audio file.
    ref_text: str
    x_vector_only_mode: bool
    speaker_embedding: list[float]  # X-vector with the checkpoint's width, instead of ref_audio.
    non_streaming_mode: bool
    split_granularity: str
    max_buffer_delay_ms: float
    tags: bool  # True if the text contains tags such as [excited] and [pause:500ms].
    pronunciations: list[dict[str, Any]]  # Entries {"word": …, "say_as": …}, optionally with "case_sensitive": True.
    pronunciation_dictionaries: list[str]  # Ids of stored dictionaries.
    text_filter: str  # Name of a text filter, such as "markdown". The default for a complete text is "none".
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


class _TurnText(TypedDict):
    text: str


class Turn(_TurnText, total=False):
    """Turn of a dialogue, which has a text and optionally a voice."""

    voice: str


@dataclass(frozen=True, slots=True)
class Queued:
    """Event for an utterance that waits because the runtime has no free slot.

    The utterance at ``position`` 0 gets the next free slot.
    """

    position: int
    eta_ms: float | None = None  # Estimated waiting time, or None before the first request has ended.


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunk of audio (mono, s16le, at ``SAMPLE_RATE``), and the index of its first sample."""

    pcm: bytes
    first_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Event for an utterance that has a slot, so the runtime starts to generate audio.

    ``notes`` describe settings that were ignored.
    """

    model: str
    mode: str
    voice: str | None
    seed: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of a finished utterance, measured by the runtime.

    Times are in milliseconds.
    """

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttfa_ms: float | None = None  # Time to first audio, or None if there was no audio.
    total_ms: float = 0.0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0
    parts: int = 1  # Number of segments into which the text was split.
    repeated: int = 0  # Number of segments that were generated twice.
    underruns: int = 0  # Number of chunks that arrive too late even without network delay.
    guard: str | None = None  # Reason why the runaway detector stopped the speech, or None.
    rtf: float | None = None  # Compute time divided by audio duration.


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Event for an utterance whose speech is complete.

    ``stop_reason`` is eos, max_tokens, short or runaway. ``notes`` describe speech problems.
    """

    stop_reason: str
    seed: int
    samples: int
    stats: Stats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Event for an utterance that was cancelled.

    `sent_ms` is the duration in milliseconds of the audio that was sent, and `played_ms` the duration that was played.
    """

    sent_ms: float
    played_ms: float | None


End = Done | Cancelled | VoicewrightError
