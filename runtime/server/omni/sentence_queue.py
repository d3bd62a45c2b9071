"""Queue of sentences and ends of utterances in vLLM-Omni's API."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.errors import SpeechError
from runtime.request import Finished
from runtime.server.omni.schema import OmniConfig
from runtime.server.session.utterance import ChosenVoice, StreamedText, Utterance
from runtime.shared.audio.pcm_formats import AudioWriter

OpenEncoder = Callable[..., AudioWriter]  # Arguments: format of the response, keyword argument `speed`.


@dataclass(slots=True, eq=False)
class Turn:
    """Utterance in vLLM-Omni's API, which is all text up to a message `input.done`."""

    index: int
    voice: ChosenVoice[OmniConfig]
    text: StreamedText
    sentences: int = 0
    fragments: int = 0  # Number of pieces of streamed text. vLLM-Omni's API counts them as sentences.
    seed: int | None = None  # Seed of the first sentence, which is used for all sentences.
    style: str = ""  # Style tag for the next sentence.


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence(Utterance[OmniConfig]):
    """Sentence of an utterance, which is spoken as one engine request.

    The client receives the messages audio.start and audio.done for each sentence.
    """

    turn: Turn
    index: int
    words: str  # Text that arrived before the sentence was submitted.
    shown: str  # Text that is shown in the message audio.start.
    is_over: bool = False  # True if the engine has finished the sentence.
    is_announced: bool = False
    has_begun: bool = False  # True if the engine has given the sentence a slot.
    # False if the engine has refused the sentence while the previous sentence was spoken. The sentence is then
    # submitted after the previous one.
    may_go_ahead: bool = True
    # Audio that is sent when all earlier sentences are sent, or when the audio file is complete.
    unsent: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    encoder: AudioWriter | None = None
    finished: Finished | None = None
    error: SpeechError | None = None

    @property
    def is_streamed(self) -> bool:
        return self.voice.config.stream_audio


@dataclass(frozen=True, slots=True, eq=False)
class TurnEnd:
    turn: Turn


@dataclass(frozen=True, slots=True)
class QueuedClose:
    """Queued `session.close`, which takes effect after all queued sentences."""


class SentenceQueue(deque[Sentence | TurnEnd | QueuedClose]):
    """Queue of sentences, utterance ends and `session.close`, in order of arrival."""

    @property
    def head(self) -> Sentence | TurnEnd | QueuedClose | None:
        return self[0] if self else None

    @property
    def waiting_chars(self) -> int:
        return sum(len(item.words) for item in self if isinstance(item, Sentence))

    def after_head(self) -> Sentence | None:
        """Return the second sentence in the queue, or None.

        The two sentences may belong to different utterances.
        """
        sentences = (item for item in self if isinstance(item, Sentence))
        next(sentences, None)
        return next(sentences, None)
