"""Session of the Wyoming protocol, which speaks one complete or streamed text at a time.

The response to a text is ``audio-start``, ``audio-chunk`` …, ``audio-stop``. If the text was streamed,
``synthesize-stopped`` follows. After an ``error`` event, the connection is closed, because an error cannot name the
failed event and Home Assistant would continue to wait for audio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.errors import BadRequest, OutOfOrder, SpeechError
from runtime.request import AudioChunk, Broken, Finished, ModelCard, SpeechEvent
from runtime.server.session.dialect import SingleErrorDialect
from runtime.server.session.utterance import GrowingText, Utterance
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

_MAX_LATER = 64  # Maximum number of events that wait for the end of a text. Above this limit, no input is read.


@dataclass(slots=True, eq=False, kw_only=True)
class Spoken(Utterance[Voice]):
    """Utterance of one complete or streamed text."""

    in_pieces: bool
    is_heard: bool = False  # True if the first audio was sent.


class WyomingSession(SingleErrorDialect[Spoken]):
    """Session of one client in the Wyoming protocol."""

    def __init__(self, *, cards: Sequence[ModelCard], library: VoiceLibrary, **shared: Any) -> None:
        super().__init__(cards=cards, library=library, **shared)
        self._cards = cards
        self._library = library
        self._models = frozenset(card.name for card in cards)
        self._now: Spoken | None = None  # Text that is being received or spoken.
        self._later: deque[Event] = deque()  # Events received during the current text.

    @property
    def is_congested(self) -> bool:
        return super().is_congested or len(self._later) > _MAX_LATER

    # --- Events of the engine.

    def _on_event(self, utterance: Spoken, event: SpeechEvent) -> None:
        self._timers.stirred()
        match event:
            case AudioChunk(pcm=pcm):
                self._begin_sound(utterance)
                self._send_sound(utterance, pcm)
            case Finished():
                self._begin_sound(utterance)
                self.send_queue.say(messages.AUDIO_STOP)
                self._end(utterance)
            case Broken(error=error):
                self._fail(utterance, error)

    def _begin_sound(self, utterance: Spoken) -> None:
        if not utterance.is_heard:
            utterance.is_heard = True
            self.send_queue.say(messages.AUDIO_START)

    def _end(self, utterance: Spoken) -> None:
        """Report the end of a text, and process the events that arrived during the speech."""
        if utterance.in_pieces:
            self.send_queue.say(messages.SYNTHESIZE_STOPPED)
        self._now = None
        while self._later and not self._is_speaking:
            self._process_event(self._later.popleft())

    # --- Events of the client.

    @property
    def _is_speaking(self) -> bool:
        """True if a complete text is being spoken, so that the next text must wait."""
        return self._now is not None and self._now.is_complete

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
                self.send_queue.say(messages.info(self._cards, self._library))
            case Ping(text=text):
                self.send_queue.say(messages.pong(text))
            case _ if self._is_speaking:
                self._later.append(event)
            case _:
                self._process_event(event)

    def _process_event(self, event: Event) -> None:
        try:
            match event:
                case Synthesize() if self._now is None:
                    utterance = self._begun(event, in_pieces=False)
                    utterance.queue_text(utterance.text.add(event.text, self._clock()))
                    utterance.finish()
                case Synthesize():
                    pass  # The pieces of this text have already arrived.
                case SynthesizeStart() if self._now is None:
                    self._begun(event, in_pieces=True)
                case SynthesizeChunk(text=text) if self._now is not None:
                    self._now.append(text, self._clock())
                case SynthesizeStop() if self._now is not None:
                    self._complete(self._now)
                case SynthesizeStart():
                    raise OutOfOrder(what="synthesize-start", why="synthesize-stop has not ended the text before it")
                case _:
                    raise OutOfOrder(what="A piece of a text", why="no synthesize-start has begun one")
        except BadRequest as error:
            self.close_with(error, error.close_code)

    def _begun(self, event: SynthesizeStart, *, in_pieces: bool) -> Spoken:
        voice = event.voice or Voice()
        model = voice.name if voice.name in self._models else None
        name = voice.speaker or (None if model else voice.name)
        resolved = self._resolver.resolve(mode=None, model=model, voice=name, has_reference=False)
        pause_s = self._limits.max_buffer_delay_ms / 1000 if in_pieces else None
        text = GrowingText(self._limits, "markdown" if in_pieces else "none", pause_s)
        self._now = self._number(Spoken(self._commands, self._chosen(voice, resolved), text, in_pieces=in_pieces))
        return self._now

    def _complete(self, utterance: Spoken) -> None:
        """Speak the rest of a streamed text, or end a text without words immediately."""
        utterance.queue_text(utterance.text.finish())
        utterance.is_complete = True
        if utterance.is_submitted or utterance.is_readable:
            utterance.send_text()
        else:
            del self.utterances[utterance.number]
            self._end(utterance)

    # --- Errors and the end.

    def _abort_all(self, error: SpeechError) -> None:
        self._later.clear()
        super()._abort_all(error)

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.say(messages.error(error))
