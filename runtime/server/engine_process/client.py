"""Client of an engine that runs in a child process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Self, cast

from runtime.errors import EngineDead, SpeechError
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
    VoicePrompt,
)
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.messages import (
    AckSent,
    Call,
    LifecycleCommand,
    Message,
    Method,
    NotOpened,
    Open,
    Prepare,
    Prepared,
    SinkEvent,
    Status,
    Step,
    Submit,
)
from runtime.server.speech_engine import Progress
from runtime.settings import Settings

log = logging.getLogger(__name__)

# Python code of the child process. It imports from the `sys.path` of this process, even if its working directory
# differs.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from runtime.server.engine_process.__main__ import run; run()"
_BUFFER_BYTES = 2**18  # Maximum number of bytes in one read from the engine process.
# Interval in seconds between acknowledgements. Every message wakes a thread that competes with frame generation for the
# GIL. With a longer interval, a fast request would reach the limit of unacknowledged audio (`VOICEWRIGHT_READER_S`) and
# pause.
ACK_INTERVAL_S = 0.01
STATUS_TIMEOUT_S = 2.0  # Seconds without a status report after which the engine process counts as busy.
_KILL_TIMEOUT_S = 5.0

Done = Callable[[VoicePrompt | SpeechError], None]


class EngineClient:
    """Implementation of `SpeechEngine` with the engine in another process.

    The event loop that runs `start` reads the pipe and calls the sinks. If there is no such event loop, or if it cannot
    read pipes, as on Windows, a thread does this. Properties have the values of the last status report, which is at
    most 0.25 s old. If the process ends, every request ends with EngineDead, and `alive` becomes False.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel, status: Status) -> None:
        self.cards: tuple[ModelCard, ...] = status.cards or ()
        self._process = process
        self._channel = channel
        self._status = status
        self._status_at = time.monotonic()  # Time at which the last status report arrived.
        self._lock = threading.Lock()  # Lock that prevents new requests after the engine process has ended.
        self._ended = False
        self._sinks: dict[int, Sink] = {}
        self._preparing: dict[int, Done] = {}
        self._numbers = itertools.count(1)  # Generator of the ids of requests and prompts.
        listen = partial(self._listen, channel.receive)
        self._listener = threading.Thread(target=listen, name="engine-client", daemon=True)
        # Event loop that reads the pipe, or None if a thread reads it.
        self._loop: asyncio.AbstractEventLoop | None = None
        # Number of samples that were sent to a client and not yet reported to the engine process, by ticket.
        self._sent_samples: dict[int, int] = {}

    @classmethod
    def open(cls, settings: Settings, progress: Progress) -> Self:
        """Start the engine process and wait until its checkpoints are loaded.

        Raises:
            SetUpError: A checkpoint, the device or a setting cannot be used.
            EngineDead: The process ended for another reason, which is in the log.
        """
        # The new session keeps Ctrl-C away from the engine process. An interpreter that is starting would otherwise
        # print a traceback.
        process = subprocess.Popen(  # noqa: S603  The arguments contain no client data.
            (sys.executable, "-c", _PROGRAM, *sys.path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=_BUFFER_BYTES,
            start_new_session=True,
        )
        channel = Channel(cast("BinaryIO", process.stdout), cast("BinaryIO", process.stdin))
        channel.send(Open(settings, logging.getLogger().level))
        try:
            status = _opened(channel, progress)
        except BaseException:
            process.kill()
            process.wait(_KILL_TIMEOUT_S)
            channel.close(_KILL_TIMEOUT_S)
            raise
        return cls(process, channel, status)

    @property
    def pid(self) -> int:
        """Return the process id of the engine process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until the engine thread or the engine process has ended."""
        return not self._ended and self._status.alive

    def start(self) -> None:
        """Start the engine's threads, and begin to receive messages from the process."""
        self._channel.send(LifecycleCommand.START)
        listen = partial(self._listen, self._channel.receive_now)
        try:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._channel.source, listen)
        except RuntimeError:  # No event loop is running, or the loop cannot read pipes.
            self._listener.start()
        else:
            self._loop = loop
            os.set_blocking(self._channel.source, False)
            listen()  # Messages may have arrived together with the status report at the end of loading.

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the engine process and all its requests.

        If the process does not end within `timeout_s` seconds, it is killed.
        """
        self._channel.send(LifecycleCommand.CLOSE)
        if self._loop is not None:  # The last messages are read by a thread, because this method blocks the event loop.
            self._stop_listening()
            os.set_blocking(self._channel.source, True)
            self._listener.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_TIMEOUT_S)
        self._channel.close(_KILL_TIMEOUT_S)
        if self._listener.is_alive():
            self._listener.join(_KILL_TIMEOUT_S)

    # --- Methods that any thread may call.

    def submit(self, request: SpeechRequest, sink: Sink, ticket: int | None = None) -> int:
        ticket = next(self._numbers) if ticket is None else ticket
        with self._lock:
            self._sinks[ticket] = sink
            is_alive = self.alive
        if is_alive:
            self._channel.send(Submit(ticket, request))
        else:
            self._on_event(ticket, Refused(EngineDead()))
        return ticket

    def append_text(self, ticket: int, text: str) -> None:
        self._channel.send(Call(Method.APPEND_TEXT, ticket, (text,)))

    def flush(self, ticket: int) -> None:
        self._channel.send(Call(Method.FLUSH, ticket))

    def finish_text(self, ticket: int) -> None:
        self._channel.send(Call(Method.FINISH_TEXT, ticket))

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Acknowledge the total number of a request's samples that were sent to the client.

        Acknowledgements are collected and sent to the engine process together.

        Thread: the event loop of `start`, or any thread if there was no event loop.
        """
        if self._loop is None:
            self._channel.send(AckSent({ticket: samples}))
            return
        if not self._sent_samples:
            self._loop.call_later(ACK_INTERVAL_S, self._send_acks)
        self._sent_samples[ticket] = samples

    def _send_acks(self) -> None:
        self._channel.send(AckSent(self._sent_samples))
        self._sent_samples = {}

    def ack_played(self, ticket: int, ms: float) -> None:
        self._channel.send(Call(Method.ACK_PLAYED, ticket, (ms,)))

    def cancel(self, ticket: int) -> None:
        self._channel.send(Call(Method.CANCEL, ticket))

    def prepare(self, reference: Reference, mode: Mode, done: Done) -> None:
        """Make the engine process compute the voice prompt of a reference recording.

        Args:
            done: Callback that receives the prompt or an error.
        """
        number = next(self._numbers)
        with self._lock:
            self._preparing[number] = done
            is_alive = self.alive
        if is_alive:
            self._channel.send(Prepare(number, reference, mode))
        else:
            self._on_message(Prepared(number, EngineDead()))

    def load(self) -> EngineLoad:
        return self._status.load

    def busy_since(self) -> float | None:
        """Return the start time of the engine's unfinished step, or None if the engine is idle.

        The time is from the last status report. If reports stop, the engine counts as busy since the last report.
        """
        since = self._status.busy_since
        # The start time of an unfinished step is not replaced, because a new time would mean that the device has
        # responded.
        if since is None and time.monotonic() - self._status_at > STATUS_TIMEOUT_S:
            return self._status_at
        return since

    def stacks(self) -> str:
        """Make the engine process log its stack traces.

        The result is a message for the log, which contains the id of the process.
        """
        if hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGUSR1)
                return f"(the engine's process, {self._process.pid}, writes its stack traces)"
        return f"(in the engine's process, {self._process.pid})"

    # --- Methods that run on the event loop or on the listener thread.

    def _listen(self, receive: Callable[[], Message | None]) -> None:
        """Process all available messages, and end all requests if the channel is closed."""
        try:
            while (message := receive()) is not None:
                self._on_message(message)
        except EOFError:  # The engine process has ended.
            self._end()
        except Exception:
            log.critical("a message from the engine's process cannot be decoded", exc_info=True)
            self._end()

    def _stop_listening(self) -> None:
        """Remove the pipe from the event loop."""
        if self._loop is not None:
            self._loop.remove_reader(self._channel.source)
            self._loop = None

    def _on_message(self, message: Message) -> None:
        match message:
            case SinkEvent(ticket, event):
                self._on_event(ticket, event)
            case Prepared(number, result):
                self._answer(self._preparing.pop(number, None), result)
            case Status(cards=cards):
                self._status, self._status_at = message, time.monotonic()
                if cards is not None:
                    self.cards = cards

    def _on_event(self, ticket: int, event: SpeechEvent) -> None:
        """Pass an event to the request's sink, and cancel the request if the sink raises."""
        is_last = isinstance(event, Finished | Broken | Refused)
        sink = self._sinks.pop(ticket, None) if is_last else self._sinks.get(ticket)
        if sink is None:
            return
        try:
            sink(event)
        except Exception:
            log.exception("the sink of request %d failed", ticket)
            self.cancel(ticket)

    def _answer(self, done: Done | None, result: VoicePrompt | SpeechError) -> None:
        """Pass a voice prompt or an error to the callback of `prepare`."""
        try:
            if done is not None:
                done(result)
        except Exception:
            log.exception("a voice prompt could not be stored")

    def _end(self) -> None:
        """End all requests and prompts, because the process has ended."""
        self._stop_listening()
        with self._lock:
            self._ended = True
        for ticket in tuple(self._sinks):
            self._on_event(ticket, Broken(EngineDead(), RequestStats()))
        for number in tuple(self._preparing):
            self._on_message(Prepared(number, EngineDead()))


def _opened(channel: Channel, progress: Progress) -> Status:
    """Wait until the checkpoints are loaded, and return the first status report."""
    while True:
        try:
            message = channel.receive()
        except EOFError:
            raise EngineDead from None
        match message:
            case Step(loaded, of, step):
                progress(loaded, of, step)
            case NotOpened(error):
                raise error or EngineDead()
            case Status():
                return message
