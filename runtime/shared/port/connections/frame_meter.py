"""Rate limit for very small WebSocket frames on one connection."""

from __future__ import annotations

from collections.abc import Callable

from runtime.errors import TooManyFrames

MAX_TINY_FRAMES = 200
_TINY_FRAMES_PER_S = 20.0
_TINY_BYTES = 16
# Number of empty fragments per message that are not counted, because some clients send an empty first or last fragment.
_FREE_FRAGMENTS = 2


class FrameMeter:
    """Token bucket that limits the number of small WebSocket frames of one connection.

    A ping, a pong or a tiny fragment costs one token. Complete messages are free.

    Raises:
        TooManyFrames: `count_control` and `count_fragment` raise this error if no token is left.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = float(MAX_TINY_FRAMES)
        self._filled_at = clock()
        self._free_fragments = _FREE_FRAGMENTS

    def begin_message(self) -> None:
        """Start a new message, whose first small fragments are not counted."""
        self._free_fragments = _FREE_FRAGMENTS

    def count_fragment(self, size: int) -> None:
        """Count a continuation fragment of `size` bytes, which costs a token if it is tiny."""
        if size >= _TINY_BYTES:
            return
        if self._free_fragments:
            self._free_fragments -= 1
        else:
            self.count_control()

    def count_control(self) -> None:
        """Count a ping or a pong, which costs one token."""
        now = self._clock()
        self._tokens = min(MAX_TINY_FRAMES, self._tokens + _TINY_FRAMES_PER_S * (now - self._filled_at)) - 1
        self._filled_at = now
        if self._tokens < 0:
            raise TooManyFrames(limit=MAX_TINY_FRAMES)
