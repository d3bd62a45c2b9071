"""Tests for floods from one client: endless headers, tiny frames and many messages."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx
import pytest

from runtime.shared.port import limits
from tests.support.bare_port import exchange
from tests.support.raw_websocket import CONTINUATION, HANDSHAKE, PING, TEXT, frame
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import speak_text

VOICE = {"task_type": "custom_voice", "seed": 11, "max_frames": 3}
SOCKETS = ["/v1/audio/speech/stream", "/tts/websocket", "/v1/text-to-speech/eric/stream-input"]
GET = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (GET + b"a: b\r\n" * 10_000, 431, "headers_too_large"),
        (b"GET /ready HTTP/1.1\r\n\r\n", 400, "malformed_request"),
        (GET.replace(b"/ready", b"http://evil.example/ready") + b"\r\n", 400, "malformed_request"),
        (b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "malformed_request"),
        (HANDSHAKE.replace(b"Version: 13", b"Version: 7"), 400, "malformed_request"),
        (HANDSHAKE.replace(b"GET", b"POST").replace(b"Upgrade\r", b"Upgrade, close\r"), 426, "websocket_only"),
    ],
)
async def test_malformed_request_is_refused(either: RunningServer, sent: bytes, status: int, code: str) -> None:
    head, _, body = (await exchange(either.port, sent)).partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("tiny", [frame(PING), frame(CONTINUATION, fin=False)], ids=["pings", "continuations"])
async def test_flood_of_tiny_frames_closes_the_connection(either: RunningServer, path: str, tiny: bytes) -> None:
    handshake = HANDSHAKE.replace(b"/v1/audio/speech/stream", path.encode())
    flood = frame(TEXT, b"{", fin=False) + tiny * 50_000
    received = await exchange(either.port, handshake, None, flood)
    code, reason = int.from_bytes(received[-17:-15], "big"), received[-15:].decode()
    assert (code, reason) == (1008, "too_many_frames")


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/voices", "/v1/audio/pronunciations", "/tts/bytes"])
def test_a_compressed_body_is_refused(either: RunningServer, path: str) -> None:
    body = gzip.compress(b"{}")
    for kind in ("application/json", "multipart/form-data; boundary=b"):
        answer = httpx.post(
            either.http + path, content=body, headers={"content-encoding": "gzip", "content-type": kind}
        )
        if path != "/v1/audio/voices" or kind != "application/json":
            found = answer.json().get("error_code") or answer.json()["error"]["code"]
            assert (answer.status_code, found) == (415, "unsupported_encoding")


@pytest.mark.parametrize(
    ("path", "field", "shared"),
    [
        ("/v1/audio/speech", "input", {}),
        ("/v1/text-to-speech/alloy", "text", {}),
        ("/v1/text-to-speech/alloy/stream", "text", {}),
        ("/tts/bytes", "transcript", {"voice": "alloy"}),
        ("/tts/sse", "transcript", {"voice": "alloy"}),
    ],
)
def test_text_with_excessive_markup_is_refused(
    either: RunningServer, path: str, field: str, shared: dict[str, str]
) -> None:
    body = {field: ("![a](" * 8_000)[:17_000], "text_filter": "markdown", **shared}
    answer = httpx.post(either.http + path, json=body)
    assert answer.status_code == 400
    assert "text_too_long" in answer.text
    assert "16384" in answer.text.replace(",", "")


async def test_other_clients_are_served_during_a_message_flood(either: RunningServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", either.port)
    writer.write(HANDSHAKE)
    writer.write(frame(TEXT, b'{"type":"ping","t":1}') * 50_000)
    for _ in range(3):
        assert (await speak_text(either.socket, "Hello.", **VOICE)).end["type"] == "audio.done"
    writer.transport.abort()


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/voices"])
async def test_slow_body_times_out(either: RunningServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.3)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n"
    head += "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    head += '--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n'

    reader, writer = await asyncio.open_connection("127.0.0.1", either.port)
    writer.write(head.encode())
    answer = asyncio.create_task(reader.readuntil(b"}}}"))
    while not answer.done():
        writer.write(b" ")
        await asyncio.sleep(0.05)
    writer.transport.abort()
    head_, _, body = answer.result().partition(b"\r\n\r\n")
    assert (int(head_.split()[1]), json.loads(body)["error"]["code"]) == (408, "body_too_slow")
