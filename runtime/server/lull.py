"""Tells when a growing text has paused behind the end of a sentence for so long that it should be spoken."""

from __future__ import annotations

from runtime.shared.sentence_ends import TAIL, may_end


class Lull:
    """The pause in one text, in seconds of its session's clock. Knows no clock of its own."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._tail = ""
        self._due: float | None = None

    def heard(self, text: str, now: float) -> None:
        """More text has come."""
        self._tail = (self._tail + text)[-2 * TAIL :]
        self._due = now + self._delay_s if may_end(self._tail) else None

    def over(self) -> None:
        """What has come is spoken without this, or nothing more is."""
        self._tail = ""
        self._due = None

    @property
    def due(self) -> float | None:
        """When the text is to be spoken as far as it has come; None: not before more of it comes."""
        return self._due

    def has_come(self, now: float) -> bool:
        """Whether it is time, said once."""
        if self._due is None or now < self._due:
            return False
        self.over()
        return True
