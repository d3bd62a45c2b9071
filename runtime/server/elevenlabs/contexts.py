"""Context of ElevenLabs' API: one streamed text and the audio of this text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from runtime.server.elevenlabs.audio_message_encoder import AudioMessageEncoder
from runtime.server.elevenlabs.chunk_schedule import ChunkSchedule
from runtime.server.elevenlabs.schema import ClientMessage
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.session.utterance import Utterance
from runtime.shared.text.inline_tags import ReadText
from runtime.shared.text.word_times import WordTimes

_LEAD_S = 1.0  # Seconds of unplayed audio above which a sentence is not split.


@dataclass(slots=True, eq=False, kw_only=True)
class Context(Utterance[SynthesisOptions]):
    """Context of ElevenLabs' API: one streamed text and the audio of this text."""

    speed: float
    encoder: AudioMessageEncoder
    # Schedule of the chunks, or None if the client sends complete chunks, which are spoken immediately.
    schedule: ChunkSchedule | None
    last_activity: float  # Time of the client's last message or of the last audio.
    read: ReadText  # Filter that removes inline tags from the text before it is passed to `words`.
    keeps_pieces: bool = True
    words: WordTimes = field(default_factory=WordTimes)
    pending_samples: int = 0  # Number of samples in the encoder. They will be in the next message.
    # Time at which a listener without network delay will have played all audio, or None before the first audio.
    plays_until: float | None = None
    _last: str = " "  # Last character of the received text.
    _is_leading: bool = True  # True if no text has arrived since the start or the last flush.

    @property
    def deadlines(self) -> Iterator[float]:
        """Yield the times at which the engine must speak the received text.

        One time depends on the client's pause, and the other time on the chunk schedule.
        """
        if self.text.pause.due is not None and self.voice.is_ready:
            yield self.text.pause.due
        if self.schedule is None or not self.takes_text or not self.schedule.is_due:
            return
        if self.plays_until is not None:
            yield self.plays_until - _LEAD_S
        elif not self.schedule.chunks:
            yield self.last_activity  # This time is in the past, so the received text is spoken immediately.

    def add_message(self, message: ClientMessage, now: float) -> None:
        """Append the text of a message to the context.

        All received text is spoken if the message requests it. If the client sends complete chunks, all received text
        is also spoken at the end of each chunk.

        Raises:
            TextTooLong: The text exceeds the limit.
        """
        self.last_activity = now
        text = message.text or ""
        self.text.count(text)
        if self._is_leading:
            # Clients send a single space as the first text of a context, which must not be spoken.
            text = text.lstrip()
            self._is_leading = not text
        if text:
            self.text.pause.restart(text, now)
            self._hold(self.text.feed_text(text))
            self.send_text()
        if self.schedule is not None:
            self.schedule.append_text(text, is_triggered=message.try_trigger_generation)
        is_phrase = self.schedule is None and bool(text.strip()) and not text[-1].isalnum()
        if message.flush or is_phrase:
            self.speak()

    def speak(self) -> None:
        """Make the engine speak all received text."""
        self._hold(self.text.flush())
        self._end_word()
        self._is_leading = True
        if self.schedule is not None:
            self.schedule.begin()
        self.flush()

    def close(self) -> None:
        """Mark the text of the context as complete."""
        self.text.pause.settle()
        self._hold(self.text.finish())
        self.words.append_text(self.read.finish())
        self._end_word()
        self.is_complete = True
        if self.is_submitted or self.is_readable:
            self.send_text()

    def count_audio(self, seconds: float, now: float) -> None:
        """Record that `seconds` of audio were generated at the time `now`."""
        self.last_activity = now
        self.plays_until = max(self.plays_until or now, now) + seconds

    def _hold(self, text: str) -> None:
        if text:
            self.queue_text(text)
            self.words.append_text(self.read.feed_text(text))
            self._last = text[-1]

    def _end_word(self) -> None:
        """Append a space, because clients display a word only when a space follows the word."""
        if not self._last.isspace():
            self.words.append_text(" ")
            self._last = " "
