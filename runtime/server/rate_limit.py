"""Rate limit with one token bucket per client."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MAX_REMEMBERED = 4096  # Maximum number of clients with a stored token bucket.


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    filled: float  # Time of the last refill.


class RateLimit:
    """Rate limiter with one token bucket of `per_minute` tokens for each client."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[bytes, _TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of clients with a stored token bucket."""
        return len(self._buckets)

    def wait_s(self, caller: bytes) -> float:
        """Consume a token and return 0, or return the seconds until the next token is available."""
        if not self._per_minute:
            return 0.0
        now = self._clock()
        bucket = self._buckets.setdefault(caller, _TokenBucket(self._per_minute, now))
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._per_minute, bucket.tokens + (now - bucket.filled) * self._per_minute / 60)
        bucket.filled = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) * 60 / self._per_minute
        bucket.tokens -= 1
        return 0.0
