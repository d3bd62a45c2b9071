"""Context variable with the current request's client, used for fair scheduling and rate limits."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from runtime.errors import RateLimited
from runtime.shared.port.limits import Allowance


def _any_number() -> float:
    return 0.0


@dataclass(slots=True)
class Caller:
    """Client of one request or socket; `identity` is the digest of its valid key, or else its address.

    It is never logged.
    """

    identity: str = ""
    allowance: Allowance | None = None  # Account and limits set by a trusted proxy, if any.
    # Counts a request of the account and returns the seconds until it may start.
    wait_s: Callable[[], float] = _any_number
    utterances: int = 0

    @property
    def name(self) -> str:
        """Return the key for fair queueing."""
        return self.identity if self.allowance is None else f"{self.identity}/{self.allowance.account}"

    def count(self) -> None:
        """Count one more utterance. The first one was counted with the request or socket.

        Raises:
            RateLimited: The limit is exceeded.
        """
        self.utterances += 1
        if self.utterances > 1 and (wait_s := self.wait_s()):
            raise RateLimited(retry_after_s=round(wait_s, 3))


NOBODY = Caller()
# The caller of the current request, set by AccessControl, or by ports without it.
CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
