"""Speech engine that validates requests on a separate thread."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runtime.errors import EngineDead, GenerationFailed, SpeechError
from runtime.request import (
    Broken,
    EngineLoad,
    Finished,
    Mode,
    ModelCard,
    Reference,
    Refused,
    RequestStats,
    Sink,
    SpeechEvent,
    SpeechRequest,
    StopReason,
    VoicePrompt,
)
from runtime.server.speech_engine import SpeechEngine
from runtime.shared.interpreter import yielding
from runtime.shared.time_share import TimeShare

log = logging.getLogger(__name__)

Command = Callable[[int], None]  # Function that receives a request's ticket and calls a method of the engine with it.

# Maximum fraction of a core that the validation of refused requests may use, apart from a first burst of `_BURST_S`.
# Above this fraction, refusals are sent later, so that clients send their next requests later.
_MAX_REFUSED_SHARE = 0.1
_BURST_S = 0.002
_MAX_DELAY_S = 1.0


@dataclass(slots=True)
class _OpenRequest:
    """Request that has not ended.

    `request` is None once its validation has begun. `commands` are deferred until the engine has returned a ticket.
    """

    request: SpeechRequest | None
    sink: Sink
    ticket: int | None = None
    commands: deque[Command] = field(default_factory=deque)


class ThreadedEngine:
    """Implementation of `SpeechEngine` that validates requests on a separate thread.

    Validation of a long text by the wrapped engine takes up to 0.1 s. Commands for a request are deferred until the
    wrapped engine has accepted the request.
    """

    def __init__(self, engine: SpeechEngine) -> None:
        self._engine = engine
        self._numbers = itertools.count(1)  # Generator of the numbers of tickets and jobs.
        self._changed = threading.Condition()
        self._requests: dict[int, _OpenRequest] = {}
        # Heap of jobs: priority, number, function to run, and function that receives an error. Short texts are
        # validated first, but only a limited number of jobs can overtake a long text.
        self._jobs: list[tuple[int, int, Callable[[], None], Callable[[SpeechError], None]]] = []
        # Due time (`time.monotonic`) of each refusal, and function that sends it.
        self._refusals: deque[tuple[float, Callable[[], None]]] = deque()
        self._refused_share = TimeShare(_MAX_REFUSED_SHARE, _BURST_S, _MAX_DELAY_S)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run_jobs, name="submit", daemon=True)

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        return self._engine.cards

    @property
    def alive(self) -> bool:
        return self._engine.alive

    def load(self) -> EngineLoad:
        return self._engine.load()

    def busy_since(self) -> float | None:
        return self._engine.busy_since()

    def stacks(self) -> str:
        return self._engine.stacks()

    def start(self) -> None:
        self._engine.start()
        self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._engine.close(timeout_s)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # --- Methods that any thread may call.

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Queue a request and return its ticket.

        If the engine refuses the request, the sink receives `Refused`.

        Raises:
            EngineDead: `close` was called.
        """
        ticket = next(self._numbers)
        self.submit_as(ticket, request, sink)
        return ticket

    def submit_as(self, ticket: int, request: SpeechRequest, sink: Sink) -> None:
        """Queue a request like `submit`, with a ticket that the caller has chosen."""

        def refuse(error: SpeechError) -> None:
            self._requests.pop(ticket, None)
            sink(Refused(error))

        with self._changed:
            self._add_job(len(request.text), partial(self._submit, ticket), refuse)
            self._requests[ticket] = _OpenRequest(request, sink)

    def append(self, ticket: int, text: str) -> None:
        self._command(ticket, lambda engine_ticket: self._engine.append(engine_ticket, text))

    def flush(self, ticket: int) -> None:
        self._command(ticket, self._engine.flush)

    def finish_text(self, ticket: int) -> None:
        self._command(ticket, self._engine.finish_text)

    def ack_sent(self, ticket: int, samples: int) -> None:
        self._command(ticket, lambda engine_ticket: self._engine.ack_sent(engine_ticket, samples))

    def ack_played(self, ticket: int, ms: float) -> None:
        self._command(ticket, lambda engine_ticket: self._engine.ack_played(engine_ticket, ms))

    def cancel(self, ticket: int) -> None:
        """Cancel a request, and skip its validation if the validation has not begun."""
        with self._changed:
            waiting = self._requests.get(ticket)
            if waiting is not None and waiting.request is not None:
                del self._requests[ticket]
            else:
                waiting = None
        if waiting is None:
            self._command(ticket, self._engine.cancel)
        else:
            _call(waiting.sink, Finished(stop_reason=StopReason.CANCELLED, stats=RequestStats()))

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Queue the computation of a voice prompt, and pass the prompt or an error to `done`.

        Raises:
            EngineDead: `close` was called.
        """
        with self._changed:
            self._add_job(len(reference.text or ""), partial(self._engine.prepare, reference, mode, done), done)

    def _add_job(self, chars: int, work: Callable[[], None], refuse: Callable[[SpeechError], None]) -> None:
        if self._is_closing:
            raise EngineDead
        number = next(self._numbers)
        heapq.heappush(self._jobs, (number + chars, number, work, refuse))
        self._changed.notify()

    def _command(self, ticket: int, command: Command) -> None:
        with self._changed:
            opened = self._requests.get(ticket)
            if opened is not None and opened.ticket is None:
                opened.commands.append(command)
                return
        if opened is not None and opened.ticket is not None:
            self._run_command(opened.ticket, command)

    def _run_command(self, engine_ticket: int, command: Command) -> None:
        try:
            command(engine_ticket)
        except Exception:  # An internal error ends only the affected request.
            log.exception("a command of the engine failed")
            self._engine.cancel(engine_ticket)

    def _emit_event(self, ticket: int, sink: Sink, event: SpeechEvent) -> None:
        """Pass an event of the engine to the client's sink."""
        if isinstance(event, Finished | Broken):
            self._requests.pop(ticket, None)
        sink(event)

    # --- Methods that run on the thread that `start` creates.

    def _run_jobs(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Wait for a job or a due refusal, handle it, and return False after `close`."""
        with self._changed:
            wait_s = self._refusals[0][0] - time.monotonic() if self._refusals else None
            self._changed.wait_for(lambda: self._jobs or self._is_closing, wait_s)
            job = heapq.heappop(self._jobs) if self._jobs else None
        while self._refusals and (self._is_closing or self._refusals[0][0] <= time.monotonic()):
            self._refusals.popleft()[1]()
        if job is not None:
            self._run_job(*job[2:])
        return job is not None or not self._is_closing

    def _run_job(self, work: Callable[[], None], refuse: Callable[[SpeechError], None]) -> None:
        began_s = time.thread_time()
        error: SpeechError
        try:
            if self._is_closing or not self.alive:
                raise EngineDead
            with yielding():
                work()
        except SpeechError as refusal:
            error = refusal
        except Exception:
            log.exception("the engine failed at a request")
            error = GenerationFailed()
        else:
            return
        now = time.monotonic()
        delay_s = self._refused_share.charge(time.thread_time() - began_s, now)
        self._refusals.append((now + delay_s, partial(_call, refuse, error)))

    def _submit(self, ticket: int) -> None:
        with self._changed:
            opened = self._requests.get(ticket)
            if opened is None or opened.request is None:  # The request was cancelled.
                return
            request, opened.request = opened.request, None
        engine_ticket = self._engine.submit(request, partial(self._emit_event, ticket, opened.sink))
        with self._changed:
            while opened.commands:
                self._run_command(engine_ticket, opened.commands.popleft())
            opened.ticket = engine_ticket


def _call(sink: Callable[[Any], None], value: object) -> None:
    """Call a client's callback, and log its errors."""
    try:
        sink(value)
    except Exception:
        log.exception("the sink of a request failed")
