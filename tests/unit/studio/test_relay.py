"""Tests for the relay of HTTP and WebSocket connections, on real sockets.

A test server takes the place of the runtime.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.utils import accept_key

from runtime.settings import FORM_BYTES
from studio.relay.relay import HTTP_METHODS, Relay
from studio.runtimes.given_runtime import GivenRuntime
from tests.unit.studio.serving import served

Talk = Callable[[WebSocket], Awaitable[None]]


@asynccontextmanager
async def relayed(*upstream: BaseRoute) -> AsyncIterator[str]:
    """Serve routes through a relay, and yield the "host:port" of the relay."""
    async with served(upstream) as runtime, relay_to(f"http://{runtime}") as address:
        yield address


@asynccontextmanager
async def relay_to(url: str, api_key: str = "") -> AsyncIterator[str]:
    relay = Relay(GivenRuntime(url), api_key)
    routes = [
        Route("/v1/{path:path}", relay.http, methods=HTTP_METHODS),
        WebSocketRoute("/v1/{path:path}", relay.websocket),
    ]
    async with served(routes) as address:
        yield address
    await relay.aclose()


@asynccontextmanager
async def talk(server: Talk, **options: Any) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket to `server` through the relay."""
    async with (
        relayed(WebSocketRoute("/v1/talk", server)) as address,
        connect(f"ws://{address}/v1/talk", compression=None, max_size=None, **options) as socket_,
    ):
        yield socket_


async def echo(server: WebSocket) -> None:
    await server.accept()
    try:
        while True:
            message = await server.receive()
            if message["type"] == "websocket.disconnect":
                return
            if message.get("bytes") is not None:
                await server.send_bytes(message["bytes"])
            else:
                await server.send_text(message["text"])
    except WebSocketDisconnect:
        return


async def test_each_frame_is_relayed_unchanged_as_one_frame() -> None:
    sizes = [0, 1, 2, 125, 126, 3856, 65535, 65536, 300_000]
    stream = random.Random(1)
    frames: list[str | bytes] = [stream.randbytes(size) for size in sizes]
    frames += ["", "ascii", "水刚刚烧开 🎧", "x" * 100_000]
    stream.shuffle(frames)

    async with talk(echo) as socket_:
        for frame in frames:
            await socket_.send(frame)
        assert [await socket_.recv() for _ in frames] == frames


async def test_frame_is_relayed_without_waiting_for_the_next() -> None:
    async def server(server: WebSocket) -> None:
        await server.accept()
        for number in range(5):
            await server.send_bytes(bytes([number]))
            assert await server.receive_text() == f"heard {number}"
        await server.close()

    async with talk(server) as socket_:
        for number in range(5):
            async with asyncio.timeout(60):
                assert await socket_.recv() == bytes([number])
            await socket_.send(f"heard {number}")


async def test_audio_is_relayed_at_many_times_its_speed() -> None:
    chunk, count = bytes(8 * 3840), 100  # 100 chunks of 8 frames (80 ms each) are 64 s of audio.

    async def server(server: WebSocket) -> None:
        await server.accept()
        for _ in range(count):
            await server.send_bytes(chunk)
        await server.receive()

    async with talk(server) as socket_:
        async with asyncio.timeout(6):
            assert [len(await socket_.recv()) for _ in range(count)] == [len(chunk)] * count


@pytest.mark.parametrize("offered", [["voicewright.speech.v1"], ["other", "voicewright.speech.v1"], None])
async def test_subprotocol_is_chosen_by_the_runtime(offered: list[str] | None) -> None:
    async def server(server: WebSocket) -> None:
        assert server.scope["subprotocols"] == (offered or [])
        await server.accept(subprotocol="voicewright.speech.v1" if offered else None)
        await server.receive()

    async with talk(server, subprotocols=offered) as socket_:
        assert socket_.subprotocol == ("voicewright.speech.v1" if offered else None)


async def test_close_by_the_runtime_reaches_the_client() -> None:
    async def server(server: WebSocket) -> None:
        await server.accept()
        await server.send_text("last words")
        await server.close(1008, "idle_timeout")

    async with talk(server) as socket_:
        assert await socket_.recv() == "last words"
        with pytest.raises(ConnectionClosed):
            await socket_.recv()
        assert (socket_.close_code, socket_.close_reason) == (1008, "idle_timeout")


@pytest.mark.parametrize("code", [1000, 1001, 4000])
async def test_close_by_the_client_reaches_the_runtime(code: int) -> None:
    closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def server(server: WebSocket) -> None:
        await server.accept()
        closed.set_result((await server.receive())["code"])

    async with relayed(WebSocketRoute("/v1/talk", server)) as address:
        socket_ = await connect(f"ws://{address}/v1/talk")
        await socket_.close(code)
        async with asyncio.timeout(60):
            assert await closed == code


async def test_lost_client_closes_the_runtime_socket() -> None:
    closed = asyncio.Event()

    async def server(server: WebSocket) -> None:
        await server.accept()
        assert (await server.receive())["type"] == "websocket.disconnect"
        closed.set()

    async with relayed(WebSocketRoute("/v1/talk", server)) as address:
        socket_ = await connect(f"ws://{address}/v1/talk")
        socket_.transport.abort()
        async with asyncio.timeout(60):
            await closed.wait()


@pytest.mark.parametrize("code", [1000, 1011])
async def test_client_may_close_before_the_runtime_without_an_error(code: int) -> None:
    """The server has already received the client's disconnect when it sends the close frame."""

    async def server(server: WebSocket) -> None:
        await server.accept()
        await server.close(code)

    sent: list[str] = []
    messages = iter([{"type": "websocket.connect"}])

    async def receive() -> Message:
        return next(messages, None) or await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.close":
            raise OSError

    where = {"path": "/v1/talk", "raw_path": b"/v1/talk", "query_string": b""}
    scope = {"type": "websocket", **where, "headers": [], "subprotocols": []}
    async with served([WebSocketRoute("/v1/talk", server)]) as runtime:
        relay = Relay(GivenRuntime(f"http://{runtime}"), "")
        await relay.websocket(WebSocket(scope, receive, send))
        await relay.aclose()
    assert sent == ["websocket.accept", "websocket.close"]


async def test_refused_handshake_is_relayed_unchanged() -> None:
    async def server(server: WebSocket) -> None:
        await server.send_denial_response(JSONResponse({"why": "no key"}, status_code=401))

    with pytest.raises(InvalidStatus) as refusal:
        async with talk(server):
            raise AssertionError("the socket opened")
    assert refusal.value.response.status_code == 401
    assert json.loads(refusal.value.response.body) == {"why": "no key"}


async def expect_unavailable(socket_: ClientConnection) -> None:
    error = json.loads(await socket_.recv())
    assert (error["type"], error["code"], error["retryable"]) == ("error", "runtime_unavailable", True)
    # An error without a context ID concerns all contexts, and the close that follows ends them.
    assert error["context_id"] is None
    with pytest.raises(ConnectionClosed):
        await socket_.recv()
    assert (socket_.close_code, socket_.close_reason) == (1013, "runtime_unavailable")


async def test_missing_runtime_is_reported_to_the_page() -> None:
    async def check_error(runtime: str) -> None:
        async with relay_to(runtime) as address:
            url = f"ws://{address}/v1/audio/speech/stream"
            async with connect(url, subprotocols=["voicewright.speech.v1"]) as socket_:
                assert socket_.subprotocol == "voicewright.speech.v1"
                await expect_unavailable(socket_)
            async with connect(f"ws://{address}/v1/text-to-speech/clara/stream-input") as socket_:
                error = json.loads(await socket_.recv())  # The error has the format of ElevenLabs' API.
                assert (error["error"], error["code"], error["retryable"]) == ("runtime_unavailable", 1013, True)
            async with httpx.AsyncClient() as client:
                answer = await client.get(f"http://{address}/v1/models")
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "runtime_unavailable"
            assert int(answer.headers["retry-after"]) >= 1

    with socket.socket() as nobody:  # This socket reserves a port but does not listen on it.
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        await check_error(f"http://127.0.0.1:{port}")


async def test_runtime_crash_during_a_connection_is_reported_to_the_page() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        accept = accept_key(key.split(b":")[1].strip().decode())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n\x82\x02ab"
        )
        await writer.drain()
        await reader.readexactly(1)
        writer.transport.abort()

    async with await asyncio.start_server(die, "127.0.0.1", 0) as runtime:
        port = runtime.sockets[0].getsockname()[1]
        async with (
            relay_to(f"http://127.0.0.1:{port}") as address,
            connect(f"ws://{address}/v1/talk") as socket_,
        ):
            assert await socket_.recv() == b"ab"
            await socket_.send("and now")
            await expect_unavailable(socket_)


async def test_slow_client_applies_backpressure_to_the_runtime() -> None:
    sent = 0

    over = asyncio.Event()

    async def server(server: WebSocket) -> None:
        nonlocal sent
        await server.accept()
        try:
            for _ in range(2000):
                await server.send_bytes(bytes(65536))
                sent += 65536
        finally:
            over.set()

    async with relayed(WebSocketRoute("/v1/talk", server)) as address:
        socket_ = await connect(f"ws://{address}/v1/talk", compression=None, max_queue=1)
        before = -1
        while before != sent:  # The flow has stopped if no data is sent for half a second.
            before = sent
            await asyncio.sleep(0.5)
        socket_.transport.abort()
        async with asyncio.timeout(60):
            await over.wait()
    # Kernel buffers on loopback hold a few MB. Without back-pressure, the relay would buffer all 131 MB.
    assert 0 < sent < 40 * 2**20


async def test_http_relay_preserves_path_query_body_status_and_headers() -> None:
    async def answer(request: Request) -> Response:
        seen = {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.scope["query_string"].decode(),
            "body": (await request.body()).decode(),
            "type": request.headers.get("content-type"),
            "key": request.headers.get("authorization"),
            "host": request.headers["host"],
        }
        return JSONResponse(seen, status_code=418, headers={"x-request-id": "r1"})

    async with (
        served([Route("/v1/{path:path}", answer, methods=HTTP_METHODS)]) as runtime,
        relay_to(f"http://{runtime}") as address,
        httpx.AsyncClient(base_url=f"http://{address}") as client,
    ):
        back = await client.put(
            "/v1/voices/a%2Fb%20c?x=1%202&y=",
            content="body",
            headers={"content-type": "text/plain", "authorization": "Bearer k"},
        )
    assert (back.status_code, back.headers["x-request-id"]) == (418, "r1")
    assert back.headers["content-type"] == "application/json"
    assert back.json() == {
        "method": "PUT",
        "path": "/v1/voices/a%2Fb%20c",
        "query": "x=1%202&y=",
        "body": "body",
        "type": "text/plain",
        "key": "Bearer k",
        "host": runtime,
    }


@pytest.mark.parametrize(("is_declared", "said"), [(True, "has 200000 bytes"), (False, "has more than 66560 bytes")])
async def test_body_over_the_limit_is_refused_by_its_declared_size(
    monkeypatch: pytest.MonkeyPatch, is_declared: bool, said: str
) -> None:
    limit = 1024 + FORM_BYTES
    for name in ("VOICEWRIGHT_MAX_CONFIG_BYTES", "VOICEWRIGHT_MAX_UPLOAD_BYTES"):
        monkeypatch.setenv(name, "1024")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield bytes(100_000)

    async def nobody(request: Request) -> Response:
        return Response(await request.body())

    async with (
        served([Route("/v1/{path:path}", nobody, methods=HTTP_METHODS)]) as runtime,
        relay_to(f"http://{runtime}") as address,
        httpx.AsyncClient(base_url=f"http://{address}") as client,
    ):
        answer = await client.post("/v1/speech", content=bytes(200_000) if is_declared else pieces())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (413, "message_too_large")
    assert error["message"] == f"The body {said}; the limit is {limit}. Send less at a time."
    assert error["facts"]["size"] == (200_000 if is_declared else limit)


@pytest.mark.parametrize("value", ["Bearer ", "Bearer k \t "])
async def test_trailing_space_in_a_header_value_is_removed(value: str) -> None:
    """Curl sends "Authorization: Bearer " if the variable with the key is not set."""

    async def key(request: Request) -> Response:
        return Response(request.headers["authorization"])

    async with relayed(Route("/v1/key", key)) as address:
        host, port = address.split(":")
        # The test uses a raw connection, because httpx refuses a header with a trailing space.
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /v1/key HTTP/1.1\r\nHost: {address}\r\nAuthorization: {value}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        answer = (await reader.read()).decode()
        writer.close()
    assert answer.startswith("HTTP/1.1 200 ")
    assert answer.endswith(f"\r\n\r\n{value.strip()}")


async def test_http_relay_streams_and_stops_on_disconnect() -> None:
    go_on, left = asyncio.Event(), asyncio.Event()

    async def sound(_: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                yield b"first"
                await go_on.wait()
                while True:
                    yield bytes(4096)
                    await asyncio.sleep(0.01)
            except (asyncio.CancelledError, ClientDisconnect):
                left.set()
                raise

        return StreamingResponse(parts(), media_type="audio/pcm")

    async with relayed(Route("/v1/sound", sound)) as address, httpx.AsyncClient() as client:
        async with asyncio.timeout(60), client.stream("GET", f"http://{address}/v1/sound") as answer:
            assert answer.headers["content-type"] == "audio/pcm"
            stream = answer.aiter_raw()
            assert await anext(stream) == b"first"
            go_on.set()
            await anext(stream)
        async with asyncio.timeout(60):
            await left.wait()


async def test_relay_sends_its_own_runtime_key_only() -> None:
    async def key(request: Request) -> Response:
        return JSONResponse([request.headers.getlist("x-api-key"), request.headers.get("authorization")])

    async def socket_key(server: WebSocket) -> None:
        await server.accept()
        await server.send_text(",".join(server.headers.getlist("x-api-key")))
        await server.close()

    async with (
        served([Route("/v1/key", key), WebSocketRoute("/v1/talk", socket_key)]) as runtime,
        relay_to(f"http://{runtime}", "ours") as address,
        httpx.AsyncClient(base_url=f"http://{address}") as client,
    ):
        assert (await client.get("/v1/key")).json() == [["ours"], None]
        headers = {"x-api-key": "theirs", "authorization": "Basic x"}
        assert (await client.get("/v1/key", headers=headers)).json() == [["ours"], "Basic x"]
        async with connect(f"ws://{address}/v1/talk", additional_headers=headers) as socket_:
            assert await socket_.recv() == "ours"
