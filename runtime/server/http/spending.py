"""Daily limit of generated audio per account.

Counted is what the engine says that it made, so every dialect counts alike, whatever its messages look like.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from runtime.errors import SpeechSpent
from runtime.shared.port.limits import Allowance

_DAY_S = 86_400
_BYTES_PER_S = 48_000  # PCM s16le at 24 kHz.
_MAX_ACCOUNTS = 65_536


class Spending:
    """Bytes of speech by account, of today (UTC). Thread: any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._spent: OrderedDict[str, int] = OrderedDict()  # In the order of their last request.
        self._day = 0

    def __len__(self) -> int:
        """Return the number of accounts that are remembered."""
        return len(self._spent)

    def check(self, allowance: Allowance) -> None:
        """Check that the client has audio left today.

        Raises:
            SpeechSpent: the daily limit is reached.
        """
        now = int(self._clock())
        with self._lock:
            if now // _DAY_S != self._day:
                self._day = now // _DAY_S
                self._spent.clear()
            spent = self._spent.get(allowance.account, 0)
        if allowance.seconds is not None and spent >= allowance.seconds * _BYTES_PER_S:
            raise SpeechSpent(limit=allowance.seconds, retry_after_s=_DAY_S - now % _DAY_S)

    def spend(self, account: str, size: int) -> None:
        """Count bytes that were made."""
        with self._lock:
            self._spent[account] = self._spent.pop(account, 0) + size
            if len(self._spent) > _MAX_ACCOUNTS:
                self._spent.popitem(last=False)
