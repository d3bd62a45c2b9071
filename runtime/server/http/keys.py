"""API keys from the settings and from a watched file, and short-lived tickets."""

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
    """Return the digest that is stored instead of a key or a ticket."""
    return sha256(word.encode(errors="surrogateescape")).digest()


class KeyRing:
    """API keys of the settings and of their key file.

    Thread: event loop.

    If the key file cannot be read, no key is valid and the server refuses all requests.
    """

    def __init__(self, settings: ServerSettings, clock: Clock = time.monotonic) -> None:
        self.is_needed = settings.needs_key  # True if every request needs a key.
        self._own = [digest(key) for key in settings.keys]
        self._filed: WatchedFile[list[bytes]] = WatchedFile(settings.api_keys_file, _digests, [], clock)

    def digests(self) -> list[bytes]:
        """Return the digests of all valid keys."""
        return [*self._own, *self._filed.value()]


def _digests(text: str) -> list[bytes]:
    return [digest(key) for key in keys_of(text)]


def keys_of(text: str) -> list[str]:
    """Return the keys in the text of a key file, which has one key per line.

    Text after # is a comment.
    """
    return [key for line in text.splitlines() if (key := line.partition("#")[0].strip())]


class Tickets:
    """Short-lived tickets, each of which opens one WebSocket."""

    def __init__(self, ticket_s: float, clock: Clock = time.monotonic) -> None:
        self.ticket_s = ticket_s
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # Expiry times of tickets, by their digest.

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(32)
        self._remember(ticket, self._clock() + self.ticket_s)
        return ticket

    def redeem(self, ticket: str) -> bool:
        """True if the ticket is valid, and invalidate it."""
        end = self._ends.pop(digest(ticket), None)
        return end is not None and self._clock() < end

    def _remember(self, ticket: str, end: float) -> None:
        self._ends[digest(ticket)] = end
        if len(self._ends) > MAX_REMEMBERED:
            self._ends.popitem(last=False)


class SharedTickets(Tickets):
    """Tickets that are valid for every replica, signed with the first valid key.

    Until it expires, a ticket opens one WebSocket per replica, because replicas do not exchange used tickets. Expiry
    uses the wall clock.
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
        # Keys with other characters than ASCII are compared as bytes.
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
