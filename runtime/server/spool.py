"""What waits to go to one client, in order, for dialects whose messages of sound bear no header."""

from __future__ import annotations

import json
from collections import deque

from runtime.server.effects import Close, Outgoing, Sound, Text
from runtime.server.replies import Reply

_CONGESTED = 256  # untaken messages without sound; whoever does not read these is not listened to either


class Spool:
    """A queue of which the sound of one utterance can be taken back."""

    def __init__(self) -> None:
        self._items: deque[Outgoing] = deque()
        self._untaken = 0

    @property
    def is_congested(self) -> bool:
        return self._untaken > _CONGESTED

    def say(self, message: Reply, *, number: int | None = None, samples: int = 0, is_end: bool = False) -> None:
        """Queue a JSON message; with ``number`` it is of that utterance's sound, and goes when that is dropped."""
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
        self._items.append(Text(text, is_end, number, samples))
        self._untaken += number is None

    def sound(self, data: bytes, *, number: int, samples: int) -> None:
        self._items.append(Sound(data, number, samples))

    def close(self, code: int, reason: str = "") -> None:
        self._items.append(Close(code, reason))

    def drop_sound_of(self, number: int) -> None:
        """Take back what was not taken yet of an utterance's sound."""
        self._items = deque(item for item in self._items if isinstance(item, Close) or item.number != number)

    def clear(self) -> None:
        self._items.clear()

    def take(self) -> Outgoing | None:
        """Return the next item, or None."""
        if not self._items:
            return None
        item = self._items.popleft()
        self._untaken -= isinstance(item, Text) and item.number is None
        return item
