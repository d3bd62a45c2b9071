"""Service in the engine process that runs the server's commands and sends events."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

from runtime.errors import SpeechError
from runtime.request import Broken, EngineLoad, Finished, ModelCard, SpeechEvent, Started, VoicePrompt
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.messages import (
    AckSent,
    Call,
    LifecycleCommand,
    Message,
    Prepare,
    Prepared,
    SinkEvent,
    Status,
    Submit,
)
from runtime.server.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

STATUS_S = 0.2  # Maximum interval in seconds between two status reports.
# Delay in seconds of the status report after the start or end of a request. The report reads the GPU's free memory
# while it holds the GIL, which would delay the first audio of the request.
REST_S = 0.05


class EngineService:
    """Service that runs the server's commands in the engine process.

    Commands run in order of arrival on the thread that calls `run`.
    """

    def __init__(self, engine: SpeechEngine, channel: Channel) -> None:
        self._engine = engine
        self._channel = channel
        self._cards: tuple[ModelCard, ...] | None = None  # Model cards in the last status report.
        self._load = EngineLoad(slots=0, active=0, waiting=0)  # Engine load in the last status report.
        self._status_due = threading.Event()
        self._closing = False

    def run(self) -> None:
        """Run commands until a close command arrives or the server process ends."""
        telling = threading.Thread(target=self._send_status_soon, name="engine-status", daemon=True)
        telling.start()
        try:
            while not self._closing:
                self._carry_out(self._channel.receive())
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
            log.debug("the engine's load cannot be read", exc_info=True)
        self._channel.send(Status(self._load, engine.alive, engine.busy_since(), news))

    def _send_status_soon(self) -> None:
        while not self._closing:
            self._status_due.wait(STATUS_S)
            time.sleep(REST_S)
            self._status_due.clear()
            self.send_status()

    def _carry_out(self, message: Message) -> None:
        match message:
            case LifecycleCommand.START:
                self._engine.start()
            case LifecycleCommand.CLOSE:
                self._closing = True
            case Submit(ticket, request):
                self._engine.submit(request, partial(self._on_event, ticket), ticket)
            case Call(method, ticket, arguments):
                getattr(self._engine, method)(ticket, *arguments)
            case AckSent(samples):
                for ticket, count in samples.items():
                    self._engine.ack_sent(ticket, count)
            case Prepare(number, reference, mode):
                self._engine.prepare(reference, mode, partial(self._send_prompt, number))

    def _on_event(self, ticket: int, event: SpeechEvent) -> None:
        """Send an event of a request to the server (on a thread of the engine)."""
        self._channel.send(SinkEvent(ticket, event))
        if isinstance(event, Started | Finished | Broken):
            self._status_due.set()

    def _send_prompt(self, number: int, result: VoicePrompt | SpeechError) -> None:
        self._channel.send(Prepared(number, result))
