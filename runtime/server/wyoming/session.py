"""Session of the Wyoming protocol, which speaks one complete or streamed text at a time.

The response to a text is ``audio-start``, ``audio-chunk`` …, ``audio-stop``. If the text was streamed,
``synthesize-stopped`` follows. The connection is closed after an ``error`` event, because an error cannot name the
failed event. Home Assistant would otherwise continue to wait for audio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.errors import BadRequest, OutOfOrder, SpeechError
from runtime.request import AudioChunk, Broken, Finished, ModelCard, SpeechEvent
from runtime.server.session.dialect import SingleErrorDialect
from runtime.server.session.utterance import StreamedText, Utterance
from runtime.server.text.filter import create_text_filters
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.wire import check_text
from runtime.server.wyoming import messages
from runtime.server.wyoming.schema import (
    Describe,
    Event,
    Ping,
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    Voice,
    read,
)

_MAX_LATER = 64  # Number of texts waiting for the current text above which no input is read.


@dataclass(slots=True, eq=False, kw_only=True)
class WyomingUtterance(Utterance[Voice]):
    """Utterance of one complete or streamed text."""

    in_pieces: bool
    is_heard: bool = False  # True if the first audio was already sent to the client.

    @property
    def is_without_words(self) -> bool:
        """True if the text was streamed and has no words."""
        return self.in_pieces and self.is_complete and not (self.is_submitted or self.is_readable)


class WyomingSession(SingleErrorDialect[WyomingUtterance]):
    """Session of one client in the Wyoming protocol."""

    def __init__(self, *, cards: Sequence[ModelCard], library: VoiceLibrary, **common_arguments: Any) -> None:
        super().__init__(cards=cards, library=library, **common_arguments)
        self._cards = cards
        self._library = library
        self._models = frozenset(name for card in cards for name in (card.name, *card.adapters))
        # Texts in order of arrival, which are already filtered. The first text is being spoken, and the last may still
        # be incomplete.
        self._texts: deque[WyomingUtterance] = deque()
        # Error in an event. It is sent after the texts that arrived before the event.
        self._error: BadRequest | None = None

    @property
    def is_congested(self) -> bool:
        return super().is_congested or len(self._texts) - 1 > _MAX_LATER

    # --- Methods that process events of the engine and send audio.

    def _on_event(self, utterance: WyomingUtterance, event: SpeechEvent) -> None:
        self._timers.restart_idle()
        match event:
            case AudioChunk(pcm=pcm):
                self._send_audio_start(utterance)
                self._send_pcm(utterance, pcm)
            case Finished():
                self._send_audio_start(utterance)
                self.send_queue.add_message(messages.AUDIO_STOP)
                self._end(utterance)
                self.work()
            case Broken(error=error):
                self._fail(utterance, error)

    def _send_audio_start(self, utterance: WyomingUtterance) -> None:
        if not utterance.is_heard:
            utterance.is_heard = True
            self.send_queue.add_message(messages.AUDIO_START)

    def _end(self, utterance: WyomingUtterance) -> None:
        """Report the end of the first text."""
        if utterance.in_pieces:
            self.send_queue.add_message(messages.SYNTHESIZE_STOPPED)
        self._texts.popleft()

    def _step(self) -> bool:
        """Speak the first text as far as currently possible.

        A streamed text without words is not sent to the engine.
        """
        first = self._texts[0] if self._texts else None
        if self._error is not None and (first is None or first.takes_text):
            self.close_with(self._error, self._error.close_code)
        elif first is not None and isinstance(first.voice.reference, SpeechError):
            self._fail(first, first.voice.reference)
        elif first is not None and first.is_without_words:
            self.utterances.pop(first.number, None)
            self._end(first)
            return True
        elif first is not None:
            if not first.number:
                self._number(first)
            first.send_text()
        return False

    # --- Methods that process events from the client.

    @property
    def _received(self) -> WyomingUtterance | None:
        """Return the streamed text that has not ended yet, or None."""
        return self._texts[-1] if self._texts and self._texts[-1].takes_text else None

    def _read(self, fields: dict[str, Any]) -> Event | None:
        event = read(fields)
        if isinstance(event, Synthesize | SynthesizeChunk):
            check_text(len(event.text), self._limits)
        return event

    def _handle(self, event: Event | None) -> None:
        match event:
            case None:
                return
            case Describe():
                self.send_queue.add_message(messages.info(self._cards, self._library))
            case Ping(text=text):
                self.send_queue.add_message(messages.pong(text))
            case _ if self._error is None:
                try:
                    self._process_event(event)
                except BadRequest as error:
                    self._error = error
                self.work()

    def _process_event(self, event: Event) -> None:
        received = self._received
        match event:
            case Synthesize() if received is None:
                text = self._begin_utterance(event, in_pieces=False)
                text.queue_text(text.text.feed_text(event.text))
                self._complete(text)
            case Synthesize():
                pass  # The text has already arrived in pieces.
            case SynthesizeStart() if received is None:
                self._begin_utterance(event, in_pieces=True)
            case SynthesizeChunk() if received is not None:
                received.text.count(event.text)
                received.text.pause.restart(event.text, self._clock())
                received.queue_text(received.text.feed_text(event.text))
            case SynthesizeStop() if received is not None:
                self._complete(received)
            case SynthesizeStart():
                raise OutOfOrder(what="synthesize-start", why="the previous text was not ended with synthesize-stop")
            case _:
                raise OutOfOrder(what="A piece of a text", why="no text was started with synthesize-start")

    def _begin_utterance(self, event: SynthesizeStart, *, in_pieces: bool) -> WyomingUtterance:
        voice = event.voice or Voice()
        model = voice.name if voice.name in self._models else None
        name = voice.speaker or (None if model else voice.name)
        resolved = self._resolver.resolve(mode=None, model=model, voice=name, has_reference=False)
        pause_s = self._limits.max_buffer_delay_ms / 1000 if in_pieces else None
        filters = create_text_filters("markdown" if in_pieces else "none")
        text = StreamedText(self._limits, filters, pause_s)
        self._texts.append(WyomingUtterance(self._commands, self._chosen(voice, resolved), text, in_pieces=in_pieces))
        return self._texts[-1]

    def _complete(self, utterance: WyomingUtterance) -> None:
        utterance.text.pause.settle()
        utterance.queue_text(utterance.text.finish())
        utterance.is_complete = True

    # --- Methods that end the session after an error.

    def _abort_all(self, error: SpeechError) -> None:
        self._texts.clear()
        super()._abort_all(error)

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.add_message(messages.error(error))
