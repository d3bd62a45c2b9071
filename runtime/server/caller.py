"""Context variable with the current request's client, used for fair scheduling and rate limits."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace

from runtime.errors import RateLimited, SpeechError
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
from runtime.server.http.spending import Spending
from runtime.server.speech_engine import SpeechEngine
from runtime.shared.port.limits import Allowance


def _any_number() -> float:
    return 0.0


@dataclass(slots=True)
class Caller:
    """Client of one request or socket; `door` is the digest of its valid key, or else its address.

    It is never logged.
    """

    door: str = ""
    allowance: Allowance | None = None  # Account and limits set by a trusted proxy, if any.
    # Counts a request of the account and returns the seconds until it may start.
    wait_s: Callable[[], float] = _any_number
    utterances: int = 0

    @property
    def name(self) -> str:
        """Return the key for fair queueing."""
        return self.door if self.allowance is None else f"{self.door}/{self.allowance.account}"

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


class CallersEngine:
    """Engine wrapper that submits requests for the current caller."""

    def __init__(self, engine: SpeechEngine, caller: Caller, spending: Spending) -> None:
        self._engine = engine
        self._caller = caller
        self._spending = spending
        self.start = engine.start
        self.close = engine.close
        self.append = engine.append
        self.flush = engine.flush
        self.finish_text = engine.finish_text
        self.ack_sent = engine.ack_sent
        self.ack_played = engine.ack_played
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

    def stacks(self) -> str:
        return self._engine.stacks()

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        self._engine.prepare(reference, mode, done)

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Submit a request for the caller.

        Raises:
            RateLimited: The caller exceeds its requests per minute.
            SpeechSpent: The account has used its daily speech.
        """
        self._caller.count()
        request = replace(request, caller=self._caller.name)
        allowance = self._caller.allowance
        if allowance is None or allowance.seconds is None:
            return self._engine.submit(request, sink)
        self._spending.check(allowance)

        def counted(event: SpeechEvent) -> None:
            if isinstance(event, AudioChunk):
                self._spending.spend(allowance.account, len(event.pcm))
            sink(event)

        return self._engine.submit(request, counted)
