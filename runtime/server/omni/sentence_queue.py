"""Queue of sentences and ends of utterances in vLLM-Omni's dialect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import Finished, SpeechRequest
from runtime.server.omni.schema import OmniConfig
from runtime.server.session.utterance import ChosenVoice, GrowingText, Utterance


class SentenceEncoder(Protocol):
    """``runtime.shared.encoding.Encoder`` for one whole sentence: what it returns, joined, is the file."""

    def add(self, pcm: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


OpenEncoder = Callable[[str, float], SentenceEncoder]  # Arguments: response_format, speed.


@dataclass(slots=True, eq=False)
class Turn:
    """Text up to one input.done, which vLLM-Omni treats as an utterance."""

    index: int
    voice: ChosenVoice[OmniConfig]
    text: GrowingText
    sentences: int = 0
    fragments: int = 0  # Fragments of live text, which vLLM-Omni counts instead.
    seed: int | None = None  # Seed of its first sentence, reused by the others.
    style: str = ""  # Tag that applies to its next sentence.


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence(Utterance[OmniConfig]):
    """One request, one pair of audio.start and audio.done. It has a new number each time that it is submitted."""

    turn: Turn
    index: int
    words: str  # Text received until it was submitted.
    shown: str  # Text shown to the client.
    is_over: bool = False  # The engine has emitted its final event.
    is_announced: bool = False
    has_begun: bool = False  # It has a slot.
    may_go_ahead: bool = True  # False: the engine had no room for it beside the one before
    unsent: list[bytes] = field(default_factory=list)  # Audio before its turn, or a file being encoded.
    sent_bytes: int = 0
    encoder: SentenceEncoder | None = None
    notes: tuple[str, ...] = ()  # Notes about ignored fields.
    finished: Finished | None = None
    error: SpeechError | None = None

    @property
    def is_streamed(self) -> bool:
        return self.voice.config.stream_audio

    def request(self, text: str, *, open_text: bool) -> SpeechRequest:
        request = Utterance.request(self, text, open_text=open_text)
        return request if request.seed is not None else replace(request, seed=self.turn.seed)


@dataclass(frozen=True, slots=True, eq=False)
class TurnEnd:
    turn: Turn


@dataclass(frozen=True, slots=True)
class Goodbye:
    """session.close: what was asked for before it is still spoken."""


class SentenceQueue(deque[Sentence | TurnEnd | Goodbye]):
    """First come, first spoken."""

    @property
    def head(self) -> Sentence | TurnEnd | Goodbye | None:
        return self[0] if self else None

    @property
    def waiting_chars(self) -> int:
        return sum(len(item.words) for item in self if isinstance(item, Sentence))

    def after_head(self) -> Sentence | None:
        """Return the sentence behind the head, in the same utterance or the next."""
        sentences = (item for item in self if isinstance(item, Sentence))
        next(sentences, None)
        return next(sentences, None)
