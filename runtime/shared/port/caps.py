"""Counts the connections of a port, in all and of each address, and refuses what is over its caps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from runtime.errors import TooManyConnections
from runtime.settings import ServerSettings

_RETRY_AFTER_S = 1.0


class ConnectionCaps:
    """Thread: event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        self.by_address: Counter[str] = Counter()
        self._settings = settings

    def check(self, address: str) -> None:
        """Refuse one more of this address; loopback has no cap of its own.

        Raises:
            TooManyConnections: there are as many as there may be.
        """
        most, per_address = self._settings.max_connections, self._settings.max_connections_per_address
        if self.by_address.total() >= most:
            raise TooManyConnections(limit=most, retry_after_s=_RETRY_AFTER_S)
        if self.by_address[address] >= per_address and not _is_loopback(address):
            raise TooManyConnections(limit=per_address, retry_after_s=_RETRY_AFTER_S)

    @contextmanager
    def holding(self, address: str) -> Iterator[None]:
        """Count a connection of this address while it lasts."""
        self.by_address[address] += 1
        try:
            yield
        finally:
            self.by_address[address] -= 1
            if not self.by_address[address]:
                del self.by_address[address]


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
