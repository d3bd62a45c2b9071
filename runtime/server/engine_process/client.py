"""Client of an engine in another process, which it starts and reaches over pipes."""

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
    Heard,
    Message,
    NotOpened,
    Open,
    Order,
    Prepare,
    Prepared,
    Status,
    Step,
    Submit,
    Tell,
    Verb,
)
from runtime.server.speech_engine import Progress
from runtime.settings import Settings

log = logging.getLogger(__name__)

# Where this process finds its modules the other one finds them too, and not in the folder in which it was started.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from runtime.server.engine_process.__main__ import run; run()"
_BUFFER_BYTES = 2**18  # read from the process at once
# Between two words on what has left for listeners: each of them wakes a thread that frames do not need, and a row that
# makes a second of sound in 30 ms pauses (`VOICEWRIGHT_READER_S`) where it hears of that too late.
ACK_INTERVAL_S = 0.01
SILENT_S = 2.0  # without a word of a process at rest, eight times as long as it keeps silent: it counts as at work then
_KILLED_S = 5.0  # for the system to bury a process

Done = Callable[[VoicePrompt | SpeechError], None]


class EngineClient:
    """`SpeechEngine` with the engine in another process.

    Sinks are called on the event loop on which it was started: the pipe is read there, for which no thread has to wake.
    Where none runs, or one that reads no pipes (Windows), a thread calls them. Figures are those that the process told
    last, a quarter of a second ago at most. Where the process ends, whatever it did or was killed by, every request
    ends as broken and ``alive`` is false.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel, status: Status) -> None:
        self.cards: tuple[ModelCard, ...] = status.cards or ()
        self._process = process
        self._channel = channel
        self._status = status
        self._told_at = time.monotonic()  # when the status came
        self._lock = threading.Lock()  # so that no request is taken while all are ended
        self._ended = False
        self._sinks: dict[int, Sink] = {}
        self._preparing: dict[int, Done] = {}
        self._numbers = itertools.count(1)  # of requests and of prompts
        listen = partial(self._listen, channel.receive)
        self._listener = threading.Thread(target=listen, name="engine-client", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None  # that listens in its place
        self._sent_samples: dict[int, int] = {}  # By ticket: acknowledgements that are not sent to the process yet.

    @classmethod
    def open(cls, settings: Settings, progress: Progress) -> Self:
        """Start the process and wait until its checkpoints are loaded.

        Raises:
            SetUpError: a checkpoint, the device or a setting cannot be used.
            EngineDead: the process ended otherwise; its log says why.
        """
        # What it prints goes where its log goes: its standard output is the channel. In a session of its own Ctrl-C
        # does not reach it, at which an interpreter that only starts would print where it stands.
        process = subprocess.Popen(  # noqa: S603  our own words
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
            process.wait(_KILLED_S)
            channel.close(_KILLED_S)
            raise
        return cls(process, channel, status)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the engine's thread or its process has ended."""
        return not self._ended and self._status.alive

    def start(self) -> None:
        """Start the engine's threads, and listen to what they say."""
        self._channel.send(Order.START)
        listen = partial(self._listen, self._channel.receive_now)
        try:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._channel.source, listen)
        except RuntimeError:  # no loop runs here, or none that reads pipes
            self._listener.start()
        else:
            self._loop = loop
            os.set_blocking(self._channel.source, False)
            listen()  # to what came with the word that it is loaded

    def close(self, timeout_s: float | None = None) -> None:
        """Have the engine end what runs, and its process; after ``timeout_s`` the process is killed."""
        self._channel.send(Order.CLOSE)
        if self._loop is not None:  # it waits here: a thread hears the last words, or the process could not say them
            self._stop_listening()
            os.set_blocking(self._channel.source, True)
            self._listener.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILLED_S)
        self._channel.close(_KILLED_S)
        if self._listener.is_alive():
            self._listener.join(_KILLED_S)

    # --- any thread

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Have a request taken; where it is not, the sink hears `Refused`.

        Raises:
            EngineDead: the engine has stopped.
        """
        ticket = next(self._numbers)
        with self._lock:
            if not self.alive:
                raise EngineDead
            self._sinks[ticket] = sink
        self._channel.send(Submit(ticket, request))
        return ticket

    def append(self, ticket: int, text: str) -> None:
        self._channel.send(Tell(Verb.APPEND, ticket, (text,)))

    def flush(self, ticket: int) -> None:
        self._channel.send(Tell(Verb.FLUSH, ticket))

    def finish_text(self, ticket: int) -> None:
        self._channel.send(Tell(Verb.FINISH_TEXT, ticket))

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Told a little later, of all requests together. Thread: the event loop, where one listens."""
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
        self._channel.send(Tell(Verb.ACK_PLAYED, ticket, (ms,)))

    def cancel(self, ticket: int) -> None:
        self._channel.send(Tell(Verb.CANCEL, ticket))

    def prepare(self, reference: Reference, mode: Mode, done: Done) -> None:
        """Have a prompt made; ``done`` gets whatever came of it, a refusal too."""
        number = next(self._numbers)
        with self._lock:
            if not self.alive:
                raise EngineDead
            self._preparing[number] = done
        self._channel.send(Prepare(number, reference, mode))

    def load(self) -> EngineLoad:
        return self._status.load

    def at_work_since(self) -> float | None:
        """As the process says; one at rest that says nothing any more counts as at work since it last did."""
        since = self._status.at_work_since
        # A step that was under way stays the same one: another would say that it has come back, after that silence.
        if since is None and time.monotonic() - self._told_at > SILENT_S:
            return self._told_at
        return since

    def stacks(self) -> str:
        """Have the process write where its threads stand, and say so. Windows has no signal for that."""
        if hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGUSR1)
                return f"(the engine's process, {self._process.pid}, writes where its threads stand)"
        return f"(in the engine's process, {self._process.pid})"

    # --- the event loop, or the listener's thread

    def _listen(self, receive: Callable[[], Message | None]) -> None:
        """Take all messages that there are, and end everything with the last one of all."""
        try:
            while (message := receive()) is not None:
                self._take(message)
        except EOFError:  # the process has gone
            self._end()
        except Exception:
            log.critical("what the engine's process says cannot be read", exc_info=True)
            self._end()

    def _stop_listening(self) -> None:
        """Have the loop listen no longer."""
        if self._loop is not None:
            self._loop.remove_reader(self._channel.source)
            self._loop = None

    def _take(self, message: Message) -> None:
        match message:
            case Heard(ticket, event):
                self._hear(ticket, event)
            case Prepared(number, result):
                self._answer(self._preparing.pop(number, None), result)
            case Status(cards=cards):
                self._status, self._told_at = message, time.monotonic()
                if cards is not None:
                    self.cards = cards

    def _hear(self, ticket: int, event: SpeechEvent) -> None:
        """Pass an event on. A sink that fails ends its request only."""
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
        """Pass on what came of a prompt."""
        try:
            if done is not None:
                done(result)
        except Exception:
            log.exception("a prompt could not be taken")

    def _end(self) -> None:
        """Tell everybody that the process has gone."""
        self._stop_listening()
        with self._lock:
            self._ended = True
        for ticket in tuple(self._sinks):
            self._hear(ticket, Broken(EngineDead(), RequestStats()))
        for number in tuple(self._preparing):
            self._take(Prepared(number, EngineDead()))


def _opened(channel: Channel, progress: Progress) -> Status:
    """Wait for the checkpoints. Arguments and errors are those of `EngineClient.open`."""
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
