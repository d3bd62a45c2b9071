"""Schedule ``chunk_length_schedule``: when growing text is spoken before its sentence ends.

ElevenLabs buffers this number of characters before it speaks. Here, a sentence is spoken as soon as its end is certain,
and the schedule is an upper bound: after this number of characters without an end, the text so far is spoken, and later
text follows whenever speech would run out.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.shared.sentence_ends import TAIL, may_end

DEFAULT = (120, 160, 250, 290)  # Characters, as ElevenLabs' default.
_TRIGGER = 50  # Minimum characters for ``try_trigger_generation``, as at ElevenLabs.


class ChunkSchedule:
    """Chunk schedule of one text."""

    def __init__(self, lengths: Sequence[float] = DEFAULT) -> None:
        self._lengths = tuple(lengths) or DEFAULT
        self.chunks = 0  # Chunks spoken or released.
        self._chars = 0  # Characters since the last sentence end or chunk.
        self._tail = ""
        self._is_triggered = False

    @property
    def is_due(self) -> bool:
        """True if enough text has arrived to speak it without cutting a word."""
        length = self._lengths[min(self.chunks, len(self._lengths) - 1)]
        if self._is_triggered:
            length = min(length, _TRIGGER)
        return self._chars >= length and not self._tail[-1:].isalnum()

    def add(self, text: str, *, is_triggered: bool = False) -> None:
        """Add text; `is_triggered` is True if the client requests speech now."""
        if may_end(self._tail) and text.strip():  # Text before the sentence end is already released.
            self.begin()
        self._chars += len(text)
        self._tail = (self._tail + text)[-2 * TAIL :]
        self._is_triggered = is_triggered

    def begin(self) -> None:
        """Start the next chunk, because all received text is spoken."""
        self.chunks += self._chars > 0
        self._chars = 0
        self._tail = ""
