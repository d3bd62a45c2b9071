"""HTTP server that serves a test application through the runtime's middleware."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.errors import SlowReader
from runtime.shared.port.connections.http import HttpConnection
from runtime.shared.port.connections.meters import IdleConnections, LoopShares
from runtime.shared.port.connections.server import Server
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.limits import within
from tests.support.timeouts import TEST_TIMEOUT_S, becomes

BUSY_S = 0.02
PIECES = [b"one ", b"two ", b"three"]


class Port:
    """Test server with routes that wait, stream or fail."""

    def __init__(self, most: int = 100, **kwargs: Any) -> None:
        """Create a server for up to `most` connections.

        ``kwargs`` are passed to uvicorn.
        """
        self.begun, self.leave = asyncio.Event(), asyncio.Event()
        self.send_s = TEST_TIMEOUT_S  # Maximum time in seconds for sending one message to a client.
        self.close_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()  # Received close code.
        routes = [
            Route("/wait", self.wait),
            Route("/stream", self.stream),
            Route("/broken", self.broken),
            Route("/endless", self.endless),
            Route("/busy", self.busy),
            Route("/whole", lambda _: PlainTextResponse("whole")),
            Route("/size", self.size, methods=["POST"]),
            WebSocketRoute("/speak", self.speak),
            WebSocketRoute("/length", self.length),
            WebSocketRoute("/goodbye", self.goodbye),
        ]
        connection = cast(
            Any, partial(HttpConnection, header_s=60, idle_connections=IdleConnections(most), shares=LoopShares())
        )
        kwargs = {"ws": WebSocketConnection} | kwargs
        kwargs |= {"log_level": "critical", "lifespan": "off", "timeout_graceful_shutdown": 1}
        self.server = Server(uvicorn.Config(Starlette(routes=routes), http=connection, **kwargs))

    async def wait(self, _: Request) -> Response:
        self.begun.set()
        await self.leave.wait()
        return PlainTextResponse("done")

    async def busy(self, _: Request) -> Response:
        """Block the event loop for `BUSY_S` seconds of processor time, and return a response."""
        until = time.thread_time() + BUSY_S
        while time.thread_time() < until:
            pass
        return PlainTextResponse("busy")

    async def size(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

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

    async def endless(self, _: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"piece"
                    await asyncio.sleep(0.01)
            finally:
                self.close_code.set_result(0)

        return StreamingResponse(pieces())

    async def length(self, client: WebSocket) -> None:
        """Reply to each WebSocket message with the length of the message."""
        await client.accept()
        with suppress(WebSocketDisconnect):
            while (message := await client.receive())["type"] == "websocket.receive":
                content = message.get("text") or message.get("bytes") or b""
                await client.send_text(str(len(content)))

    async def goodbye(self, client: WebSocket) -> None:
        """Accept a WebSocket and close it immediately with code 1008."""
        await client.accept()
        await client.close(1008, "enough")

    async def speak(self, client: WebSocket) -> None:
        """Send audio to a WebSocket until the client disconnects.

        A client that does not read is disconnected with the reason `slow_reader`.
        """
        await client.accept()
        try:
            while True:
                async with within(self.send_s):
                    await client.send_bytes(bytes(65536))
        except SlowReader:
            await client.close(1008, "slow_reader")
            self.close_code.set_result(1008)
        except WebSocketDisconnect:
            self.close_code.set_result((await client.receive())["code"])

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
    """Send a GET request, and return the raw HTTP response as bytes.

    The response ends when the server closes the connection.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(TEST_TIMEOUT_S):
        answer = await reader.read()
    writer.close()
    return answer


async def exchange(port: int, *pieces: bytes | None) -> bytes:
    """Send `pieces` on a new connection, and return all bytes of the server's response.

    If a piece is None, the function waits for the first byte of a response before it sends the next piece.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""

    async def read() -> None:
        nonlocal received
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                received += piece

    reading = asyncio.create_task(read())
    async with asyncio.timeout(TEST_TIMEOUT_S):
        with suppress(ConnectionError):  # The server may close the connection before it has received all pieces.
            for piece in pieces:
                if piece is None:
                    await becomes(lambda: bool(received))
                else:
                    writer.write(piece)
                    await writer.drain()
        await reading
    writer.close()
    return received
