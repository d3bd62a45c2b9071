"""Cache of the keys and values of prompt prefixes.

The prefix is the part of a prompt before the text. It is computed once per voice and then copied into slots.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from runtime.engine.execution.slots import PromptPrefix


class PrefixCache:
    """LRU cache of prompt prefixes by key.

    Thread: engine.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._prefixes: OrderedDict[str, PromptPrefix] = OrderedDict()

    def __len__(self) -> int:
        return len(self._prefixes)

    def get(self, key: str) -> PromptPrefix | None:
        prefix = self._prefixes.get(key)
        if prefix is not None:
            self._prefixes.move_to_end(key)
        return prefix

    def stores(self, key: str) -> bool:
        """True if `put` would store a new prefix for this key."""
        return self._capacity > 0 and key not in self._prefixes

    def put(self, key: str, copy: Callable[[], PromptPrefix]) -> None:
        """Store a prefix under its key, or do nothing if the key is cached.

        Args:
            copy: Function that copies the prefix from its slot.
        """
        if not self._capacity:
            return
        if key not in self._prefixes:
            self._prefixes[key] = copy()
        self._prefixes.move_to_end(key)
        while len(self._prefixes) > self._capacity:
            self._prefixes.popitem(last=False)
