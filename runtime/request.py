"""Plain data types that all packages share: requests, events and stop reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from runtime.errors import SpeechError

SAMPLE_RATE = 24_000  # Sample rate in Hz of all audio that leaves the engine.
STRANGE_SCRIPT = (
    "This checkpoint has no language with {script} letters; that part of the text will not be spoken correctly."
)
NO_SPELLING = (
    "The text has emoji, symbols or letters of another script that this checkpoint cannot read; they were left out."
)
NOTE_MARKS = "Superscript numbers after words were treated as footnote marks and left out."
NO_TAG = (
    "Square brackets without a known tag are read as text. Write a pause as [pause] or [pause:500ms], and a style "
    "as [style: as a secret]."
)
UNREAD_TAGS = "Tags in square brackets are read as text, because the request does not set tags."
DROPPED_STYLES = "This checkpoint supports no styles in this mode; style tags were left out."
LEFT_OUT_SSML = "SSML tags were left out. In a request with tags: true, <break> and [pause] are pauses."
LONG_NUMBER = "A number of more than 16 digits is read in groups of four."
UNKNOWN_FIELDS = "The request has unknown fields, which were ignored: {names}."
OTHER_SPEAKER = "The requested voice belongs to another service; {speaker} is used instead."
STORED_NAMESAKE = "A stored voice has the name of a voice of OpenAI; the stored voice is used."
DESCRIBED_VOICE = "In this mode the description determines the voice; the named voice was ignored."
RECORDED_VOICE = "The recording or embedding determines the voice; the named voice was ignored."


class Mode(StrEnum):
    """Mode that determines the voice: a speaker, a description, or reference audio (Base).

    Each published checkpoint serves one mode.
    """

    CUSTOM_VOICE = "custom_voice"
    VOICE_DESIGN = "voice_design"
    BASE = "base"


class Layout(StrEnum):
    """Order of text and codes in the talker's input.

    The codes follow the complete text, or each frame of codes is combined with one text token. See docs/model.md 3.3
    and 3.4.
    """

    NON_STREAMING = "non_streaming"
    STREAMING = "streaming"


class Split(StrEnum):
    """Positions at which a text may be split into segments.

    Segments are spoken one after another in the same voice. A text of one sentence is always a single segment, so its
    codes do not depend on this choice.
    """

    AUTO = "auto"  # A complete text is spoken as one segment. Streamed text is spoken sentence by sentence.
    NONE = "none"  # The text is one segment, which is spoken when all text has arrived.
    SENTENCE = "sentence"
    CLAUSE = "clause"


class StopReason(StrEnum):
    """Reason why the generation of speech ended."""

    EOS = "eos"  # The talker has sampled EOS.
    MAX_TOKENS = "max_tokens"  # Generation reached the request's max_frames or the end of the slot's KV cache.
    SHORT = "short"  # A segment was much too short for its text, and so was the result of one retry.
    RUNAWAY = "runaway"  # The runaway detector stopped the generation for the reason in RequestStats.guard.
    CANCELLED = "cancelled"
    ERROR = "error"


class Guard(StrEnum):
    """Kind of detected faulty generation, such as repetition or silence."""

    BUDGET = "budget"  # The request has generated more frames than its text can need.
    REPETITION = "repetition"  # The same few codes were repeated after the end of the text.
    SILENCE = "silence"  # No speech was audible for several seconds after the end of the text.
    SHORT = "short"  # The audio was too short for the text.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings of the talker and the code predictor.

    None stands for the value in the checkpoint's generation_config.json. ``greedy`` selects the most probable code in
    both networks. The repetition penalty and the EOS rules still apply.
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
    """Voice prompt that a checkpoint has computed from reference audio.

    Other checkpoints cannot use the prompt.

    Shapes: x_vector [H] float32. codes [m, Q] int64, or None if only the x-vector is used.
    """

    # ModelCard.fingerprint of the checkpoint that has computed the prompt. A prompt from a client has an empty string.
    fingerprint: str
    x_vector: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlendPart:
    """One of the two voices of a blend: a speaker or a reference, and a weight from 0 to 1.

    Shapes: x_vector [H] float32. For a speaker, it is set when the request is admitted.
    """

    weight: float
    speaker: str | None = None
    reference: Reference | None = None
    x_vector: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """Reference from which a voice is cloned: audio, a computed prompt, or a blend.

    If another checkpoint has computed ``prompt``, the prompt is computed again from the samples.

    If ``blend`` is set, the voice is a blend of two other voices, and there are no samples. If a client has sent an
    x-vector, there are no samples either, and ``prompt`` is used unchanged.

    Shapes: samples [N] float32 in [-1, 1], mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    text: str | None = None  # Exact transcript of the audio. It is required unless x_vector_only is True.
    x_vector_only: bool = False
    prompt: VoicePrompt | None = None
    blend: tuple[BlendPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """Request for one utterance.

    Each mode ignores the fields that it does not use.

    With ``open_text``, `SpeechEngine.append_text` adds text until `SpeechEngine.finish_text` is called. The codes do
    not depend on how the text arrives if it is split into the same segments and tokens (docs/api.md, Live text).
    """

    text: str
    mode: Mode
    voice: str | None = None  # Name of a speaker of a CustomVoice checkpoint.
    language: str = "auto"
    instruct: str | None = None  # Description of the voice for VoiceDesign, or of the style for CustomVoice.
    # Voice to clone, for Base checkpoints, or for CustomVoice checkpoints without a speaker.
    reference: Reference | None = None
    layout: Layout | None = None  # None selects the default layout of the mode.
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None  # None selects a random seed, which is reported in the events.
    max_frames: int | None = None  # None computes the limit from the length of the text.
    split: Split = Split.AUTO
    tags: bool = False  # True if the text contains inline tags (runtime/shared/text/inline_tags.py).
    # Maximum duration in seconds of a <break>. With None, breaks have no limit if ``tags`` is set and are ignored
    # otherwise.
    max_break_s: float | None = None
    open_text: bool = False  # True if the client will append more text.
    # True if EOS is banned until all text tokens are used. This applies only to the streaming layout (docs/model.md
    # 7.1).
    bans_eos: bool = False
    acknowledged: bool = False  # True if the client acknowledges received audio with `SpeechEngine.ack_sent`.
    first_chunk_frames: int | None = None  # Number of frames in the first chunk, or None for the setting of the mode.
    # A background request is served only if there is no other request, and is cancelled when one arrives.
    is_background: bool = False
    notes: tuple[str, ...] = ()  # Notes about text that the server removed or replaced.
    # True if a CustomVoice request with a reference uses the text and code embeddings of the checkpoint that encodes
    # the reference.
    graft: bool = False
    # Id of the client. If there are too few slots, the clients are served in turn. All requests without an id count as
    # one client.
    caller: str = ""

    @property
    def takes_reference(self) -> bool:
        """True if the mode accepts a reference.

        In the mode CustomVoice, the x-vector of the reference replaces the speaker embedding.
        """
        return self.mode is Mode.BASE or (self.mode is Mode.CUSTOM_VOICE and not self.voice)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Capabilities of a loaded checkpoint, for /v1/models and the web page."""

    name: str  # Folder name or Hub id of the checkpoint. It is never a path.
    modes: tuple[Mode, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]  # Languages of the checkpoint without the value "auto".
    layouts: tuple[Layout, ...]
    takes_instruct: bool
    speaks: bool  # False for a checkpoint with random weights, whose audio is not speech.
    fingerprint: str  # Hash of configuration and weights, as in VoicePrompt.
    part_chars: int  # Maximum number of characters in one segment. Longer texts are split.
    loaded: bool  # False if the checkpoint will be loaded when its first request arrives.
    samples_per_frame: int
    device: str
    dtype: str
    slots: int = 0  # Number of concurrent requests, or 0 until the checkpoint is loaded.
    created: int = 0  # Unix time at which the configuration file was written on this machine.
    sampling: Sampling = field(default_factory=Sampling)  # Default sampling settings of the checkpoint.
    styles_voices: bool = False  # True if the checkpoint can apply an instruction to voices other than its speakers.
    # Names of the speakers of each adapter, if several adapters share this checkpoint. A request may use the name of an
    # adapter as its model.
    adapters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # True if requests may use the embeddings of a Base checkpoint for a voice (`graft` in the API).
    grafts_voices: bool = False

    def only(self, adapter: str) -> ModelCard:
        """Return a copy of the card with the name and the speakers of one adapter."""
        return replace(self, name=adapter, speakers=self.adapters[adapter])


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """Current load of the engine."""

    slots: int
    active: int
    waiting: int
    # Number of requests that wait for their client's text. Requests with a slot are also counted as active.
    waiting_for_text: int = 0
    # Totals since the start of the process, followed by device memory in bytes.
    frames: int = field(default=0, compare=False)  # Number of codec frames with audio.
    # Number of Code2Wav calls without a matching CUDA graph, although other graphs were captured.
    uncaptured: int = field(default=0, compare=False)
    free_bytes: int = field(default=0, compare=False)
    total_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Statistics of one finished request, with times in milliseconds."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    # Time in ms from the submission to the first audio at the sink, or None if there was no audio.
    ttfa_ms: float | None = None
    total_ms: float = 0.0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0
    parts: int = 1  # Number of segments of the text.
    repeated: int = 0  # Number of segments that were generated a second time, because the first result was too short.
    # Number of chunks that a listener without network delay would have received too late.
    underruns: int = 0
    guard: Guard | None = None

    @property
    def rtf(self) -> float | None:
        """Compute time divided by audio duration, or None if there is no audio."""
        return (self.total_ms - self.queue_ms) / 1000 / self.audio_s if self.audio_s else None


@dataclass(frozen=True, slots=True)
class Queued:
    """Event of a request that waits for a slot.

    The request with ``position`` 0 gets the next slot.
    """

    position: int
    eta_ms: float | None = None  # Estimated waiting time in ms, or None if no request has ended yet.


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Event of a request that has received a slot and starts to generate.

    ``notes`` are human-readable messages about settings that the checkpoint ignores.
    """

    seed: int
    checkpoint: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioChunk:
    """Event with the next piece of a request's audio.

    Shapes: codes [n, Q] int64, where n = 0 for a pause. pcm is mono s16le with n * samples_per_frame samples, or the
    silence of the pause.
    """

    pcm: bytes
    codes: NDArray[np.int64]
    first_sample: int


@dataclass(frozen=True, slots=True)
class WaitingForText:
    """Event of a request that has spoken all received text and waits for more text.

    All audio has been emitted. ``chars`` is the number of characters received at that time. If the client has sent more
    text, the event is outdated.
    """

    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Last event of a request that finished or was cancelled.

    ``notes`` are the notes since the event `Started`.
    """

    stop_reason: StopReason
    stats: RequestStats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """Last event of a request that failed.

    Other requests are not affected.
    """

    error: SpeechError
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class Refused:
    """Only event of a request that was refused after `SpeechEngine.submit` had returned.

    No work was started.
    """

    error: SpeechError


SpeechEvent = Queued | Started | AudioChunk | WaitingForText | Finished | Broken | Refused
# Function that receives the events of a request. It runs on the engine's thread and must not block.
Sink = Callable[[SpeechEvent], None]
