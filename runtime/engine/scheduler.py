"""Policy without torch and without a clock of its own: who gets a slot, and how much sound to make at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkPolicy:
    """Chunks start small, so that the first sound comes at once, and double while the listener can wait.

    A chunk never grows past the sound that the listener still has to hear, so waiting for its frames cannot starve
    the playback that it follows.
    """

    first: int  # frames
    largest: int  # frames
    frame_s: float

    def next_size(self, last: int, lead_s: float) -> int:
        """Frames in the chunk after one of ``last`` frames (0: none yet), with ``lead_s`` sent and not yet played."""
        if not last:
            return self.first
        wanted = min(2 * last, self.largest)
        while wanted > 1 and wanted * self.frame_s > lead_s:
            wanted //= 2
        return wanted


def frame_limit(room: int, budget: int, asked: int | None) -> int:
    """Frames that a request may take: what it asked for, else its text's budget, and never more than its slot has."""
    return min(room, budget if asked is None else asked)
