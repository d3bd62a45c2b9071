"""Open connections of a port: how many there may be, and which one is closed to make room for another."""

from __future__ import annotations

from typing import Protocol

from runtime.shared.system import most_files


class Droppable(Protocol):
    """Connection that can be closed at once."""

    def drop(self) -> None: ...


def most_open(max_connections: int) -> int:
    """Connections that may be open: as many again as may be served, for those that wait for their next request.

    Never more than half of the files that the process may open: a relayed one takes another.
    """
    files = most_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class Waiting:
    """The open connections without a request; the one that waited longest goes where there is no room for another."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: dict[Droppable, None] = {}  # the longest first

    def begin(self, connection: Droppable) -> None:
        self.end(connection)
        self._waiting[connection] = None

    def end(self, connection: Droppable) -> None:
        self._waiting.pop(connection, None)

    def longest(self) -> Droppable | None:
        return next(iter(self._waiting), None)
