"""API keys, which come from the settings and a watched file, and short-lived tickets."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from runtime.settings import ServerSettings
from runtime.shared.watched_file import WatchedFile

MAX_REMEMBERED = 4096  # Maximum number of stored tickets.

Clock = Callable[[], float]


def digest(word: str) -> bytes:
    """Return the SHA-256 digest that is stored instead of an API key or a ticket."""
    return sha256(word.encode(errors="surrogateescape")).digest()


class KeyRing:
    """API keys from the settings and from the key file.

    If the key file cannot be read, the keys in the file are not valid.

    Thread: event loop.
    """

    def __init__(self, settings: ServerSettings, clock: Clock = time.monotonic) -> None:
        self.is_needed = settings.needs_key  # True if every request needs an API key.
        self._own = [digest(key) for key in settings.keys]
        self._filed: WatchedFile[list[bytes]] = WatchedFile(settings.api_keys_file, _digests, [], clock)

    def digests(self) -> list[bytes]:
        """Return the SHA-256 digests of all valid API keys."""
        return [*self._own, *self._filed.value()]


def _digests(text: str) -> list[bytes]:
    return [digest(key) for key in parse_keys(text)]


def parse_keys(text: str) -> list[str]:
    """Parse a key file, which has one API key per line and comments after `#`."""
    return [key for line in text.splitlines() if (key := line.partition("#")[0].strip())]


class TicketStore:
    """Store of short-lived tickets that each open one WebSocket without an API key."""

    def __init__(self, ticket_s: float, clock: Clock = time.monotonic) -> None:
        self.ticket_s = ticket_s
        self._clock = clock
        # Expiry time of each ticket, by the digest of the ticket.
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(32)
        self._remember(ticket, self._clock() + self.ticket_s)
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Return True if the ticket is valid, and invalidate the ticket."""
        end = self._ends.pop(digest(ticket), None)
        return end is not None and self._clock() < end

    def _remember(self, ticket: str, end: float) -> None:
        self._ends[digest(ticket)] = end
        if len(self._ends) > MAX_REMEMBERED:
            self._ends.popitem(last=False)


class SharedTicketStore(TicketStore):
    """Store of signed tickets that every replica accepts.

    Tickets are signed with the first API key and expire by the wall clock. A ticket opens one WebSocket per replica,
    because replicas do not exchange used tickets.
    """

    def __init__(self, ticket_s: float, keys: KeyRing, clock: Clock = time.time) -> None:
        super().__init__(ticket_s, clock)
        self._keys = keys

    def issue(self) -> str:
        payload = f"{self._clock() + self.ticket_s:.3f}~{secrets.token_urlsafe(16)}"
        return f"{payload}~{self._signature(payload, *self._keys.digests()[:1])}"

    def redeem(self, ticket: str) -> bool:
        payload, _, signature = ticket.rpartition("~")
        try:
            end = float(payload.partition("~")[0])
        except ValueError:
            return False
        # `compare_digest` accepts only ASCII strings, so bytes are compared.
        offered = signature.encode(errors="surrogateescape")
        good = [hmac.compare_digest(offered, self._signature(payload, key).encode()) for key in self._keys.digests()]
        if (
            not any(good)
            or not self._clock() < end <= self._clock() + 2 * self.ticket_s
            or digest(ticket) in self._ends
        ):
            return False
        self._remember(ticket, end)
        return True

    def _signature(self, words: str, *key: bytes) -> str:
        return hmac.new(
            b"voicewright ticket" + b"".join(key), words.encode(errors="surrogateescape"), sha256
        ).hexdigest()
