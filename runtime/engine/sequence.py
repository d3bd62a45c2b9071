"""A sequence is one request at work, from the door to its last event, with its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from runtime.engine.code2wav_streams import Following
from runtime.engine.guards import RunawayDetector
from runtime.engine.intake import Admission, Plan
from runtime.engine.prompt import Prompt
from runtime.engine.text_stream import Part, TextStream
from runtime.engine.voice_cache import ClonedVoice
from runtime.errors import SpeechError
from runtime.request import Broken, Finished, Guard, RequestStats, Sink, SpeechRequest, StopReason


class State(Enum):
    """Where a sequence stands. In the waiting queue it is what it waits for."""

    NO_CHECKPOINT = auto()
    NO_TEXT = auto()
    NO_VOICE = auto()
    NO_SLOT = auto()
    AT_WORK = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """What the engine knows of a request. ``opened``, ``following``, ``samples`` and ``sink`` for sound
    belong to the Code2Wav worker from its first frame on."""

    ticket: int
    request: SpeechRequest
    sink: Sink
    state: State = State.NO_CHECKPOINT
    admission: Admission = field(init=False)
    text_stream: TextStream = field(init=False)
    seed: int = field(init=False)
    asked: float = field(init=False)  # when it came to its checkpoint
    place: int = -1  # among those that wait for a slot, as last told
    queued: float = 0.0
    admitted: float = 0.0
    prefilled: float | None = None
    first_sound: float | None = None
    voice: ClonedVoice | None = None

    slot: int = -1
    part: Part | None = None  # that is spoken
    plan: Plan | None = None  # of it
    prompt: Prompt | None = None  # while it is being read
    prefill_position: int = 0  # positions of it that are read
    before: int = 0  # frames of earlier parts
    tokens: int = 0  # of the part's text
    spent_after: int = 0  # frames of the part after which its text can be taken as spoken
    resting: bool = False  # holds a slot and has no text to speak
    short_at: int = 0  # characters of text after which it was last told to be short of more
    growing: bool = False  # the part's text is open: tokens follow
    is_repeat: bool = False  # the part is made again
    detector: RunawayDetector = field(default_factory=RunawayDetector)

    opened: bool = False  # its stream of sound has begun
    following: Following | None = None  # its first sound, which was begun behind its first frame
    samples: int = 0  # of sound handed out
    silenced: bool = False  # nothing more of it may be heard

    parts: int = 0
    repeated: int = 0
    prompt_tokens: int = 0
    underruns: int = 0
    guard: Guard | None = None
    cut_short: StopReason | None = None  # what a part before the last ended by, if not by itself

    def admit(self, admission: Admission, text_stream: TextStream, seed: int, now: float) -> None:
        """Its checkpoint can serve it."""
        self.admission = admission
        self.text_stream = text_stream
        self.seed = seed
        self.asked = now

    def stats(self, now: float, frame_s: float, frames: int) -> RequestStats:
        """Figures so far; times in seconds go in, in milliseconds out."""
        admitted = self.admitted or now
        return RequestStats(
            queue_ms=1000 * (admitted - (self.queued or now)),
            prefill_ms=0.0 if self.prefilled is None else 1000 * (self.prefilled - admitted),
            ttfa_ms=None if self.first_sound is None else 1000 * (self.first_sound - self.asked),
            total_ms=1000 * (now - self.asked),
            prompt_tokens=self.prompt_tokens,
            frames=frames,
            audio_s=frames * frame_s,
            parts=max(1, self.parts),
            repeated=self.repeated,
            underruns=self.underruns,
            guard=self.guard,
        )

    def end(self, outcome: StopReason | SpeechError, stats: RequestStats) -> None:
        """Say the last word."""
        self.silenced = True
        if isinstance(outcome, SpeechError):
            self.sink(Broken(outcome, stats))
        else:
            self.sink(Finished(stop_reason=outcome, stats=stats))

    def describe(self, outcome: StopReason | SpeechError, stats: RequestStats) -> str:
        """The figures of a log line; no text of the client's."""
        word = outcome.code if isinstance(outcome, SpeechError) else outcome
        guard = f" ({self.guard})" if self.guard else ""
        ttfa = "-" if stats.ttfa_ms is None else f"{stats.ttfa_ms:.0f}"
        rtf = "-" if stats.rtf is None else f"{stats.rtf:.2f}"
        return f"{word}{guard}, {stats.frames} frames, ttfa {ttfa} ms, queue {stats.queue_ms:.0f} ms, rtf {rtf}"
