"""The shell around one session: a reader, a writer, a timer, and nothing that outlives them.

Speech comes from the engine's thread by `call_soon_threadsafe` and by no other way. Whatever ends the socket, `run`
gives back every slot on its way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.errors import GenerationFailed, SpeechError
from runtime.request import Broken, Finished, SpeechEvent, SpeechRequest
from runtime.server.effects import (
    Append,
    Cancel,
    Close,
    Decode,
    FinishText,
    Flush,
    Outgoing,
    Played,
    Sound,
    Submit,
    Text,
)
from runtime.server.session import Session
from runtime.server.speech_engine import SpeechEngine
from runtime.server.uploads import fetcher_for, read_upload
from runtime.settings import Settings

log = logging.getLogger(__name__)
Value = TypeVar("Value")


class SpeechSocket:
    """One accepted WebSocket. Thread: event loop."""

    def __init__(
        self,
        websocket: WebSocket,
        session: Session,
        engine: SpeechEngine,
        decoders: Executor,
        settings: Settings,
    ) -> None:
        self._websocket = websocket
        self._session = session
        self._engine = engine
        self._decoders = decoders
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._tickets: dict[int, int] = {}  # utterance -> engine's ticket
        self._decoding: set[asyncio.Future[NDArray[np.float32] | SpeechError]] = set()
        self._wake = asyncio.Event()  # there may be something to write
        self._taken = asyncio.Event()  # something was written
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Serve the client until it leaves or the session closes."""
        self._feed(lambda: None)
        reader = asyncio.create_task(self._read(), name="speech-socket-reader")
        writer = asyncio.create_task(self._write(), name="speech-socket-writer")
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self._release()

    def shut(self, error: SpeechError, code: int) -> None:
        """Say goodbye because the server must."""
        self._feed(partial(self._session.shut, error, code))

    # --- in

    async def _read(self) -> None:
        """Return once the client has left."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                self._feed(self._session.receive_bytes)
            else:
                self._feed(partial(self._session.receive_text, text))
            while self._session.is_congested:
                self._taken.clear()
                await self._taken.wait()
            # Thousands of small messages may have been read at once; others' sound goes out between them.
            await asyncio.sleep(0)

    def _feed(self, event: Callable[[], None]) -> None:
        """Give the session an event, and do what it wants done about it."""
        try:
            event()
            self._obey()
        except Exception:
            log.exception("the session failed")
            self._session.shut(GenerationFailed(), 1011)
            self._obey()
        self._wake.set()
        self._set_timer()

    def _obey(self) -> None:
        while commands := self._session.commands():
            for command in commands:
                match command:
                    case Submit(utterance, request):
                        self._submit(utterance, request)
                    case Cancel(utterance):
                        if (ticket := self._tickets.pop(utterance, None)) is not None:
                            self._engine.cancel(ticket)
                    case Append(utterance, text):
                        self._with_ticket(utterance, partial(_swapped, self._engine.append, text))
                    case Flush(utterance):
                        self._with_ticket(utterance, self._engine.flush)
                    case FinishText(utterance):
                        self._with_ticket(utterance, self._engine.finish_text)
                    case Played(utterance, ms):
                        self._with_ticket(utterance, partial(_swapped, self._engine.played, ms))
                    case Decode(upload, ref_audio):
                        self._decode(upload, ref_audio)

    def _with_ticket(self, utterance: int, tell: Callable[[int], None]) -> None:
        if (ticket := self._tickets.get(utterance)) is not None:
            tell(ticket)

    def _submit(self, utterance: int, request: SpeechRequest) -> None:
        try:
            self._tickets[utterance] = self._engine.submit(request, partial(self._hand_over, utterance))
        except SpeechError as error:
            self._session.on_refused(utterance, error)
        except Exception:
            log.exception("the engine failed at a request")
            self._session.on_refused(utterance, GenerationFailed())

    def _hand_over(self, utterance: int, event: SpeechEvent) -> None:
        """The sink. Thread: engine."""
        # The loop is closed where the process ends before its engine; nobody listens then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_speech, utterance, event)

    def _on_speech(self, utterance: int, event: SpeechEvent) -> None:
        if isinstance(event, Finished | Broken):
            self._tickets.pop(utterance, None)
        self._feed(partial(self._session.on_speech, utterance, event))

    def _decode(self, upload: int, ref_audio: str) -> None:
        fetcher = fetcher_for(self._settings.server.reference_addresses)
        future = self._loop.run_in_executor(self._decoders, read_upload, ref_audio, self._settings.limits, fetcher)
        self._decoding.add(future)
        future.add_done_callback(partial(self._on_decoded, upload))

    def _on_decoded(self, upload: int, future: asyncio.Future[NDArray[np.float32] | SpeechError]) -> None:
        self._decoding.discard(future)
        if future.cancelled():
            return
        result: NDArray[np.float32] | SpeechError = GenerationFailed()
        if (failure := future.exception()) is None:
            result = future.result()
        else:
            log.error("reference audio could not be decoded", exc_info=failure)
        self._feed(partial(self._session.on_reference, upload, result))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._session.deadline is not None:
            self._timer = self._loop.call_at(self._session.deadline, self._feed, self._session.tick)

    # --- out

    async def _write(self) -> None:
        """Return once the closing handshake is begun, or the client takes nothing any more."""
        while True:
            item = self._session.take()
            if item is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._taken.set()
            try:
                async with asyncio.timeout(self._settings.server.send_s):
                    await self._send(item)
            except WebSocketDisconnect:
                return
            except TimeoutError:
                log.warning("a client took nothing for %g s and was dropped", self._settings.server.send_s)
                return
            if isinstance(item, Close):
                return

    async def _send(self, item: Outgoing) -> None:
        match item:
            case Text(text):
                await self._websocket.send_text(text)
            case Sound(data):
                await self._websocket.send_bytes(data)
            case Close(code, reason):
                await self._websocket.close(code, reason)

    def _release(self) -> None:
        self._session.gone()
        self._obey()
        for future in tuple(self._decoding):
            future.cancel()
        if self._timer is not None:
            self._timer.cancel()


def _swapped(tell: Callable[[int, Value], None], value: Value, ticket: int) -> None:
    tell(ticket, value)
