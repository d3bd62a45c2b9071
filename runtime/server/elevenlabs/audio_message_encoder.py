"""Encoder of one context's audio messages, which contain audio and character times."""

from __future__ import annotations

from runtime.server.elevenlabs import alignment, messages
from runtime.server.elevenlabs.output_formats import OutputFormat
from runtime.server.wire import Reply
from runtime.shared.audio.pcm_formats import PcmWriter
from runtime.shared.text.word_times import TimedWords


class AudioMessageEncoder:
    """Encoder of one context's audio messages, which contain audio and character times.

    Thread: any, but only one at a time.
    """

    def __init__(self, form: OutputFormat, speed: float, *, label: str | None, is_relative: bool) -> None:
        self._writer = form.writer(speed)
        self._speed = speed
        self._label = label
        self._is_relative = is_relative
        self._pending_words = TimedWords()  # Times of the words that belong to the next audio message.

    @property
    def is_instant(self) -> bool:
        """True if encoding takes only microseconds, because the format has no codec."""
        return isinstance(self._writer, PcmWriter)

    def encode_message(self, pcm: bytes, times: TimedWords) -> Reply | None:
        """Encode audio and return an audio message, or None if no encoded bytes are ready.

        Args:
            pcm: s16le samples at 24 kHz.
            times: Words that end in these samples.
        """
        self._pending_words.join(times)
        data = self._writer.encode_pcm(pcm)
        return self._message(data) if data else None

    def finish(self, times: TimedWords) -> Reply | None:
        """End the encoded stream, and return a message with the remaining audio and times.

        The result is None if neither audio nor character times remain.
        """
        self._pending_words.join(times)
        data = self._writer.finish()
        return self._message(data) if data or self._pending_words.spans else None

    def _message(self, data: bytes) -> Reply:
        pending, self._pending_words = self._pending_words, TimedWords()
        times = alignment.socket_alignment(pending, self._speed, is_relative=self._is_relative)
        return messages.audio(data, times, self._label)
