"""Tests for HTTP connections: framing limits, errors, pipelining and closing."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

import pytest

from runtime.shared.port.connections.meters import MAX_FIELDS, MAX_FRAMING_BYTES, MAX_HEAD_BYTES, READ_BYTES
from tests.support.bare_port import BUSY_S, PIECES, Port, ask, exchange
from tests.support.raw_websocket import handshake
from tests.support.timeouts import TEST_TIMEOUT_S


async def test_http_1_0_client_gets_no_chunked_encoding() -> None:
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


@pytest.mark.logs_errors
async def test_http_1_0_client_detects_a_truncated_response() -> None:
    async with Port().open() as port:
        with pytest.raises(ConnectionResetError):
            await ask(port, "/broken", "1.0")


async def test_longest_idle_connection_is_closed_first_and_active_connections_stay() -> None:
    at = Port(most=2)
    async with at.open() as port:
        served = asyncio.create_task(ask(port, "/wait"))
        await at.begun.wait()
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        async with asyncio.timeout(TEST_TIMEOUT_S):
            for reader, _ in silent[:2]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        assert b"whole" in await ask(port, "/whole")
        at.leave.set()
        assert b"done" in await served
        for _, writer in silent:
            writer.close()


async def test_new_connection_is_refused_if_all_open_connections_are_active() -> None:
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


GET = b"GET /whole HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /size HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


async def answers(*pieces: bytes | None) -> list[tuple[int, Any]]:
    """Send data on one connection, and return (status, body) of each response."""
    async with Port().open() as port:
        result = await exchange(port, *pieces)
    found, rest = [], result
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        (size,) = (
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")
        )
        body, rest = rest[:size], rest[size:]
        found.append((int(head.split()[1]), json.loads(body) if body.startswith(b"{") else body.decode()))
    return found


CLOSING = GET + b"connection: close\r\n\r\n"
UNBOUNDED_RESPONSES: dict[str, list[bytes | None]] = {
    "short headers": [GET, b"a: b\r\n" * 10_000],
    "headers without a value": [GET, b"a:\r\n" * 10_000],
    "one header value": [GET, b"a: ", *[b"b" * 4096] * 200],
    "one header name": [GET, *[b"a" * 4096] * 200],
    "folded header": [GET, b"a: b\r\n", b" c\r\n" * 20_000],
    "request line": [b"GET /whole?", *[b"a" * 4096] * 200],
    "headers of a second request": [GET + b"\r\n", None, GET, b"a: b\r\n" * 10_000],
    "trailers": [CHUNKED, b"2\r\nab\r\n0\r\n", b"a: b\r\n" * 10_000],
    "one trailer": [CHUNKED, b"2\r\nab\r\n0\r\na: ", *[b"b" * 4096] * 200],
    "one chunk's extension": [CHUNKED, b"2;a=", *[b"b" * 4096] * 200],
    "extensions of many chunks": [CHUNKED, (b"1;" + b"a" * 100 + b"\r\nb\r\n") * 2_000],
    "chunks of a byte": [CHUNKED, b"1\r\na\r\n" * 100_000],
    "leading zeros of a chunk's size": [CHUNKED, *[b"0" * 4096] * 200],
}


@pytest.mark.parametrize("kind", UNBOUNDED_RESPONSES)
async def test_endless_headers_and_framing_are_refused_early(kind: str) -> None:
    *before, (status, body) = await answers(*UNBOUNDED_RESPONSES[kind])
    assert [status for status, _ in before] == ([200] if "second" in kind else [])
    if "folded" in kind or "zeros" in kind:  # The parser refuses these headers even below the limit.
        assert (status, body["error"]["code"]) in [(400, "malformed_request"), (431, "headers_too_large")]
    else:
        assert (status, body["error"]["code"]) == (431, "headers_too_large")


FAIR = {
    "as many headers as there may be": [GET, b"a: b\r\n" * (MAX_FIELDS - 2), b"connection: close\r\n\r\n"],
    "large headers": [GET, b"cookie: %s\r\n" % (b"a" * (MAX_HEAD_BYTES // 2)), b"connection: close\r\n\r\n"],
    "small chunks": [CHUNKED, b"1\r\na\r\n" * (MAX_FRAMING_BYTES // 8), b"0\r\na: b\r\n\r\n", CLOSING],
    "a large body in chunks": [CHUNKED, *[b"400\r\n%s\r\n" % bytes(1024)] * 1000, b"0\r\n\r\n", CLOSING],
    "many requests": [*[GET + b"a: b\r\n" * 50 + b"\r\n"] * 50, CLOSING],
    "many requests at once": [(GET + b"\r\n") * 300, CLOSING],
}


@pytest.mark.parametrize("kind", FAIR)
async def test_header_limits_are_far_above_the_headers_of_real_clients(kind: str) -> None:
    statuses = [status for status, _ in await answers(*FAIR[kind])]
    assert set(statuses) == {200}
    assert len(statuses) == {"many requests": 51, "many requests at once": 301}.get(kind, kind.count("chunks") + 1)


NO_HOST = b"GET /whole HTTP/1.1\r\n\r\n"
MALFORMED = {
    "no host": NO_HOST,
    "two hosts": b"GET /whole HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT to a path": b"CONNECT /whole HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET /whole\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no colon": GET + b"nothing\r\n\r\n",
    "two lengths": GET + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
    "no chunk size": CHUNKED + b"xyz\r\n",
    "compressed chunks": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "upgrade without host": b"GET /speak HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_malformed_request_gets_an_error_in_the_api_format(kind: str) -> None:
    ((status, body),) = await answers(MALFORMED[kind])
    assert (status, body["error"]["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    ("path", "key"), [("/v1/audio/speech", "error"), ("/tts/bytes", "error_code"), ("/v1/voices", "detail")]
)
async def test_error_format_depends_on_the_path(path: str, key: str) -> None:
    ((_, body),) = await answers(f"GET {path}?a=b HTTP/1.1\r\n\r\n".encode())
    assert key in body


async def test_http_1_0_client_needs_no_host_header() -> None:
    assert await answers(b"GET /whole HTTP/1.0\r\n\r\n") == [(200, "whole")]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_early_response_is_not_lost_if_the_connection_closes_after_it(version: str) -> None:
    """A proxy such as nginx sends `Connection: close` and the whole body before it reads."""
    head = f"POST /whole HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {2**24}\r\n\r\n"
    async with Port().open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode())
        async with asyncio.timeout(TEST_TIMEOUT_S):
            response = await reader.read()  # The response ends although the body is incomplete.
            for _ in range(2**8):
                writer.write(bytes(2**16))
                await writer.drain()
            writer.write(GET + b"\r\n")  # Nothing may follow the body of the last request.
            assert await reader.read() == b""
        assert response.startswith(b"HTTP/1.1 405 ")
        assert b"connection: close" in response
        writer.close()


async def test_trailers_are_not_passed_to_routes() -> None:
    trailer = b"2\r\nab\r\n0\r\nhost: other\r\nhost: another\r\n\r\n"
    assert await answers(CHUNKED, trailer, CLOSING) == [(200, "2"), (200, "whole")]


async def test_refused_request_does_not_interrupt_the_previous_response() -> None:
    at = Port()
    async with at.open() as port:
        received = await exchange(port, b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", NO_HOST)
        assert b"malformed_request" in received
        at.leave.set()
        received = await exchange(port, b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n" + NO_HOST)
        assert received.count(b"HTTP/1.1 ") == 1


async def test_pipelined_requests_are_throttled_after_a_burst() -> None:
    """Many pipelined requests get a tenth of the event loop's time.

    The server buffers the data of at most one read.
    """
    at = Port()
    async with at.open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((GET + b"\r\n") * 100_000)
        answered, waits, until = 0, [], time.monotonic() + 2.0
        while time.monotonic() < until:
            began = time.perf_counter()
            assert b"whole" in await ask(port, "/whole")
            waits.append(time.perf_counter() - began)
            with suppress(TimeoutError):
                answered += (await asyncio.wait_for(reader.read(2**20), 0.01)).count(b"HTTP/1.1 200")
        (flood,) = (one for one in at.server.server_state.connections if getattr(one, "pipeline", None))
        assert len(flood.pipeline) <= READ_BYTES / len(GET)
        writer.transport.abort()
    assert 50 < answered < 500
    assert sorted(waits)[len(waits) // 2] < 0.1


async def test_pipelined_requests_are_charged_with_the_time_that_they_use() -> None:
    at = Port()
    async with at.open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        answered = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                while True:
                    answered += await reader.read(2**16)
        writer.transport.abort()
    # In two seconds, the connection may use a tenth of the time, plus the burst.
    assert 1 <= answered.count(b"HTTP/1.1 200") <= 2.0 * 0.1 / BUSY_S + 2


async def test_disconnect_ends_the_running_response_if_another_request_is_pipelined() -> None:
    at = Port()
    async with at.open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n" + GET + b"\r\n")
        assert await reader.readexactly(8) == b"HTTP/1.1"
        writer.transport.abort()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await at.close_code


HANDSHAKE = handshake("/speak")


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
@pytest.mark.parametrize(
    "length", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_body_of_a_request_with_an_ignored_upgrade_is_read(offer: str, length: bytes) -> None:
    head = b"POST /size HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    request = head + f"Upgrade: {offer}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n".encode() + length
    for pieces in ([request * 2 + GET + b"\r\n"], [request, request[:60], request[60:-2], request[-2:] + GET, b"\r\n"]):
        assert await answers(*pieces) == [(200, "3"), (200, "3"), (200, "whole")]


async def test_handshake_in_http_1_0_is_not_an_upgrade() -> None:
    ((status, _),) = await answers(HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert status == 404


@pytest.mark.parametrize("body", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
async def test_handshake_with_a_body_is_answered_as_a_request(body: bytes) -> None:
    (status, _), (next_status, next_body) = await answers(HANDSHAKE.removesuffix(b"\r\n") + body + GET + b"\r\n")
    assert (status, next_status, next_body) == (404, 200, "whole")


async def test_pipelined_upgrade_waits_for_the_previous_request() -> None:
    at = Port()
    async with at.open() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + HANDSHAKE)
        await at.begun.wait()
        at.leave.set()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(4) == b"done"
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404")
        writer.close()
