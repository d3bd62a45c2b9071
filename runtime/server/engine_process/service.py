"""Service in the engine process that runs the server's commands and sends events."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from runtime.errors import GenerationFailed, SpeechError
from runtime.request import Broken, EngineLoad, Finished, ModelCard, Refused, SpeechEvent, Started, VoicePrompt
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.messages import (
    AckSent,
    Call,
    Message,
    Order,
    Prepare,
    Prepared,
    SinkEvent,
    Status,
    Submit,
)
from runtime.server.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

STATUS_S = 0.2  # Maximum interval between status reports.
# Delay between the start or end of a request and the status report. Querying a GPU's memory holds the GIL, which would
# delay the first audio of this request.
REST_S = 0.05


class EngineService:
    """Service that runs the server's commands in the engine process.

    Commands run in order of arrival on the thread that calls `run`.
    """

    def __init__(self, engine: SpeechEngine, channel: Channel) -> None:
        self._engine = engine
        self._channel = channel
        self._tickets: dict[int, int] = {}  # Tickets of the engine by ticket of the server.
        self._over: deque[int] = deque()  # Server tickets of requests that have ended.
        self._cards: tuple[ModelCard, ...] | None = None  # Model cards in the last report.
        self._load = EngineLoad(slots=0, active=0, waiting=0)  # Engine load in the last report.
        self._status_due = threading.Event()
        self._closing = False

    def run(self) -> None:
        """Run commands until a close command arrives or the server process ends."""
        telling = threading.Thread(target=self._send_status_soon, name="engine-status", daemon=True)
        telling.start()
        try:
            while not self._closing:
                self._carry_out(self._channel.receive())
                while self._over:  # Tickets are removed between commands, after `_submit` has stored them.
                    self._tickets.pop(self._over.popleft(), None)
        except EOFError:
            self._closing = True
        else:
            self._engine.close()
        self._status_due.set()
        telling.join()

    def send_status(self) -> None:
        """Send a status report of the engine to the server."""
        engine, cards = self._engine, self._engine.cards
        news = None if cards == self._cards else cards
        self._cards = cards
        try:
            self._load = engine.load()
        except Exception:  # The device has failed and cannot report its memory. The other values are sent anyway.
            log.debug("the engine's figures cannot be had", exc_info=True)
        self._channel.send(Status(self._load, engine.alive, engine.at_work_since(), news))

    def _send_status_soon(self) -> None:
        while not self._closing:
            self._status_due.wait(STATUS_S)
            time.sleep(REST_S)
            self._status_due.clear()
            self.send_status()

    def _carry_out(self, message: Message) -> None:
        match message:
            case Order.START:
                self._engine.start()
            case Order.CLOSE:
                self._closing = True
            case Submit():
                self._submit(message)
            case Call(method, ticket, arguments):
                if (own := self._tickets.get(ticket)) is not None:
                    self._call(own, getattr(self._engine, method), *arguments)
            case AckSent(samples):
                for ticket, count in samples.items():
                    if (own := self._tickets.get(ticket)) is not None:
                        self._call(own, self._engine.ack_sent, count)
            case Prepare():
                self._prepare(message)

    def _submit(self, message: Submit) -> None:
        ticket = message.ticket
        try:
            self._tickets[ticket] = self._engine.submit(message.request, partial(self._on_event, ticket))
        except SpeechError as error:
            self._channel.send(SinkEvent(ticket, Refused(error)))
        except Exception:
            log.exception("the engine failed at a request")
            self._channel.send(SinkEvent(ticket, Refused(GenerationFailed())))

    def _call(self, own: int, command: Callable[..., None], *arguments: Any) -> None:
        try:
            command(own, *arguments)
        except Exception:  # An internal error ends only the affected request.
            log.exception("the engine failed at %s", command.__name__)
            self._engine.cancel(own)

    def _on_event(self, ticket: int, event: SpeechEvent) -> None:
        """Send an event of a request to the server (on the engine thread)."""
        self._channel.send(SinkEvent(ticket, event))
        if isinstance(event, Finished | Broken):
            self._over.append(ticket)
        if isinstance(event, Started | Finished | Broken):
            self._status_due.set()

    def _prepare(self, message: Prepare) -> None:
        def done(result: VoicePrompt | SpeechError) -> None:
            self._channel.send(Prepared(message.number, result))

        try:
            self._engine.prepare(message.reference, message.mode, done)
        except SpeechError as error:
            done(error)
        except Exception:
            log.exception("the engine failed at a reference")
            done(GenerationFailed())
