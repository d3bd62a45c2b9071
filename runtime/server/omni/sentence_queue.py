"""Queue of sentences and ends of utterances in vLLM-Omni's dialect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import Finished
from runtime.server.omni.schema import OmniConfig
from runtime.server.session.utterance import ChosenVoice, GrowingText, Utterance


class SentenceEncoder(Protocol):
    """Encoder interface for one sentence (``runtime.shared.encoding.Encoder``); the joined results are the file."""

    def add(self, pcm: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


OpenEncoder = Callable[[str, float], SentenceEncoder]  # Arguments: response_format, speed.


@dataclass(slots=True, eq=False)
class Turn:
    """One utterance of vLLM-Omni's protocol: the text up to one input.done."""

    index: int
    voice: ChosenVoice[OmniConfig]
    text: GrowingText
    sentences: int = 0
    fragments: int = 0  # Fragments of live text, which vLLM-Omni counts instead.
    seed: int | None = None  # Seed of its first sentence, reused by the others.
    style: str = ""  # Tag that applies to its next sentence.


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence(Utterance[OmniConfig]):
    """Sentence with its own request, audio.start and audio.done. Each submission has a new number."""

    turn: Turn
    index: int
    words: str  # Text received until it was submitted.
    shown: str  # Text shown to the client.
    is_over: bool = False  # The engine has emitted its final event.
    is_announced: bool = False
    has_begun: bool = False  # It has a slot.
    may_go_ahead: bool = True  # False if the engine had no room for it in addition to the previous one.
    unsent: list[bytes] = field(default_factory=list)  # Audio before its turn, or a file being encoded.
    sent_bytes: int = 0
    encoder: SentenceEncoder | None = None
    finished: Finished | None = None
    error: SpeechError | None = None

    @property
    def is_streamed(self) -> bool:
        return self.voice.config.stream_audio


@dataclass(frozen=True, slots=True, eq=False)
class TurnEnd:
    turn: Turn


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Pending session.close; earlier sentences are still spoken."""


class SentenceQueue(deque[Sentence | TurnEnd | Goodbye]):
    """Queue of sentences in order of arrival."""

    @property
    def head(self) -> Sentence | TurnEnd | Goodbye | None:
        return self[0] if self else None

    @property
    def waiting_chars(self) -> int:
        return sum(len(item.words) for item in self if isinstance(item, Sentence))

    def after_head(self) -> Sentence | None:
        """Return the sentence after the first one, in the same utterance or the next."""
        sentences = (item for item in self if isinstance(item, Sentence))
        next(sentences, None)
        return next(sentences, None)
