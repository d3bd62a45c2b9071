"""Values shared by all packages: requests, events and stop reasons. No behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from runtime.errors import SpeechError

SAMPLE_RATE = 24_000  # Hz, of every sound that leaves the engine
STRANGE_SCRIPT = (
    "None of this checkpoint's languages is written in the {script} letters of the text; what is heard there are not "
    "its words."
)
NO_SPELLING = (
    "The text has emoji, symbols or letters of another script that this checkpoint cannot read; they were left out."
)
NO_PAUSE = "A tag that begins like a pause was taken as a style; a pause is written [pause] or [pause:500ms]."
DROPPED_STYLES = "This checkpoint follows no style in this mode; the tags that ask for one were left out."
LEFT_OUT_SSML = "SSML tags were left out. In a request with tags: true, <break> and [pause] are pauses."
OTHER_SPEAKER = "The voice that was named is another service's; {speaker} speaks in its place."
DESCRIBED_VOICE = "In this mode the voice is as it is described; the voice that was named was ignored."
RECORDED_VOICE = "The voice is that of the recording; the voice that was named was ignored."


class Mode(StrEnum):
    """Mode of voice selection; each published checkpoint serves one mode."""

    CUSTOM_VOICE = "custom_voice"
    VOICE_DESIGN = "voice_design"
    BASE = "base"


class Layout(StrEnum):
    """Text layout: all text before the codes, or one token next to each frame (docs/model.md 3.3, 3.4)."""

    NON_STREAMING = "non_streaming"
    STREAMING = "streaming"


class Split(StrEnum):
    """Places where a text may be cut into parts, which are spoken in sequence in the same voice.

    A text of one sentence is one part whatever is chosen, and so gives the same codes.
    """

    AUTO = "auto"  # Complete text is one part; streamed text is spoken sentence by sentence.
    NONE = "none"  # One part, spoken when the text is complete.
    SENTENCE = "sentence"
    CLAUSE = "clause"


class StopReason(StrEnum):
    """Reason why a request's frames ended."""

    EOS = "eos"  # The talker sampled EOS.
    MAX_TOKENS = "max_tokens"  # The request's max_frames or the slot was used up.
    SHORT = "short"  # A part ended much too early for its text, and again when it was repeated.
    RUNAWAY = "runaway"  # A guard stopped speech that did not end; RequestStats.guard names it.
    CANCELLED = "cancelled"
    ERROR = "error"


class Guard(StrEnum):
    """Fault that a runaway guard found in the speech."""

    BUDGET = "budget"  # More frames than the text can need.
    REPETITION = "repetition"  # The same few codes in a loop after the end of the text.
    SILENCE = "silence"  # Several seconds without audible speech after the end of the text.
    SHORT = "short"  # Too little audio for the text.


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoicePrompt:
    """Voice prompt that one checkpoint computes from a reference; other checkpoints cannot use it.

    Shapes: x_vector [H] float32; codes [m, Q] int64, None for x-vector only.
    """

    fingerprint: str  # ModelCard.fingerprint of the checkpoint that made it
    x_vector: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """A voice to clone. A ``prompt`` of another checkpoint is ignored and made anew from the samples.

    Shapes: samples [N] float32 in [-1, 1], mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    text: str | None = None  # Exact transcript of the audio; required unless x_vector_only.
    x_vector_only: bool = False
    prompt: VoicePrompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """One utterance. Fields that a mode does not use are ignored by it.

    With ``open_text`` the text goes on by `SpeechEngine.append` until `SpeechEngine.finish_text`. The same text gives
    the same codes however it arrives, as long as it is cut into the same parts and tokens (docs/api.md, Live text).
    """

    text: str
    mode: Mode
    voice: str | None = None  # Speaker name, CustomVoice.
    language: str = "auto"
    instruct: str | None = None  # VoiceDesign's description, CustomVoice's style
    reference: Reference | None = None  # Base, and CustomVoice without a speaker
    layout: Layout | None = None  # None: the mode's own default
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None  # None: one is drawn and reported
    max_frames: int | None = None  # None: a budget from the text's length
    split: Split = Split.AUTO
    tags: bool = False  # The text contains inline tags (runtime/shared/inline_tags.py).
    max_break_s: float | None = None  # A longer <break> is cut to it; None: no limit with ``tags``, else left out.
    open_text: bool = False  # More text follows.
    holds_end: bool = False  # Streaming layout: EOS is banned until the text is used up (docs/model.md 7.1).
    acknowledged: bool = False  # The listener acknowledges audio by `SpeechEngine.taken`.
    first_chunk_frames: int | None = None  # None: the mode's own setting
    yields: bool = False  # Served only while no other request is, cancelled when one arrives, and not counted.
    notes: tuple[str, ...] = ()  # Notes about text left out or replaced before the engine received it.
    graft: bool = False  # CustomVoice with a reference: the checkpoint that reads it embeds text and codes too
    caller: str = ""  # Client of the request. Clients take turns if slots are few; unnamed ones count as one.

    @property
    def takes_reference(self) -> bool:
        """True if the mode speaks with a reference. In CustomVoice its x-vector replaces a speaker's embedding."""
        return self.mode is Mode.BASE or (self.mode is Mode.CUSTOM_VOICE and not self.voice)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Capabilities of a loaded checkpoint, for /v1/models and the page."""

    name: str  # Folder name or Hub id, never a path.
    modes: tuple[Mode, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]  # Without "auto".
    layouts: tuple[Layout, ...]
    takes_instruct: bool
    speaks: bool  # False: random weights, it makes sound but not speech
    fingerprint: str  # Fingerprint of configuration and weights, as in VoicePrompt.
    part_chars: int  # Maximum characters of one part; longer texts are split.
    loaded: bool  # False: it is loaded at its first request
    samples_per_frame: int
    device: str
    dtype: str
    slots: int = 0  # Concurrent requests; 0 until loaded.
    created: int = 0  # Seconds since the epoch at which its configuration was written here.
    sampling: Sampling = field(default_factory=Sampling)  # Default sampling settings.
    styles_voices: bool = False  # It can speak with an instruct in voices other than its speakers.
    grafts_voices: bool = False  # It can also use Base's embeddings of text and codes, if requested.


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """Current load of the engine."""

    slots: int
    active: int
    waiting: int
    short_of_text: int = 0  # Requests that wait for their client's text, with a slot (then also active) or without.
    # Beside how busy it is: what it has done since it started, and the device's memory.
    frames: int = field(default=0, compare=False)  # Codec frames with audio.
    # Code2Wav calls without a matching graph, although graphs are captured.
    uncaptured: int = field(default=0, compare=False)
    free_bytes: int = field(default=0, compare=False)
    total_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Figures of one finished request, times in milliseconds."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttfa_ms: float | None = None  # Submission to first audio at the sink; None: no audio.
    total_ms: float = 0.0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0
    parts: int = 1  # Number of parts of the text.
    repeated: int = 0  # Parts that were generated twice because the first result was too short.
    underruns: int = 0  # Chunks that came after the buffer of a listener without delay was empty.
    guard: Guard | None = None

    @property
    def rtf(self) -> float | None:
        """Compute time over audio time; None without audio."""
        return (self.total_ms - self.queue_ms) / 1000 / self.audio_s if self.audio_s else None


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits for a slot; ``position`` 0 is next."""

    position: int
    eta_ms: float | None = None  # Estimated wait; None: no request has ended yet.


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The request holds a slot. ``notes`` are plain sentences about what the checkpoint will ignore."""

    seed: int
    checkpoint: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioChunk:
    """Sound of the next frames.

    Shapes: codes [n, Q] int64, none for a pause; pcm is mono s16le, n * samples_per_frame samples where there are
    codes.
    """

    pcm: bytes
    codes: NDArray[np.int64]
    first_sample: int


@dataclass(frozen=True, slots=True)
class ShortOfText:
    """All of an open text that has come is spoken, its sound was handed out, and nothing of a sentence is held back.

    ``chars`` of text had come by then: where the client has sent more, it is outdated.
    """

    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event of a request that ended as it should, or was cancelled. ``notes``: as in `Started`, since then."""

    stop_reason: StopReason
    stats: RequestStats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """The last event of a request that failed; its neighbours go on."""

    error: SpeechError
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class Refused:
    """The only event of a request that an engine in another process did not take; nothing was started."""

    error: SpeechError


SpeechEvent = Queued | Started | AudioChunk | ShortOfText | Finished | Broken | Refused
Sink = Callable[[SpeechEvent], None]  # Called on the engine's thread; must not block.
