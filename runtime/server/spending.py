"""Counts the speech that the engine makes for each account, and refuses more of it than is allowed in a day.

Counted is what the engine says that it made, so every dialect counts alike, whatever its messages look like.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar

from runtime.errors import SpeechError, SpeechSpent
from runtime.request import (
    AudioChunk,
    EngineLoad,
    Mode,
    ModelCard,
    Reference,
    Sink,
    SpeechEvent,
    SpeechRequest,
    VoicePrompt,
)
from runtime.server.speech_engine import SpeechEngine
from runtime.shared.port.allowance import Allowance

# Of the request that is being answered; AccessControl sets it.
ALLOWED: ContextVar[Allowance | None] = ContextVar("allowed", default=None)

_DAY_S = 86_400
_BYTES_PER_S = 48_000  # s16le at 24 kHz
_MAX_ACCOUNTS = 65_536


class Spending:
    """Bytes of speech by account, of today (UTC). Thread: any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._spent: OrderedDict[str, int] = OrderedDict()  # in the order of their last request
        self._day = 0

    def __len__(self) -> int:
        """Accounts that are remembered."""
        return len(self._spent)

    def check(self, allowance: Allowance) -> None:
        """
        Raises:
            SpeechSpent: no more today.
        """
        now = int(self._clock())
        with self._lock:
            if now // _DAY_S != self._day:
                self._day = now // _DAY_S
                self._spent.clear()
            spent = self._spent.get(allowance.account, 0)
        if spent >= allowance.seconds * _BYTES_PER_S:
            raise SpeechSpent(limit=allowance.seconds, retry_after_s=_DAY_S - now % _DAY_S)

    def spend(self, account: str, size: int) -> None:
        """Count bytes that were made."""
        with self._lock:
            self._spent[account] = self._spent.pop(account, 0) + size
            if len(self._spent) > _MAX_ACCOUNTS:
                self._spent.popitem(last=False)


class AccountedEngine:
    """The engine for requests of one account; all but what it makes for them is the engine's own."""

    def __init__(self, engine: SpeechEngine, allowance: Allowance, spending: Spending) -> None:
        self._engine = engine
        self._allowance = allowance
        self._spending = spending
        self.start = engine.start
        self.close = engine.close
        self.append = engine.append
        self.flush = engine.flush
        self.finish_text = engine.finish_text
        self.taken = engine.taken
        self.played = engine.played
        self.cancel = engine.cancel

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        return self._engine.cards

    @property
    def alive(self) -> bool:
        return self._engine.alive

    def load(self) -> EngineLoad:
        return self._engine.load()

    def at_work_since(self) -> float | None:
        return self._engine.at_work_since()

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        self._engine.prepare(reference, mode, done)

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """As the engine's own.

        Raises:
            SpeechSpent: the account has had enough for today.
        """
        self._spending.check(self._allowance)

        def counted(event: SpeechEvent) -> None:
            if isinstance(event, AudioChunk):
                self._spending.spend(self._allowance.account, len(event.pcm))
            sink(event)

        return self._engine.submit(request, counted)
