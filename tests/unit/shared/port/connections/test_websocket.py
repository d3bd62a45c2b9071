"""Tests for WebSocket connections: close reasons, timeouts, floods and handshakes."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from runtime.shared.port.connections import websocket
from runtime.shared.port.connections.meters import MAX_TINY_FRAMES, READ_BYTES
from tests.support.bare_port import Port, exchange
from tests.support.raw_websocket import frame, handshake
from tests.support.timeouts import TEST_TIMEOUT_S, becomes

REASONS = {1008: "slow_reader", 1011: "keepalive ping timeout"}


@pytest.mark.parametrize("send_s", [1.0, TEST_TIMEOUT_S])
async def test_disconnected_client_receives_the_close_reason(send_s: float) -> None:
    """The client also misses a ping.

    It receives the close reason after the unread data, whichever limit was exceeded first.
    """
    ping_s = 0.8

    at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
    at.send_s = send_s
    async with (
        at.open() as port,
        connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None) as deaf,
    ):
        deaf.transport.pause_reading()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            code = await at.close_code
            await asyncio.sleep(1.5 * ping_s)
            deaf.transport.resume_reading()
            with suppress(ConnectionClosed):
                while await deaf.recv():
                    pass
        assert (deaf.close_code, deaf.close_reason) == (code, REASONS[code])


async def test_close_timeout_after_a_completed_close_logs_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is already closed when the timeout expires.

    A second attempt to close the connection would log an error.
    """
    ping_s, closing_s = 0.4, 2.0
    monkeypatch.setattr(websocket, "_CLOSING_S", closing_s)

    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
    async with at.open() as port:
        deaf = await connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None)
        deaf.transport.pause_reading()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await at.close_code
            told_at = asyncio.get_running_loop().time()
            deaf.transport.resume_reading()
            with suppress(ConnectionClosed):
                while await deaf.recv():
                    pass
            await deaf.wait_closed()
            await becomes(lambda: not at.server.server_state.connections)
        # If the close does not complete before the timeout, the test proves nothing.
        assert asyncio.get_running_loop().time() < told_at + closing_s
        await asyncio.sleep(told_at + closing_s + 0.2 - asyncio.get_running_loop().time())
    assert faults == []


HANDSHAKE = handshake("/length")


def reply(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


PING, PONG, CLOSE = (frame(opcode) for opcode in (Opcode.PING, Opcode.PONG, Opcode.CLOSE))
EMPTY, TINY = frame(Opcode.CONT, fin=False), frame(Opcode.CONT, b"a", fin=False)
OPEN_TEXT = frame(Opcode.TEXT, b"a", fin=False)
END = frame(Opcode.CONT)


@pytest.mark.parametrize(
    "flood",
    [
        PING * 100_000,
        PONG * 100_000,
        frame(Opcode.PING, b"a" * 125) * 10_000,
        OPEN_TEXT + EMPTY * 100_000,
        OPEN_TEXT + TINY * 100_000,
        frame(Opcode.BINARY, fin=False) + EMPTY * 100_000,
        OPEN_TEXT + (EMPTY + PING) * 50_000,
        (OPEN_TEXT + EMPTY * 4 + END) * 20_000,
    ],
    ids=["pings", "pongs", "long pings", "empty", "tiny", "binary", "mixed", "in many messages"],
)
async def test_empty_frames_are_counted_and_close_the_connection(flood: bytes) -> None:
    async with Port().open() as port:
        received = await exchange(port, HANDSHAKE, None, flood)
    message, close = received[received.index(b'{"') :].split(b"}\x88")
    assert json.loads(message + b"}")["code"] == "too_many_frames"
    assert close[1:] == (1008).to_bytes(2) + b"too_many_frames"


async def test_reading_stops_soon_after_a_close() -> None:
    read_bytes = 0

    class Counted(websocket.WebSocketConnection):
        def data_received(self, data: bytes) -> None:
            nonlocal read_bytes
            read_bytes += len(data)
            super().data_received(data)

    async with Port(ws=Counted).open() as port:
        goodbye = HANDSHAKE.replace(b"/length", b"/goodbye")
        received = await exchange(port, goodbye, None, frame(Opcode.TEXT, b"{}") * 100_000)
    assert received.endswith((1008).to_bytes(2) + b"enough")
    assert read_bytes < 2 * websocket._MAX_IGNORED_BYTES


@pytest.mark.parametrize(
    ("sent", "replies"),
    [
        (PING * (MAX_TINY_FRAMES - 10), b"\x8a\x00" * (MAX_TINY_FRAMES - 10)),
        (OPEN_TEXT + TINY * (MAX_TINY_FRAMES - 10) + END, reply("191")),
        ((OPEN_TEXT + END) * 1000, reply("1") * 1000),
        ((frame(Opcode.TEXT, fin=False) + frame(Opcode.CONT, b"a", fin=False) + END) * 500, reply("1") * 500),
        (
            frame(Opcode.TEXT, b"a" * 64, fin=False) + frame(Opcode.CONT, b"b" * 64, fin=False) * 9999 + END,
            reply("640000"),
        ),
        (frame(Opcode.TEXT, b"{}") * 600, reply("2") * 600),
        (frame(Opcode.BINARY, bytes(2**20)), reply(str(2**20))),
    ],
    ids=["pings", "one message", "two fragments", "three fragments", "long message", "messages", "large"],
)
async def test_messages_of_real_clients_are_answered(sent: bytes, replies: bytes) -> None:
    async with Port().open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        async with asyncio.timeout(TEST_TIMEOUT_S):
            assert await reader.readexactly(len(replies)) == replies
            writer.write(CLOSE)
            assert await reader.read() == b"\x88\x00"


async def test_small_messages_are_throttled_after_a_burst() -> None:
    """Many small messages get a small part of the event loop's time.

    Round trips of another client stay short.
    """
    at = Port()
    async with at.open() as port, connect(f"ws://127.0.0.1:{port}/length", compression=None) as neighbour:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(Opcode.TEXT, b"{}") * 200_000)
        answered, waits, until = 0, [], time.monotonic() + 2.0
        while time.monotonic() < until:
            began = time.perf_counter()
            await neighbour.send("hello")
            await neighbour.recv()
            waits.append(time.perf_counter() - began)
            with suppress(TimeoutError):
                answered += len(await asyncio.wait_for(reader.read(2**20), 0.01)) // 3
        writer.transport.abort()
    assert 100 < answered < 1000
    assert sorted(waits)[len(waits) // 2] < 0.1


async def test_every_message_of_one_read_is_throttled() -> None:
    async with Port().open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(Opcode.TEXT, b"{}") * (READ_BYTES // 8))
        times = []
        async with asyncio.timeout(TEST_TIMEOUT_S):
            for _ in range(READ_BYTES // 8):
                await reader.readexactly(len(reply("2")))
                times.append(time.monotonic())
        writer.transport.abort()
    assert all(later - earlier > 0.1 for earlier, later in zip(times[100:], times[150:], strict=False))


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ((b"AAAAAAAAAAAAAAAAAAAAAA==", b"short"), 400, "malformed_request"),
        ((b"Sec-WebSocket-Key", b"Key"), 400, "malformed_request"),
        ((b"Version: 13", b"Version: 7"), 400, "malformed_request"),
        ((b"Upgrade: websocket", b"Upgrade: websocket\r\nUpgrade: websocket"), 400, "malformed_request"),
        ((b"Host: 127.0.0.1", b"Host: 127.0.0.1\r\nCookie: " + b"a" * 10_000), 431, "headers_too_large"),
        ((b"/length", b"/len\xc3\xa4nge"), 400, "malformed_request"),
        ((b"Host: 127.0.0.1\r\n", b""), 400, "malformed_request"),
    ],
)
async def test_failed_handshake_gets_an_error_in_the_api_format(
    changed: tuple[bytes, bytes], status: int, code: str
) -> None:
    async with Port().open() as port:
        head, _, body = (await exchange(port, HANDSHAKE.replace(*changed))).partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["error"]["code"]) == (status, code)


async def test_data_before_the_handshake_response_closes_the_connection() -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with Port().open() as port:
        await exchange(port, HANDSHAKE + b"\xff" * 10_000)
    assert faults == []
