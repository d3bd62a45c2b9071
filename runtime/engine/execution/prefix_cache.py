"""Cache of keys and values for the part of a voice's prompt before its text.

This prefix is computed once and then copied into slots.
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
        self._kept: OrderedDict[str, PromptPrefix] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> PromptPrefix | None:
        prefix = self._kept.get(key)
        if prefix is not None:
            self._kept.move_to_end(key)
        return prefix

    def put(self, key: str, copy: Callable[[], PromptPrefix]) -> None:
        """Store a prefix if it is not cached.

        Args:
            copy: Function that copies the prefix from its slot.
        """
        if not self._capacity:
            return
        if key not in self._kept:
            self._kept[key] = copy()
        self._kept.move_to_end(key)
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
