"""Rate limit for repeated log messages: one message per second from each source line."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_INTERVAL_S = 1.0


class RepeatedLines(logging.Filter):
    """Log filter that passes at most one message per second from each source line.

    The next message that passes contains the number of suppressed messages. Messages about the end of a request, which
    have the attribute `figures`, always pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # For each source line, the time of the last logged message and the number of messages that were suppressed
        # since then.
        self._places: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "figures"):
            return True
        place, now = (record.pathname, record.lineno), self._clock()
        last, left_out = self._places.get(place, (now - _INTERVAL_S, 0))
        if now - last < _INTERVAL_S:
            self._places[place] = (last, left_out + 1)
            return False
        self._places[place] = (now, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} more like this in {now - last:.0f} s)", ()
        return True


def limit_repeated_lines() -> None:
    """Add a `RepeatedLines` filter to each log handler of the process."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(RepeatedLines())
