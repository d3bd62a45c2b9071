"""Streaming HTTP response with the audio of a running request, shared by all APIs.

The slot of the request is always released at the end of a response. A disconnect of the client is detected even while
no data is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from runtime.errors import Draining, SpeechError
from runtime.request import AudioChunk, Broken, Finished, Refused, Sink, SpeechEvent, SpeechRequest, Started
from runtime.server.descriptions import finish_notes
from runtime.server.speech_engine import SpeechEngine
from runtime.server.wire import SAMPLE_BYTES
from runtime.shared.port.limits import send_stream

log = logging.getLogger(__name__)
Value = TypeVar("Value")


class SpeechStream:
    """Async iterator over the events of one request up to the event `Finished`.

    Thread: event loop.

    Each iteration acknowledges the audio of the previous event, so the engine pauses if the client reads slowly.

    Args:
        submit: Function that is called instead of `engine.submit`.
        text_field: Name of the text field in error messages.
        on_end: Function that is called once with the final event.

    Raises:
        RateLimited, SpeechSpent: The caller has reached a limit. Raised by `__aenter__`.
        SpeechError: The request was refused or failed. Raised by the iteration.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        request: SpeechRequest,
        *,
        submit: Callable[[SpeechRequest, Sink], int] | None = None,
        text_field: str = "text",
        on_end: Callable[[Finished | Broken], None] = lambda _: None,
    ) -> None:
        self.seed = request.seed
        # Notes about ignored fields, which are set when the request gets a slot, and notes about speech problems, which
        # are set at the end.
        self.notes: tuple[str, ...] = ()
        # Time in ms for which the request has waited for a slot, or None while it waits.
        self.queue_ms: float | None = None
        self.ttfa_ms: float | None = None  # Time in ms to the first audio, or None before the first audio.
        self._engine = engine
        self._submit = submit or engine.submit
        self._request = request
        self._text_field = text_field
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        # The queue needs no size limit, because the engine pauses the request.
        self._events: asyncio.Queue[SpeechEvent] = asyncio.Queue()
        # Number of samples that were passed to the consumer, and number of samples that were acknowledged.
        self._given = self._taken = 0
        self._ended = False

    def headers(self) -> dict[str, str]:
        """Return response headers with the seed, the notes and the times measured so far."""
        times = {"queue": self.queue_ms, "ttfa": self.ttfa_ms}
        timing = ", ".join(f"{name};dur={ms:.1f}" for name, ms in times.items() if ms is not None)
        return {
            **({"Server-Timing": timing} if timing else {}),
            **({} if self.seed is None else {"X-Seed": str(self.seed)}),
            **({"X-Notes": " ".join(self.notes)} if self.notes else {}),
        }

    async def __aenter__(self) -> Self:
        self._submitted = self._loop.time()
        try:
            self._ticket = self._submit(self._request, self._emit_event)
        except SpeechError as error:
            raise self._named(error) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._engine.cancel(self._ticket)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SpeechEvent:
        if self._ended:
            raise StopAsyncIteration
        if self._taken != self._given:
            self._taken = self._given
            self._engine.ack_sent(self._ticket, self._taken)
        event = await self._events.get()
        match event:
            case Broken(error) | Refused(error):
                self._ended = True
                raise self._named(error)
            case Finished():
                self._ended = True
                self.notes += tuple(finish_notes(event))
            case Started(seed=seed, notes=notes):
                self.seed = seed
                self.notes = notes
                self.queue_ms = self._elapsed_ms()
            case AudioChunk(pcm=pcm):
                if self.ttfa_ms is None:
                    self.ttfa_ms = self._elapsed_ms()
                self._given += len(pcm) // SAMPLE_BYTES
        return event

    def _emit_event(self, event: SpeechEvent) -> None:
        """Forward an event from the engine thread to the event loop."""
        # At shutdown, the event loop may be closed before the engine has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrive, event)

    def _arrive(self, event: SpeechEvent) -> None:
        """Queue an event, and call `on_end` for the final event even after a disconnect."""
        if isinstance(event, Finished | Broken):
            self._on_end(event)
        self._events.put_nowait(event)

    def _elapsed_ms(self) -> float:
        return 1000 * (self._loop.time() - self._submitted)

    def _named(self, error: SpeechError) -> SpeechError:
        if error.param == "text":
            error.param = self._text_field
        return error


async def while_connected(
    receive: Receive, work: Coroutine[Any, Any, Value], replies: set[asyncio.Task[Any]]
) -> Value | None:
    """Run `work` and return its result, or cancel `work` if the client disconnects.

    After a disconnect, the result is None. While `work` runs, its task is in `replies`, so that a shutdown can cancel
    the task.

    Raises:
        Draining: A shutdown has cancelled `work`.
    """
    working = asyncio.create_task(work, name="speech-reply")
    leaving = asyncio.create_task(_left(receive), name="speech-reply-listener")
    replies.add(working)
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.cancelled():
            raise Draining
        return working.result() if working.done() else None
    finally:
        replies.discard(working)
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamingReply(StreamingResponse):
    """Streaming response that sends its headers when the first piece of the body is ready.

    An error before the first piece is raised, and the client gets an error response. A later error closes the
    connection, so that the client detects the incomplete body.

    Args:
        late_headers: Function that returns additional headers. It is called when the first piece is ready.
        send_s: Timeout in seconds for sending a piece.
        replies: Set that contains the task of this response while the task runs.
        on_broken: Function that is called with an error after the first piece.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        headers: Mapping[str, str],
        late_headers: Callable[[], Mapping[str, str]],
        send_s: float,
        replies: set[asyncio.Task[Any]],
        on_broken: Callable[[SpeechError], None] = lambda _: None,
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._pieces = pieces
        self._late_headers = late_headers
        self._send_s = send_s
        self._replies = replies
        self._on_broken = on_broken
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self._reply(send), self._replies)
        except SpeechError as error:
            if not self._begun:
                raise
            # The body is incomplete, so uvicorn then closes the connection.
            log.warning("a response was aborted: %s", error.code)
            self._on_broken(error)

    async def _reply(self, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:
            first = await anext(pieces)
            self.headers.update(self._late_headers())
            self._begun = True
            await send_stream(send, 200, self.raw_headers, pieces, self._send_s, first=first)
