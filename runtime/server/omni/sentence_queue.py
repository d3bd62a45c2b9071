"""Queue of sentences and ends of utterances in vLLM-Omni's API."""

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
    """Protocol of the encoder of one sentence (``runtime.shared.encoding.Encoder``).

    The concatenated results are the file.
    """

    def add(self, pcm: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


OpenEncoder = Callable[[str, float], SentenceEncoder]  # Arguments: response_format, speed.


@dataclass(slots=True, eq=False)
class Turn:
    """Utterance in vLLM-Omni's API: the text up to one input.done."""

    index: int
    voice: ChosenVoice[OmniConfig]
    text: GrowingText
    sentences: int = 0
    fragments: int = 0  # Number of pieces of live text, which vLLM-Omni reports as sentences.
    seed: int | None = None  # Seed of the first sentence. All sentences use it.
    style: str = ""  # Style tag for the next sentence.


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence(Utterance[OmniConfig]):
    """Sentence with its own request and its own messages audio.start and audio.done."""

    turn: Turn
    index: int
    words: str  # Text that was received before the sentence was submitted.
    shown: str  # Text that is shown to the client.
    is_over: bool = False  # True if the engine has emitted its final event.
    is_announced: bool = False
    has_begun: bool = False  # True if the sentence has a slot.
    # False if the engine had no capacity to generate it while the previous sentence is generated.
    may_go_ahead: bool = True
    # Audio that waits until earlier sentences are sent, or until its file is complete.
    unsent: list[bytes] = field(default_factory=list)
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
    """Queued session.close, after the sentences that are still spoken."""


class SentenceQueue(deque[Sentence | TurnEnd | Goodbye]):
    """Queue of sentences in order of arrival."""

    @property
    def head(self) -> Sentence | TurnEnd | Goodbye | None:
        return self[0] if self else None

    @property
    def waiting_chars(self) -> int:
        return sum(len(item.words) for item in self if isinstance(item, Sentence))

    def after_head(self) -> Sentence | None:
        """Return the second sentence of the queue, in the same utterance or the next one."""
        sentences = (item for item in self if isinstance(item, Sentence))
        next(sentences, None)
        return next(sentences, None)
