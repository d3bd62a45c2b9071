"""ElevenLabs' ``chunk_length_schedule``: text lengths at which each chunk is spoken."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.shared.text.sentence_ends import TAIL_CHARS, may_end

# Default values of the field ``chunk_length_schedule`` in ElevenLabs' API.
DEFAULT_SCHEDULE_CHARS = (120, 160, 250, 290)
_MIN_TRIGGER_CHARS = 50  # Minimum number of characters for ``try_trigger_generation``, as in ElevenLabs' API.


class ChunkSchedule:
    """State of the chunk length schedule for one streamed text."""

    def __init__(self, lengths: Sequence[float] = DEFAULT_SCHEDULE_CHARS) -> None:
        self._lengths = tuple(lengths) or DEFAULT_SCHEDULE_CHARS
        self.chunks = 0  # Number of chunks that the text has been divided into.
        self._chars = 0  # Number of characters since the last sentence end or chunk.
        self._tail = ""
        self._is_triggered = False

    @property
    def is_due(self) -> bool:
        """True if enough text for a chunk has arrived and the last word is complete."""
        length = self._lengths[min(self.chunks, len(self._lengths) - 1)]
        if self._is_triggered:
            length = min(length, _MIN_TRIGGER_CHARS)
        return self._chars >= length and not self._tail[-1:].isalnum()

    def append_text(self, text: str, *, is_triggered: bool = False) -> None:
        """Count the characters of received text.

        Args:
            is_triggered: True if the message has `try_trigger_generation`.
        """
        if may_end(self._tail) and text.strip():  # The text up to the end of the sentence is already being spoken.
            self.begin()
        self._chars += len(text)
        self._tail = (self._tail + text)[-2 * TAIL_CHARS :]
        self._is_triggered = is_triggered

    def begin(self) -> None:
        """Start the next chunk after all received text was spoken."""
        self.chunks += self._chars > 0
        self._chars = 0
        self._tail = ""
