"""Limit on the number of open connections.

If the limit is reached, a new connection closes the connection that has been idle longest.
"""

from __future__ import annotations

from typing import Protocol

from runtime.shared.system import max_files


class Droppable(Protocol):
    """Connection that can be closed immediately."""

    def drop(self) -> None: ...


def max_open(max_connections: int) -> int:
    """Return the maximum number of open connections of a port, including idle connections.

    The maximum is twice `max_connections`, because half of the connections may be idle keep-alive connections. It is at
    most half of the process's limit of open files, because a proxied connection needs two files.
    """
    files = max_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class IdleConnections:
    """Idle connections of a port, in the order in which they became idle.

    If the port is full, the connection that has been idle longest is closed.
    """

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        # Idle connections in the order in which they became idle, the earliest first.
        self._idle: dict[Droppable, None] = {}

    def add(self, connection: Droppable) -> None:
        self.discard(connection)
        self._idle[connection] = None

    def discard(self, connection: Droppable) -> None:
        self._idle.pop(connection, None)

    def longest_idle(self) -> Droppable | None:
        return next(iter(self._idle), None)
