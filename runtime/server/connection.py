"""WebSocket connection with a reader task, a writer task and a timer for one session.

The engine thread delivers events through `call_soon_threadsafe`. The connection acknowledges sent audio, so that the
engine can pause the requests of a client that does not read. `run` releases all slots when the socket closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from runtime.errors import BadRequest, Draining, GenerationFailed, SlowReader, SpeechError
from runtime.request import Broken, Finished, Reference, Refused, SpeechEvent, SpeechRequest
from runtime.server.caller import CALLER, submit_request
from runtime.server.engine_host import EngineHost
from runtime.server.logs import RequestLog
from runtime.server.session.commands import (
    Append,
    AudioMessage,
    Cancel,
    Close,
    DecodeReference,
    EncodedMessage,
    FinishText,
    Flush,
    Outgoing,
    Played,
    ReadStoredVoice,
    Submit,
    TextMessage,
)
from runtime.server.session.dialect import Dialect
from runtime.server.voices.blending import voice_reference
from runtime.server.voices.uploads import read_upload
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.shared.port.limits import within

log = logging.getLogger(__name__)

# Maximum length of messages that are processed on the event loop. Longer ones may take tens of milliseconds and are
# processed on a worker thread.
_MAX_INLINE_CHARS = 256
# Maximum number of reference recordings of a client that are queued or being decoded. If there are more, no input is
# read.
_MAX_READING = 4


class Socket(Protocol):
    """Interface of a client's socket: a WebSocket, or another message transport.

    After a disconnect, the send methods raise `WebSocketDisconnect` (Starlette).
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the request that opened the socket."""
        ...

    async def receive(self) -> Message:
        """Wait for the next message and return it as an ASGI message.

        Raises:
            BadRequest: The input is invalid, and no further messages can be read.
        """
        ...

    async def send_text(self, data: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


@dataclass(slots=True)
class _Running:
    """State of a request that was submitted to the engine."""

    ticket: int
    log: RequestLog
    sent: int = 0  # Number of samples sent to the client.

    @property
    def is_wanted(self) -> bool:
        return not self.log.is_cancelled


class Connection:
    """Connection that runs the session of one API on an accepted socket.

    `name` is the name of the API in logs and metrics.

    Thread: event loop.
    """

    def __init__(self, socket: Socket, dialect: Dialect[Any], host: EngineHost, *, name: str, session_id: str) -> None:
        self._socket = socket
        self._dialect = dialect
        self._host = host
        self._engine = host.engine
        self._caller = CALLER.get()
        self._name = name
        self._session_id = session_id
        self._send_s = host.settings.server.send_s
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, _Running] = {}  # Running requests by utterance number.
        self._reading: set[asyncio.Future[Reference]] = set()
        self._wake = asyncio.Event()  # Event that is set when messages may be ready to be sent.
        # Event that is set after each write and each decoded reference. The reader then checks its limits again.
        self._may_read_again = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        # Events that wait while a worker thread uses the session. None if no worker thread uses it.
        self._waiting: deque[tuple[Callable[[], None], bool]] | None = None
        # Refused requests that the session has not processed yet: number of the utterance, error, and argument
        # `is_continuation` of `_dispatch`.
        self._refusals: deque[tuple[int, SpeechError, bool]] = deque()
        self._continuation: asyncio.Handle | None = None
        self._draining = False
        self._may_submit = True

    async def run(self) -> None:
        """Serve the client until it disconnects or the session closes."""
        self._dispatch(lambda: None)
        reader = asyncio.create_task(self._read(), name="speech-socket-reader")
        writer = asyncio.create_task(self._write(), name="speech-socket-writer")
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self._release()

    def close_with(self, error: SpeechError, code: int) -> None:
        """Report a server error to the client and close the session."""
        self._dispatch(partial(self._dialect.close_with, error, code))

    def drain(self) -> None:
        """Refuse new requests, and close the connection after the running requests have ended."""
        self._draining = True
        self._dispatch(lambda: None)

    # --- Methods that receive messages and pass them to the session.

    async def _read(self) -> None:
        """Read messages until the client disconnects."""
        while True:
            try:
                message = await self._socket.receive()
            except BadRequest as error:
                self.close_with(error, error.close_code)
                # The writer task sends the close message. Afterwards, the only possible input is a disconnect.
                continue
            if message["type"] == "websocket.disconnect":
                if message.get("reason") == SlowReader.code and not self._dialect.closed:
                    # The proxy has closed the connection because the client reads too slowly.
                    self._host.metrics.count_refusal(SlowReader.code)
                return
            text = message.get("text")
            if text is None:
                self._dispatch(self._dialect.receive_bytes)
            elif len(text) <= _MAX_INLINE_CHARS:
                self._dispatch(partial(self._dialect.receive_text, text))
            else:
                await self._receive_long(text)
            while self._dialect.is_congested or len(self._reading) > _MAX_READING:
                self._may_read_again.clear()
                await self._may_read_again.wait()
            # One read may contain thousands of small messages. After each message, other connections may send their
            # audio.
            await asyncio.sleep(0)

    async def _receive_long(self, text: str) -> None:
        """Process a long message on a worker thread, and defer the session's other events."""
        self._waiting = deque()
        work = self._loop.run_in_executor(self._host.texts, copy_context().run, self._dialect.receive_text, text)
        try:
            await asyncio.wait({work})
        finally:
            if not work.done():  # The client has disconnected while the worker thread still uses the session.
                await asyncio.wait({work})
            waiting, self._waiting = self._waiting, None
            self._dispatch(work.result)
            for event, is_continuation in waiting:
                self._dispatch(event, is_continuation=is_continuation)

    def _dispatch(self, event: Callable[[], None], *, is_continuation: bool = False) -> None:
        """Pass an event to the session and run the resulting commands.

        While draining, only events that continue a running response (`is_continuation`) may submit requests.
        """
        if self._waiting is not None:
            self._waiting.append((event, is_continuation))
            return
        self._may_submit = is_continuation or not self._draining
        try:
            event()
            self._run_commands()
        except Exception:
            log.exception("the session %s failed", self._session_id)
            self._dialect.close_with(GenerationFailed(), 1011)
            self._run_commands()
        if self._draining and not self.is_speaking and not self._dialect.closed:
            self._dialect.close_with(Draining(), 1001)
            self._run_commands()
        if self._continuation is None and (self._refusals or self._dialect.has_work):
            # The continuation runs later, so that other connections are served first.
            self._continuation = self._loop.call_soon(self._continue)
        self._wake.set()
        self._set_timer()

    def _continue(self) -> None:
        """Process a refusal, which may lead to the next submission, or pending work."""
        self._continuation = None
        if self._refusals:
            utterance, error, is_continuation = self._refusals.popleft()
            self._dispatch(partial(self._refuse, utterance, error), is_continuation=is_continuation)
        else:
            self._dispatch(self._dialect.work, is_continuation=self._may_submit)

    @property
    def is_speaking(self) -> bool:
        """True if at least one utterance is running that was not cancelled."""
        return any(running.is_wanted for running in self._running.values())

    def _run_commands(self) -> None:
        while commands := self._dialect.commands():
            for command in commands:
                match command:
                    case Submit(utterance, request):
                        self._submit(utterance, request)
                    case DecodeReference(upload, ref_audio):
                        self._read_reference(upload, partial(_decoded, ref_audio, self._host))
                    case ReadStoredVoice(upload, voice_id, param):
                        library = self._host.owner_library(self._socket.headers)
                        self._read_reference(upload, partial(_recalled, library, voice_id, param))
                    case _:
                        if (running := self._running.get(command.utterance)) is not None and running.is_wanted:
                            self._send_command(running, command)

    def _send_command(self, running: _Running, command: Append | Flush | FinishText | Played | Cancel) -> None:
        match command:
            case Append(text=text):
                running.log.append_text(text)
                self._engine.append_text(running.ticket, text)
            case Flush():
                self._engine.flush(running.ticket)
            case FinishText():
                self._engine.finish_text(running.ticket)
            case Played(ms=ms):
                self._engine.ack_played(running.ticket, ms)
            case Cancel():
                running.log.is_cancelled = True
                self._engine.cancel(running.ticket)

    def _submit(self, utterance: int, request: SpeechRequest) -> None:
        try:
            if not self._may_submit:
                raise Draining
            ticket = submit_request(
                self._engine, self._caller, self._host.spending, request, partial(self._emit_event, utterance)
            )
        except SpeechError as error:
            self._refusals.append((utterance, error, self._may_submit))
            return
        except Exception:
            log.exception("the request %s/%d could not be submitted", self._session_id, utterance)
            self._refusals.append((utterance, GenerationFailed(), self._may_submit))
            return
        request_log = RequestLog(
            id=f"{self._session_id}/{utterance}",
            dialect=self._name,
            mode=request.mode,
            chars=len(request.text),
            text=request.text if self._host.settings.server.log_text else None,
        )
        self._running[utterance] = _Running(ticket, request_log)

    def _refuse(self, utterance: int, error: SpeechError) -> None:
        self._host.metrics.count_refusal(error.code)
        self._dialect.on_refused(utterance, error)

    def _emit_event(self, utterance: int, event: SpeechEvent) -> None:
        """Forward an event from the engine thread to the event loop."""
        # At shutdown, the event loop may be closed before the engine has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_speech, utterance, event)

    def _on_speech(self, utterance: int, event: SpeechEvent) -> None:
        if isinstance(event, Refused):
            self._running.pop(utterance, None)
            # This request may continue a running response, so it is allowed even while the server drains.
            self._dispatch(partial(self._refuse, utterance, event.error), is_continuation=True)
            return
        if isinstance(event, Finished | Broken) and (running := self._running.pop(utterance, None)) is not None:
            self._host.record_ended_request(running.log, event)
        self._dispatch(partial(self._dialect.on_speech, utterance, event), is_continuation=True)

    def _read_reference(self, upload: int, read: Callable[[], Reference]) -> None:
        future = self._loop.run_in_executor(self._host.decoders, read)
        self._reading.add(future)
        future.add_done_callback(partial(self._on_reference, upload))

    def _on_reference(self, upload: int, future: asyncio.Future[Reference]) -> None:
        self._reading.discard(future)
        self._may_read_again.set()
        if future.cancelled():
            return
        result: Reference | SpeechError
        match future.exception():
            case None:
                result = future.result()
            case SpeechError() as error:
                result = error
            case failure:
                log.error("a reference of the session %s could not be read", self._session_id, exc_info=failure)
                result = GenerationFailed()
        self._dispatch(partial(self._dialect.on_reference, upload, result))

    def _set_timer(self) -> None:
        """Set the timer to the session's current deadline."""
        due = self._dialect.deadline
        if self._timer is not None and (due is None or due < self._timer.when()):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._waiting is not None:
            self._dispatch(lambda: None)  # The empty event makes `_dispatch` set the timer again.
            return
        due = self._dialect.deadline
        if due is None or due > self._loop.time():
            self._set_timer()
        else:
            self._dispatch(self._dialect.tick)

    # --- Methods that send messages to the client.

    async def _write(self) -> None:
        """Write messages until the close handshake starts or the client stops reading."""
        while True:
            item = self._dialect.pop_message() if self._waiting is None else None
            if item is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._may_read_again.set()
            try:
                async with within(self._send_s):
                    await self._send(item)
            except WebSocketDisconnect:
                return
            except SlowReader as error:
                await self._drop_slow_reader(error)
                return
            if isinstance(item, Close):
                return
            running = None if item.number is None else self._running.get(item.number)
            if item.samples and running is not None and running.is_wanted:
                running.sent += item.samples
                self._engine.ack_sent(running.ticket, running.sent)

    async def _send(self, item: Outgoing) -> None:
        match item:
            case TextMessage(text):
                await self._socket.send_text(text)
            case AudioMessage(data):
                await self._socket.send_bytes(data)
            case EncodedMessage(make):
                if text := await self._encoded(make):
                    await self._socket.send_text(text)
            case Close(code, reason):
                await self._socket.close(code, reason)

    async def _encoded(self, make: Callable[[], str]) -> str:
        """Encode a message on a worker thread, and end the session if encoding fails."""
        try:
            return await self._loop.run_in_executor(self._host.encoders, make)
        except Exception:
            log.exception("audio of the session %s could not be encoded", self._session_id)
            self._dispatch(partial(self._dialect.close_with, GenerationFailed(), 1011))
            return ""

    async def _drop_slow_reader(self, error: SlowReader) -> None:
        """Drop the queued messages of a client that does not read, and close its socket."""
        log.warning(
            "the client of the session %s read nothing for %g s and was disconnected", self._session_id, self._send_s
        )
        self._host.metrics.count_refusal(error.code)
        self._dispatch(partial(self._dialect.close_with, error, error.close_code))
        # The method `close` raises an error if the client has disconnected or a close message was already sent.
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(error.close_code, error.code)

    def _release(self) -> None:
        self._dialect.on_disconnect()
        self._run_commands()
        for future in tuple(self._reading):
            future.cancel()
        if self._timer is not None:
            self._timer.cancel()


def _decoded(ref_audio: str, host: EngineHost) -> Reference:
    """Fetch and decode reference audio (on a worker thread)."""
    read = read_upload(ref_audio, host.settings.limits, host.fetcher)
    if isinstance(read, SpeechError):
        raise read
    return Reference(samples=read)


def _recalled(library: VoiceLibrary, voice_id: str, param: str) -> Reference:
    """Read the reference of a stored voice from disk (on a worker thread)."""
    try:
        return voice_reference(library, voice_id)
    except SpeechError as error:
        error.param = param
        raise
