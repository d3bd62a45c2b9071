"""The values that every room shares: what is asked for, what comes back, and how it ended. No behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from runtime.errors import SpeechError

SAMPLE_RATE = 24_000  # Hz, of every sound that leaves the engine


class Mode(StrEnum):
    """How the voice is chosen; published checkpoints serve one mode each."""

    CUSTOM_VOICE = "custom_voice"
    VOICE_DESIGN = "voice_design"
    BASE = "base"


class Layout(StrEnum):
    """Where the text stands: in front of the codes, or beside them one token a frame (facts 3.3, 3.4)."""

    NON_STREAMING = "non_streaming"
    STREAMING = "streaming"


class StopReason(StrEnum):
    """Why a request's frames ended."""

    EOS = "eos"  # the talker said so
    MAX_TOKENS = "max_tokens"  # the caller's own max_frames, or the slot, was used up
    RUNAWAY = "runaway"  # the frame budget of the text was used up without an end
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of both sampling levels. None means: as the checkpoint's generation_config.json says.

    ``greedy`` takes the most probable code at both levels and leaves penalty and EOS rules as they are.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    predictor_temperature: float | None = None
    predictor_top_k: int | None = None
    predictor_top_p: float | None = None
    greedy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A voice to clone.

    Shapes: samples [N] float32 in [-1, 1], mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    text: str | None = None  # the exact words of the audio; needed unless x_vector_only
    x_vector_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """One utterance. Fields that a mode does not use are ignored by it."""

    text: str
    mode: Mode
    voice: str | None = None  # speaker name, CustomVoice
    language: str = "auto"
    instruct: str | None = None  # VoiceDesign's description, CustomVoice's style
    reference: Reference | None = None  # Base
    layout: Layout | None = None  # None: the mode's own default
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None  # None: one is drawn and reported
    max_frames: int | None = None  # None: a budget from the text's length


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a loaded checkpoint can do, for /v1/models and the page."""

    name: str  # folder name or Hub id, never a path
    modes: tuple[Mode, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]  # without "auto"
    layouts: tuple[Layout, ...]
    takes_instruct: bool
    speaks: bool  # False: random weights, it makes sound but not speech
    samples_per_frame: int
    device: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """How busy the engine is now."""

    slots: int
    active: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Figures of one finished request, times in milliseconds."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttfa_ms: float | None = None  # submit to first sound handed to the sink; None: no sound was made
    total_ms: float = 0.0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0

    @property
    def rtf(self) -> float | None:
        """Compute time over audio time; None without audio."""
        return (self.total_ms - self.queue_ms) / 1000 / self.audio_s if self.audio_s else None


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits for a slot; ``position`` 0 is next."""

    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The request holds a slot. ``notes`` are plain sentences about what the checkpoint will ignore."""

    seed: int
    checkpoint: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioChunk:
    """Sound of the next frames.

    Shapes: codes [n, Q] int64; pcm is n * samples_per_frame mono s16le samples.
    """

    pcm: bytes
    codes: NDArray[np.int64]
    first_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event of a request that ended as it should, or was cancelled."""

    stop_reason: StopReason
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class Broken:
    """The last event of a request that failed; its neighbours go on."""

    error: SpeechError
    stats: RequestStats


SpeechEvent = Queued | Started | AudioChunk | Finished | Broken
Sink = Callable[[SpeechEvent], None]  # called on the engine's thread; must not block
