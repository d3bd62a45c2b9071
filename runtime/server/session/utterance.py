"""State of one utterance of a WebSocket: its voice, streamed text and engine request.

The class does no I/O. Text is queued until the voice is ready and the text contains a word. After that, text is sent
to the engine immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from runtime.errors import SpeechError
from runtime.request import Reference, SpeechRequest
from runtime.server.session.commands import Append, Cancel, Command, FinishText, Flush, Submit
from runtime.server.text.filter import FilterPipeline, TextFilter
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import check_text
from runtime.settings import Limits
from runtime.shared.text.sentence_ends import TAIL_CHARS, may_end
from runtime.shared.text.speech_rate import is_readable, is_speakable


class SpeechConfig(Protocol):
    """Interface of a client's synthesis settings in any API."""

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for `text`."""
        ...


Config = TypeVar("Config", bound=SpeechConfig)


@dataclass(slots=True, eq=False)
class ChosenVoice(Generic[Config]):
    """Voice that a client has selected, together with the synthesis settings.

    `reference` is None until the reference has been read, and an error if reading failed.
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


class PauseDetector:
    """Detector of pauses in a client's text, after which the received text is spoken.

    `pause_s` is the length in seconds of such a pause, or None if pauses have no effect.
    """

    def __init__(self, pause_s: float | None) -> None:
        self._pause_s = pause_s
        self._tail = ""
        # Time at which the received text will be spoken if no more text arrives, or None.
        self.due: float | None = None

    def restart(self, text: str, now: float) -> None:
        """Start to measure the pause after `text`, which has arrived now.

        Args:
            now: Current time in seconds on the session's clock.
        """
        if self._pause_s is not None:
            self._tail = (self._tail + text)[-2 * TAIL_CHARS :]
            self.due = now + self._pause_s if may_end(self._tail) else None

    def settle(self) -> None:
        """Ignore the current pause, so that it does not start speech.

        Pause detection starts again with the next text.
        """
        self._tail = ""
        self.due = None

    def has_paused(self, now: float) -> bool:
        """Return True if the client has paused long enough for the received text to be spoken.

        The result is True once per pause.
        """
        if self.due is None or now < self.due:
            return False
        self.settle()
        return True


class StreamedText(FilterPipeline):
    """Text filters of one utterance, with a length limit and pause detection.

    `param` is the name of the field with the text, which is used in error messages.
    """

    def __init__(
        self, limits: Limits, filters: Sequence[TextFilter], pause_s: float | None, *, param: str = "text"
    ) -> None:
        super().__init__(filters)
        self._limits = limits
        self._param = param
        self._chars = 0
        self.pause = PauseDetector(pause_s)

    def count(self, text: str) -> None:
        """Count the characters of received text and check that the total is within the limit.

        Raises:
            TextTooLong: The text exceeds the limit.
        """
        self._chars += len(text)
        check_text(self._chars, self._limits, param=self._param)


@dataclass(slots=True, eq=False)
class Utterance(Generic[Config]):
    """Utterance of a session, with one request to the engine.

    `name` is the name of the utterance's context. `number` is never reused, so that a late event is never assigned to
    another utterance. Queued text is joined to one string. If `keeps_pieces` is True, the queue instead contains the
    received pieces and flushes in order.
    """

    commands: list[Command]  # Commands of the session, to which the utterance appends its own commands.
    voice: ChosenVoice[Config]
    text: StreamedText
    name: str = ""
    number: int = 0
    keeps_pieces: bool = False
    is_submitted: bool = False
    is_complete: bool = False  # True if all text has arrived.
    is_end_sent: bool = False  # True if the engine was notified that the text is complete.
    # Text that the engine has not received yet, where None is a flush.
    queued: deque[str | None] = field(default_factory=deque)
    sent_chars: int = 0  # Number of characters that were sent to the engine.
    samples: int = 0  # Number of samples that the engine has generated.
    sent_samples: int = 0  # Number of samples that were passed to the connection.
    # Seed of an earlier utterance, or None. When the utterance gets a slot, the actual seed is stored here.
    seed: int | None = None
    notes: list[str] = field(default_factory=list)  # Notes about ignored fields and speech problems.

    def request(self, text: str, *, open_text: bool) -> SpeechRequest:
        """Create the engine request with the initial text `text`."""
        voice = self.voice
        request = voice.config.request(text, voice.resolved, voice.found)
        return replace(request, open_text=open_text, seed=self.seed if request.seed is None else request.seed)

    @property
    def takes_text(self) -> bool:
        return not self.is_complete

    @property
    def has_words(self) -> bool:
        return any(is_speakable(piece) for piece in self._texts())

    @property
    def is_readable(self) -> bool:
        """True if the text that the engine has not received contains something to speak.

        This can be a letter, a digit, or a symbol with a spoken name.
        """
        return any(is_readable(piece) for piece in self._texts())

    def append_text(self, text: str, now: float) -> None:
        """Append received text, and send queued text to the engine if possible.

        Raises:
            TextTooLong: The text exceeds the limit.
        """
        self.text.count(text)
        self.text.pause.restart(text, now)
        self.queue_text(self.text.feed_text(text))
        self.send_text()

    def flush(self) -> None:
        """Make the engine speak all text that was received so far."""
        self.text.pause.settle()
        self.queue_text(self.text.flush())
        if self.keeps_pieces and (not self.queued or self.queued[-1] is not None):
            # Consecutive flushes are merged, so that a client cannot fill the queue with them.
            self.queued.append(None)
        self.send_text(is_flushed=not self.keeps_pieces)

    def finish(self) -> None:
        """Mark the text as complete, and send all queued text to the engine."""
        self.text.pause.settle()
        self.queue_text(self.text.finish())
        self.is_complete = True
        self.send_text()

    def queue_text(self, text: str) -> None:
        """Queue filtered text for the engine."""
        if text and self.queued and not self.keeps_pieces:
            self.queued[-1] = (self.queued[-1] or "") + text
        elif text:
            self.queued.append(text)

    def send_text(self, *, is_flushed: bool = False) -> None:
        """Send queued text to the engine if possible.

        The voice must be ready, and the text must contain words or be complete.
        """
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
        """Cancel the utterance and release its slot."""
        if self.is_submitted:
            self.commands.append(Cancel(self.number))

    def _submit(self) -> None:
        if self.keeps_pieces:
            # If the text is complete and has no words, the engine decides if it can be spoken.
            is_open, text = self.has_words, self._first_words()
        else:
            is_open, text = not self.is_complete, "".join(self._texts())
            self.queued.clear()
        self.is_submitted = True
        self.is_end_sent = not is_open
        self.sent_chars += len(text)
        self.commands.append(Submit(self.number, self.request(text, open_text=is_open)))

    def _first_words(self) -> str:
        """Remove and return the queued pieces up to the first piece with a word, as one string.

        If there is no word, all text is returned. The engine must not start with only a space or a quotation mark, so
        flushes before the first word are ignored.
        """
        text = ""
        while self.queued and not is_speakable(text):
            text += self.queued.popleft() or ""
        return text

    def _texts(self) -> Iterator[str]:
        return (piece for piece in self.queued if piece is not None)
