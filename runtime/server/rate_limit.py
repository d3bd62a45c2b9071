"""Rate limit: a token bucket for each client."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MAX_REMEMBERED = 4096  # Maximum number of callers whose request rate is stored.


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    filled: float  # Time at which the bucket was last filled.


class RateLimit:
    """Token bucket per caller.

    Its size is the number of requests per minute, and it refills at that rate.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[bytes, _TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of callers that are remembered."""
        return len(self._buckets)

    def wait_s(self, caller: bytes) -> float:
        """Take a token and return 0, or return the number of seconds until a token is available."""
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
