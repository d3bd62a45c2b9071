"""Queues what vLLM-Omni's dialect has to speak: sentences, and the ends of the utterances that they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import Finished, Reference, SpeechRequest
from runtime.server.omni.schema import OmniConfig
from runtime.server.text_filter import TextFilter
from runtime.server.voices.voice_resolver import ResolvedVoice


class SentenceEncoder(Protocol):
    """``runtime.shared.encoding.Encoder`` for one whole sentence: what it returns, joined, is the file."""

    def add(self, pcm: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


OpenEncoder = Callable[[str, float], SentenceEncoder]  # response_format, speed


@dataclass(slots=True, eq=False)
class OmniVoice:
    """An accepted session.config. ``reference`` is None while it is being read, and the error if it cannot be."""

    config: OmniConfig
    resolved: ResolvedVoice
    needs_reference: bool
    reference: Reference | SpeechError | None = None

    @property
    def is_ready(self) -> bool:
        return self.reference is not None or not self.needs_reference

    def request(self, text: str, seed: int | None) -> SpeechRequest:
        """Return the request of a sentence. The voice must be ready, and its reference not an error."""
        request = self.config.utterance(text, self.resolved, seed)
        if not isinstance(self.reference, Reference):
            return request
        spoken = replace(
            self.reference,
            text=self.config.ref_text or self.reference.text,
            x_vector_only=self.config.x_vector_only_mode or self.reference.x_vector_only,
        )
        return replace(request, reference=spoken)


@dataclass(slots=True, eq=False)
class Turn:
    """An utterance: what is said up to one input.done."""

    index: int
    voice: OmniVoice
    filter: TextFilter  # of its text
    sentences: int = 0
    fragments: int = 0  # of a live text, which that server counts instead
    seed: int | None = None  # of its first sentence, for the others


class SentencePhase(Enum):
    WAITING = auto()  # not handed to the engine
    SPEAKING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Sentence:
    """One request, one pair of audio.start and audio.done."""

    turn: Turn
    index: int
    text: str
    number: int = 0  # of the request; a new one each time that it is submitted
    phase: SentencePhase = SentencePhase.WAITING
    is_announced: bool = False
    has_begun: bool = False  # it holds a slot
    may_go_ahead: bool = True  # False: the engine had no room for it beside the one before
    held: list[bytes] = field(default_factory=list)  # samples before its turn, or the file that is being written
    samples: int = 0
    sent_bytes: int = 0
    encoder: SentenceEncoder | None = None
    finished: Finished | None = None
    error: SpeechError | None = None
    shown: str = ""  # of a live text, what the client is told of it
    is_open: bool = False  # more of its text follows

    @property
    def is_streamed(self) -> bool:
        return self.turn.voice.config.stream_audio


@dataclass(frozen=True, slots=True, eq=False)
class TurnEnd:
    turn: Turn


@dataclass(frozen=True, slots=True)
class Goodbye:
    """session.close: what was asked for before it is still spoken."""


class OmniQueue:
    """First come, first spoken."""

    def __init__(self) -> None:
        self._items: deque[Sentence | TurnEnd | Goodbye] = deque()
        self.waiting_chars = 0

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def head(self) -> Sentence | TurnEnd | Goodbye | None:
        return self._items[0] if self._items else None

    @property
    def sentences(self) -> Iterator[Sentence]:
        return (item for item in self._items if isinstance(item, Sentence))

    def push(self, item: Sentence | TurnEnd | Goodbye) -> None:
        self._items.append(item)
        if isinstance(item, Sentence):
            self.waiting_chars += len(item.text)

    def pop(self) -> None:
        item = self._items.popleft()
        if isinstance(item, Sentence):
            self.waiting_chars -= len(item.text)

    def clear(self) -> None:
        self._items.clear()
        self.waiting_chars = 0

    def by_number(self, number: int) -> Sentence | None:
        """The sentence that speaks under that number: one of the first two, or none."""
        return next((one for one in self.speaking() if one.number == number), None)

    def speaking(self) -> list[Sentence]:
        """Sentences that the engine has: at most two, in order."""
        found: list[Sentence] = []
        for one in self.sentences:
            if one.phase is SentencePhase.WAITING:
                break
            if one.phase is SentencePhase.SPEAKING:
                found.append(one)
        return found

    def after_head(self) -> Sentence | None:
        """The sentence behind the head, in the same utterance or the next."""
        sentences = self.sentences
        next(sentences, None)
        return next(sentences, None)
