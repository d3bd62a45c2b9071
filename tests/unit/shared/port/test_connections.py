"""What a port does with connections, by real sockets and an application of the test's own."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from runtime.errors import SlowReader
from runtime.shared.port import connections
from runtime.shared.port.connections import HttpConnection, Waiting, WebSocketConnection, most_open
from runtime.shared.port.sending import within
from runtime.shared.port.serving import Server
from tests.support.patience import PATIENCE_S, becomes

PIECES = [b"one ", b"two ", b"three"]


class Port:
    """A server whose application streams, or waits until it is told."""

    def __init__(self, most: int = 100, **words: Any) -> None:
        """``words`` are uvicorn's."""
        self.begun, self.leave = asyncio.Event(), asyncio.Event()
        self.send_s = PATIENCE_S  # that one message of a socket may wait for its client
        self.told: asyncio.Future[int] = asyncio.get_running_loop().create_future()  # with what code a socket ended
        routes = [
            Route("/wait", self.wait),
            Route("/stream", self.stream),
            Route("/broken", self.broken),
            Route("/whole", lambda _: PlainTextResponse("whole")),
            WebSocketRoute("/speak", self.speak),
        ]
        connection = cast(Any, partial(HttpConnection, header_s=60, waiting=Waiting(most)))
        words |= {"log_level": "critical", "lifespan": "off", "timeout_graceful_shutdown": 1, "ws": WebSocketConnection}
        self.server = Server(uvicorn.Config(Starlette(routes=routes), http=connection, **words))

    async def wait(self, _: Request) -> Response:
        self.begun.set()
        await self.leave.wait()
        return PlainTextResponse("done")

    async def stream(self, _: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in PIECES:
                yield piece

        return StreamingResponse(pieces())

    async def broken(self, _: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield PIECES[0]
            raise RuntimeError("on the way")

        return StreamingResponse(pieces())

    async def speak(self, client: WebSocket) -> None:
        """Send without end; a client that takes nothing is told so."""
        await client.accept()
        try:
            while True:
                async with within(self.send_s):
                    await client.send_bytes(bytes(65536))
        except SlowReader:
            await client.close(1008, "slow_reader")
            self.told.set_result(1008)
        except WebSocketDisconnect:
            self.told.set_result((await client.receive())["code"])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        listener = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(self.server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            self.leave.set()
            self.server.should_exit = True
            await serving


async def ask(port: int, path: str, version: str = "1.1") -> bytes:
    """All that comes until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    return answer


def test_an_old_client_gets_no_chunks_and_a_new_one_does() -> None:
    async def scenario() -> None:
        async with Port().open() as port:
            head, _, body = (await ask(port, "/stream", "1.0")).partition(b"\r\n\r\n")
            assert body == b"".join(PIECES)
            assert b"chunked" not in head.lower()
            assert b"connection: close" in head.lower()
            head, _, body = (await ask(port, "/whole", "1.0")).partition(b"\r\n\r\n")
            assert (b"content-length: 5" in head.lower(), body) == (True, b"whole")
            head, _, body = (await ask(port, "/stream")).partition(b"\r\n\r\n")
            assert b"chunked" in head.lower()
            assert body.endswith(b"0\r\n\r\n")

    asyncio.run(scenario())


@pytest.mark.logs_errors
def test_an_old_client_does_not_take_a_part_for_the_whole() -> None:
    async def scenario() -> None:
        async with Port().open() as port:
            with pytest.raises(ConnectionResetError):
                await ask(port, "/broken", "1.0")

    asyncio.run(scenario())


def test_who_waited_longest_makes_room_and_who_is_served_does_not() -> None:
    async def scenario() -> None:
        at = Port(most=2)
        async with at.open() as port:
            served = asyncio.create_task(ask(port, "/wait"))
            await at.begun.wait()
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            async with asyncio.timeout(PATIENCE_S):
                for reader, _ in silent[:2]:
                    with suppress(ConnectionResetError):
                        assert await reader.read() == b""
            assert b"whole" in await ask(port, "/whole")
            at.leave.set()
            assert b"done" in await served
            for _, writer in silent:
                writer.close()

    asyncio.run(scenario())


def test_where_all_are_served_the_next_is_told_so() -> None:
    async def scenario() -> None:
        at = Port(most=1)
        async with at.open() as port:
            served = asyncio.create_task(ask(port, "/wait"))
            await at.begun.wait()
            head, _, body = (await ask(port, "/whole")).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in head
            assert json.loads(body)["error"]["code"] == "too_many_connections"
            at.leave.set()
            assert b"done" in await served

    asyncio.run(scenario())


@pytest.mark.parametrize(("files", "most"), [(1024, 512), (256, 128), (resource.RLIM_INFINITY, 512), (1, 1)])
def test_connections_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert most_open(256) == most


REASONS = {1008: "slow_reader", 1011: "keepalive ping timeout"}


@pytest.mark.parametrize("send_s", [1.0, PATIENCE_S])
def test_a_client_that_reads_again_hears_why_it_was_dropped(send_s: float) -> None:
    """A ping went unanswered by then; the reason stands behind what was not read, whichever limit was the first."""
    ping_s = 0.8

    async def scenario() -> None:
        at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
        at.send_s = send_s
        async with (
            at.open() as port,
            connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None) as deaf,
        ):
            deaf.transport.pause_reading()
            async with asyncio.timeout(PATIENCE_S):
                code = await at.told
                await asyncio.sleep(1.5 * ping_s)
                deaf.transport.resume_reading()
                with suppress(ConnectionClosed):
                    while await deaf.recv():
                        pass
            assert (deaf.close_code, deaf.close_reason) == (code, REASONS[code])

    asyncio.run(scenario())


def test_nothing_is_left_to_do_with_a_client_that_read_its_goodbye_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that would be cut is gone by then, and cutting it would be an error in the log."""
    ping_s, closing_s = 0.4, 2.0
    monkeypatch.setattr(connections, "_CLOSING_S", closing_s)

    async def scenario() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
        async with at.open() as port:
            deaf = await connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None)
            deaf.transport.pause_reading()
            async with asyncio.timeout(PATIENCE_S):
                await at.told
                told_at = asyncio.get_running_loop().time()
                deaf.transport.resume_reading()
                with suppress(ConnectionClosed):
                    while await deaf.recv():
                        pass
                await deaf.wait_closed()
                await becomes(lambda: not at.server.server_state.connections)
            assert asyncio.get_running_loop().time() < told_at + closing_s  # or it was cut, and this shows nothing
            await asyncio.sleep(told_at + closing_s + 0.2 - asyncio.get_running_loop().time())
        assert faults == []

    asyncio.run(scenario())
