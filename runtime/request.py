"""Values shared by all packages: requests, events and stop reasons. No behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from runtime.errors import SpeechError

SAMPLE_RATE = 24_000  # Sample rate of all audio that leaves the engine, in Hz.
STRANGE_SCRIPT = (
    "None of this checkpoint's languages is written in the {script} letters of the text; what is heard there are not "
    "its words."
)
NO_SPELLING = (
    "The text has emoji, symbols or letters of another script that this checkpoint cannot read; they were left out."
)
NOTE_MARKS = "Raised numbers after words were taken for marks of notes and left out."
NO_TAG = (
    "Square brackets that are no known tag are read as text. A pause is written [pause] or [pause:500ms], and any "
    "words after style: are a style, such as [style: as a secret]."
)
UNREAD_TAGS = "Tags in square brackets are read as text, because the request does not set tags."
DROPPED_STYLES = "This checkpoint follows no style in this mode; the tags that ask for one were left out."
LEFT_OUT_SSML = "SSML tags were left out. In a request with tags: true, <break> and [pause] are pauses."
LONG_NUMBER = "A number of more than 16 digits is read in groups of four."
UNKNOWN_FIELDS = "The request has fields that do not exist, which were ignored: {names}."
OTHER_SPEAKER = "The voice that was named is another service's; {speaker} speaks in its place."
STORED_NAMESAKE = "A stored voice has this name of OpenAI's; the stored voice is spoken."
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
    """Boundaries at which a text may be split into segments, which are spoken in sequence in the same voice.

    A single sentence is one segment with every choice, and so always gives the same codes.
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
    """Fault in generated speech that the runaway detector found."""

    BUDGET = "budget"  # More frames than the text can need.
    REPETITION = "repetition"  # The same few codes in a loop after the end of the text.
    SILENCE = "silence"  # Several seconds without audible speech after the end of the text.
    SHORT = "short"  # Too little audio for the text.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of both sampling levels. None: the value of the checkpoint's generation_config.json.

    ``greedy`` chooses the most probable code at both levels; penalty and EOS rules still apply.
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

    fingerprint: str  # ModelCard.fingerprint of the checkpoint that computed it.
    x_vector: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """Voice to clone. A ``prompt`` of another checkpoint is ignored and computed again from the samples.

    Shapes: samples [N] float32 in [-1, 1], mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    text: str | None = None  # Exact transcript of the audio; required unless x_vector_only.
    x_vector_only: bool = False
    prompt: VoicePrompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """Request for one utterance. Each mode ignores the fields that it does not use.

    With ``open_text`` more text follows by `SpeechEngine.append` until `SpeechEngine.finish_text`. The codes do not
    depend on how the text arrives, as long as it is split into the same parts and tokens (docs/api.md, Live text).
    """

    text: str
    mode: Mode
    voice: str | None = None  # Speaker name, CustomVoice.
    language: str = "auto"
    instruct: str | None = None  # Description of the voice (VoiceDesign) or style (CustomVoice).
    reference: Reference | None = None  # For Base, and for CustomVoice without a speaker.
    layout: Layout | None = None  # None: the default of the mode.
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None  # None: a random seed, which is reported.
    max_frames: int | None = None  # None: a budget from the length of the text.
    split: Split = Split.AUTO
    tags: bool = False  # The text contains inline tags (runtime/shared/inline_tags.py).
    max_break_s: float | None = None  # Maximum of a <break>. None: no maximum with ``tags``, otherwise no breaks.
    open_text: bool = False  # More text follows.
    holds_end: bool = False  # Streaming layout: EOS is banned until the text is used up (docs/model.md 7.1).
    acknowledged: bool = False  # The listener acknowledges audio by `SpeechEngine.taken`.
    first_chunk_frames: int | None = None  # None: the setting of the mode.
    yields: bool = False  # Background request: served only if there is no other, and cancelled when one arrives.
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
    speaks: bool  # False for random weights, whose audio is not speech.
    fingerprint: str  # Fingerprint of configuration and weights, as in VoicePrompt.
    part_chars: int  # Maximum characters of one part; longer texts are split.
    loaded: bool  # False: it is loaded at its first request.
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
    waiting_for_text: int = 0  # Requests that wait for their client's text, with a slot (then also active) or without.
    # Totals since the start, and the memory of the device.
    frames: int = field(default=0, compare=False)  # Codec frames with audio.
    # Code2Wav calls without a matching graph, although graphs are captured.
    uncaptured: int = field(default=0, compare=False)
    free_bytes: int = field(default=0, compare=False)
    total_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Statistics of one finished request, times in milliseconds."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttfa_ms: float | None = None  # Submission to first audio at the sink; None: no audio.
    total_ms: float = 0.0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0
    parts: int = 1  # Number of parts of the text.
    repeated: int = 0  # Parts that were generated twice because the first result was too short.
    underruns: int = 0  # Chunks that came after the buffer of a listener without network delay was empty.
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
    """Audio of the next frames.

    Shapes: codes [n, Q] int64, n = 0 for a pause; pcm is mono s16le with n * samples_per_frame samples, or the samples
    of the pause.
    """

    pcm: bytes
    codes: NDArray[np.int64]
    first_sample: int


@dataclass(frozen=True, slots=True)
class WaitingForText:
    """All text received so far of an open text is spoken and its audio was emitted.

    ``chars`` is the number of characters received by then. The event is outdated if the client has sent more.
    """

    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Last event of a request that finished or was cancelled. ``notes`` are those since `Started`."""

    stop_reason: StopReason
    stats: RequestStats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """Last event of a request that failed. Other requests are not affected."""

    error: SpeechError
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class Refused:
    """Only event of a request that an engine in another process refused; nothing was started."""

    error: SpeechError


SpeechEvent = Queued | Started | AudioChunk | WaitingForText | Finished | Broken | Refused
Sink = Callable[[SpeechEvent], None]  # Called on the engine's thread; must not block.
