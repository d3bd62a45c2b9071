"""Utterance shared by all dialects: a voice, growing text, and the engine's view of it. No I/O.

Its text waits here for a voice and for words, and then goes to the engine as it comes. A dialect says when more of it
has come, when it is to be spoken as far as it has, when it is complete, and when it is not wanted any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from runtime.errors import SpeechError
from runtime.request import Reference, Sampling, SpeechRequest
from runtime.server.session.commands import Append, Cancel, Command, FinishText, Flush, Submit
from runtime.server.text.filter import FilterName, text_filter
from runtime.server.text.pronunciations import Pronunciation, dictionary_for
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import check_text
from runtime.settings import Limits
from runtime.shared.sentence_ends import TAIL, may_end
from runtime.shared.speech_rate import is_readable, is_speakable


class SpeechConfig(Protocol):
    """Synthesis settings of a client, in any dialect."""

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Return the request that this makes of a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOptions:
    """Synthesis options of protocols that cannot carry a client's own recording."""

    language: str
    instruct: str | None = None
    graft: bool = False
    tags: bool = False
    max_break_s: float | None = None
    seed: int | None = None
    max_frames: int | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Return the request that this begins. A stored voice without words is spoken by its x-vector alone."""
        if reference is not None:
            reference = replace(reference, x_vector_only=reference.x_vector_only or reference.text is None)
        return SpeechRequest(
            text=text,
            mode=resolved.mode,
            voice=resolved.speaker,
            language=self.language,
            instruct=self.instruct,
            graft=self.graft,
            tags=self.tags,
            max_break_s=self.max_break_s,
            reference=reference,
            sampling=self.sampling,
            seed=self.seed,
            max_frames=self.max_frames,
            holds_end=True,
            acknowledged=True,
            notes=resolved.notes,
        )


Config = TypeVar("Config", bound=SpeechConfig)


@dataclass(slots=True, eq=False)
class ChosenVoice(Generic[Config]):
    """Voice selected by a client's configuration.

    ``reference`` is None while it is being read, and the error if it cannot be.
    """

    config: Config
    resolved: ResolvedVoice
    needs_reference: bool = False
    reference: Reference | SpeechError | None = None

    @property
    def is_ready(self) -> bool:
        return self.found is not None or not self.needs_reference

    @property
    def found(self) -> Reference | None:
        return self.reference if isinstance(self.reference, Reference) else None


class GrowingText:
    """A text as its client writes it: counted, filtered, watched for a pause behind a sentence. It has no clock."""

    def __init__(
        self,
        limits: Limits,
        filter_name: FilterName,
        pause_s: float | None,
        *,
        param: str = "text",
        pronunciations: Iterable[Pronunciation] = (),
        tags: bool = False,
    ) -> None:
        self._limits = limits
        self._param = param  # Name of the text field.
        self._chars = 0
        self._filter = text_filter(filter_name, dictionary_for(pronunciations, limits, tags=tags))
        self._pause_s = pause_s  # Pause after which received text is spoken; None: pauses have no effect.
        self._tail = ""
        self.due: float | None = None  # Time at which received text is spoken; None: not before more text arrives.

    def count(self, text: str) -> None:
        """Count what a client has sent.

        Raises:
            TextTooLong: that is more than may be spoken as one text.
        """
        self._chars += len(text)
        check_text(self._chars, self._limits, param=self._param)

    def add(self, text: str, now: float) -> str:
        """Take more text and return what of it is certainly spoken."""
        if self._pause_s is not None:
            self._tail = (self._tail + text)[-2 * TAIL :]
            self.due = now + self._pause_s if may_end(self._tail) else None
        return self._filter.add(text)

    def flush(self) -> str:
        """Return the held text to be spoken now; more text may follow."""
        return self._filter.flush()

    def finish(self) -> str:
        """Return what was held back, because the text is complete."""
        self.settle()
        return self._filter.finish()

    def settle(self) -> None:
        """Ignore pauses until more text arrives."""
        self._tail = ""
        self.due = None

    def has_paused(self, now: float) -> bool:
        """True once when the pause is over and the text received so far is to be spoken."""
        if self.due is None or now < self.due:
            return False
        self.settle()
        return True


@dataclass(slots=True, eq=False)
class Utterance(Generic[Config]):
    """One request. ``number`` is never reused, so that a late event cannot reach another one.

    What is held for the engine is one text, or, where it ``keeps_pieces``, the pieces and flushes as they came.
    """

    commands: list[Command]  # Commands of its session.
    voice: ChosenVoice[Config]
    text: GrowingText
    number: int = 0
    keeps_pieces: bool = False
    is_submitted: bool = False
    is_complete: bool = False  # True if its text is complete.
    is_end_sent: bool = False  # The engine knows that the text is complete.
    queued: deque[str | None] = field(default_factory=deque)  # Text not sent to the engine yet; None: a flush.
    sent_chars: int = 0  # Characters sent to the engine.
    samples: int = 0  # Samples generated.
    sent_samples: int = 0  # Samples taken by the connection.
    seed: int | None = None  # Known once it has a slot.

    def request(self, text: str, *, open_text: bool) -> SpeechRequest:
        """Return the utterance as the engine takes it, as far as its text is known."""
        voice = self.voice
        return replace(voice.config.request(text, voice.resolved, voice.found), open_text=open_text)

    @property
    def takes_text(self) -> bool:
        return not self.is_complete

    @property
    def has_words(self) -> bool:
        return any(is_speakable(piece) for piece in self._texts())

    @property
    def is_readable(self) -> bool:
        """True if there is something to speak in the text that the engine does not have yet."""
        return any(is_readable(piece) for piece in self._texts())

    def append(self, text: str, now: float) -> None:
        """Take more of its text.

        Raises:
            TextTooLong: that is too much.
        """
        self.text.count(text)
        self.queue_text(self.text.add(text, now))
        self.send_text()

    def flush(self) -> None:
        """Speak what there is of its text."""
        self.text.settle()
        self.queue_text(self.text.flush())
        if self.keeps_pieces and (not self.queued or self.queued[-1] is not None):
            self.queued.append(None)  # Consecutive flushes are merged, so that no client can grow this queue.
        self.send_text(is_flushed=not self.keeps_pieces)

    def finish(self) -> None:
        """Complete the text."""
        self.queue_text(self.text.finish())
        self.is_complete = True
        self.send_text()

    def queue_text(self, text: str) -> None:
        """Have the engine told of this text next."""
        if text and self.queued and not self.keeps_pieces:
            self.queued[-1] = (self.queued[-1] or "") + text
        elif text:
            self.queued.append(text)

    def send_text(self, *, is_flushed: bool = False) -> None:
        """Hand the engine what it has not got, once there is a voice and a word to speak; a complete text is enough."""
        if self.is_end_sent:
            return
        if not self.is_submitted:
            if not self.voice.is_ready or not (self.has_words or self.is_complete):
                return
            self._submit()
        for piece in self.queued:
            self.commands.append(Flush(self.number) if piece is None else Append(self.number, piece))
            self.sent_chars += len(piece or "")
        self.queued.clear()
        if self.is_complete and not self.is_end_sent:
            self.is_end_sent = True
            self.commands.append(FinishText(self.number))
        elif is_flushed and not self.is_complete:
            self.commands.append(Flush(self.number))

    def cancel(self) -> None:
        """Give its slot back; nothing of it is wanted any more."""
        if self.is_submitted:
            self.commands.append(Cancel(self.number))

    def _submit(self) -> None:
        if self.keeps_pieces:
            # A text without a word is the engine's to judge, and there is nothing to wait for.
            is_open, text = self.has_words, self._first_words()
        else:
            is_open, text = not self.is_complete, "".join(self._texts())
            self.queued.clear()
        self.is_submitted = True
        self.is_end_sent = not is_open
        self.sent_chars += len(text)
        self.commands.append(Submit(self.number, self.request(text, open_text=is_open)))

    def _first_words(self) -> str:
        """Take what is held up to the piece that brings the first letter or digit; all of it where none does.

        The engine is not asked to begin with a space or a quotation mark. A flush of that is none.
        """
        words = ""
        while self.queued and not is_speakable(words):
            words += self.queued.popleft() or ""
        return words

    def _texts(self) -> Iterator[str]:
        return (piece for piece in self.queued if piece is not None)
