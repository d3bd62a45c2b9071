"""Limit of open connections.

At the limit, the connection that has been idle longest is closed for a new one.
"""

from __future__ import annotations

from typing import Protocol

from runtime.shared.system import max_files


class Droppable(Protocol):
    """Protocol of a connection that can be closed at once."""

    def drop(self) -> None: ...


def max_open(max_connections: int) -> int:
    """Return the maximum of open connections: twice `max_connections`.

    The rest is for idle keep-alive connections. The maximum is at most half of the process's limit of open files,
    because a proxied connection needs two files.
    """
    files = max_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class Waiting:
    """Idle connections of a port.

    If the port is full, the connection that has been idle longest is closed.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        # Waiting connections. The one that has been idle longest is the first.
        self._waiting: dict[Droppable, None] = {}

    def begin(self, connection: Droppable) -> None:
        self.end(connection)
        self._waiting[connection] = None

    def end(self, connection: Droppable) -> None:
        self._waiting.pop(connection, None)

    def longest(self) -> Droppable | None:
        return next(iter(self._waiting), None)
