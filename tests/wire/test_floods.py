"""Tests for floods from one client: endless headers, tiny frames and many messages."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.request import SpeechRequest
from tests.support.bare_port import exchange
from tests.support.raw_websocket import CONTINUATION, HANDSHAKE, PING, TEXT, frame
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import speak_text
from tests.support.timeouts import TEST_TIMEOUT_S

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


@pytest.mark.parametrize("markup", ["![a](", "[", "&amp;", "word "])
def test_text_with_excessive_markup_is_refused_before_parsing(either: RunningServer, markup: str) -> None:
    text = (markup * 130_000)[:125_000]
    answer = httpx.post(f"{either.http}/v1/audio/speech", json={"input": text, "text_filter": "markdown", **VOICE})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["facts"]["limit"]) == (400, "text_too_long", 16_384)


@pytest.mark.parametrize(
    ("path", "field", "shared"),
    [
        ("/v1/text-to-speech/alloy", "text", {}),
        ("/v1/text-to-speech/alloy/stream", "text", {}),
        ("/tts/bytes", "transcript", {"voice": "alloy"}),
        ("/tts/sse", "transcript", {"voice": "alloy"}),
    ],
)
def test_other_dialects_limit_markup_too(either: RunningServer, path: str, field: str, shared: dict[str, str]) -> None:
    body = {field: ("![a](" * 8_000)[:17_000], "text_filter": "markdown", **shared}
    answer = httpx.post(either.http + path, json=body)
    assert answer.status_code == 400
    assert "text_too_long" in answer.text
    assert "16384" in answer.text.replace(",", "")


def test_other_clients_are_served_during_the_validation_of_a_text(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The validation of the text "Wait." ends when the other responses have arrived."""
    may_end, is_validating, admit = threading.Event(), threading.Event(), Engine._admit

    def admit_slowly(engine: Engine, core: EngineCore, request: SpeechRequest) -> Any:
        if request.text == "Wait.":
            is_validating.set()
            assert may_end.wait(TEST_TIMEOUT_S)
        return admit(engine, core, request)

    def post(text: str, frames: int) -> Iterator[bytes]:
        body = {"input": text, "response_format": "pcm", "max_frames": frames, "voice": "eric"}
        with httpx.stream("POST", f"{server.http}/v1/audio/speech", json=body, timeout=TEST_TIMEOUT_S) as response:
            assert response.status_code == 200
            yield from response.iter_raw()

    monkeypatch.setattr(Engine, "_admit", admit_slowly)
    with ThreadPoolExecutor() as clients:
        running = post("A long text.", 50)
        next(running)
        waiting = clients.submit(list, post("Wait.", 3))
        assert is_validating.wait(TEST_TIMEOUT_S)
        assert httpx.get(f"{server.http}/health").status_code == 200
        assert list(running)
        assert not waiting.done()
        may_end.set()
        assert waiting.result()


async def test_other_clients_are_served_during_a_message_flood(either: RunningServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", either.port)
    writer.write(HANDSHAKE)
    writer.write(frame(TEXT, b'{"type":"ping","t":1}') * 50_000)
    for _ in range(3):
        assert (await speak_text(either.socket, "Hello.", **VOICE)).end["type"] == "audio.done"
    writer.transport.abort()
