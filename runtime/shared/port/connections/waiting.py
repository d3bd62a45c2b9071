"""Limit of a port's open connections, and the choice of an idle one to close for a new one."""

from __future__ import annotations

from typing import Protocol

from runtime.shared.system import max_files


class Droppable(Protocol):
    """Connection that can be closed at once."""

    def drop(self) -> None: ...


def max_open(max_connections: int) -> int:
    """Return the maximum of open connections: twice those that may be served, for idle keep-alive ones.

    It is at most half of the process's file limit, because a relayed connection needs a second file.
    """
    files = max_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class Waiting:
    """Idle connections of a port. The longest idle one is closed if there is no room for a new one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: dict[Droppable, None] = {}  # The longest idle one first.

    def begin(self, connection: Droppable) -> None:
        self.end(connection)
        self._waiting[connection] = None

    def end(self, connection: Droppable) -> None:
        self._waiting.pop(connection, None)

    def longest(self) -> Droppable | None:
        return next(iter(self._waiting), None)
