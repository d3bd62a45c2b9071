"""Limit of open connections.

If the limit is reached, the connection that has been idle longest is closed for a new connection.
"""

from __future__ import annotations

from typing import Protocol

from runtime.shared.system import max_files


class Droppable(Protocol):
    """Connection that can be closed immediately."""

    def drop(self) -> None: ...


def max_open(max_connections: int) -> int:
    """Return the maximum number of open connections: twice `max_connections`.

    Half of them are for idle keep-alive connections. The maximum is at most half of the process's limit of open files
    because a proxied connection needs two files.
    """
    files = max_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class Waiting:
    """Idle connections of a port.

    If the port is full, the connection that has been idle longest is closed.
    """

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        # Idle connections. The first one has been idle longest.
        self._waiting: dict[Droppable, None] = {}

    def begin(self, connection: Droppable) -> None:
        self.end(connection)
        self._waiting[connection] = None

    def end(self, connection: Droppable) -> None:
        self._waiting.pop(connection, None)

    def longest_idle(self) -> Droppable | None:
        return next(iter(self._waiting), None)
