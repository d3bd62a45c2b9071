"""Tests for a studio visitor's daily limit of generated speech, in all APIs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from runtime.server.caller import DailyUsage
from studio.settings import VisitSettings
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import PROTOCOL
from tests.support.studio_port import studio_port
from tests.support.visiting import new_visitor

FIELDS = {"max_frames": 13, "seed": 5}  # Request whose audio is slightly longer than one second.
POSTED: dict[str, tuple[str, dict[str, Any]]] = {
    "stream": ("/v1/audio/speech", {"input": "Hello.", "response_format": "pcm"}),
    "mp3": ("/v1/audio/speech", {"input": "Hello.", "response_format": "mp3"}),
    "events": ("/v1/audio/speech", {"input": "Hello.", "stream_format": "sse"}),
    "whole": ("/v1/audio/speech", {"input": "Hello.", "stream": False}),
    "batch": ("/v1/audio/speech/batch", {"items": [{"input": "Hello."}]}),
    "cartesia": (
        "/tts/bytes",
        {
            "transcript": "Hello.",
            "model_id": "sonic-3",
            "voice": {"mode": "id", "id": "alloy"},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
        },
    ),
    "elevenlabs": ("/v1/text-to-speech/alloy/stream", {"text": "Hello."}),
}
NATIVE = ['{"type": "session.config", "max_frames": 13}', '{"type": "input\\u002etext", "text": "Hello."}']
CARTESIA = {**POSTED["cartesia"][1], "context_id": "a", **FIELDS}
TALKED: dict[str, tuple[str, list[str], list[str]]] = {
    "native": ("/v1/audio/speech/stream", [PROTOCOL], [*NATIVE, '{"type": "input\\u002edone"}']),
    "omni": (
        "/v1/audio/speech/stream",
        [],
        [
            '{"type": "session.config", "max_new_tokens": 14, "response_format": "pcm"}',
            '{"type": "input.text", "text": "Hello."}',
            '{"type": "input.done"}',
        ],
    ),
    "cartesia socket": ("/tts/websocket", [], [json.dumps(CARTESIA)]),
    "elevenlabs socket": (
        "/v1/text-to-speech/alloy/stream-input?output_format=pcm_24000",
        [],
        [json.dumps({"text": "Hello.", **FIELDS}), '{"text": ""}'],
    ),
}
ENDS = ("audio.done", "session.done", "done", "error")


@pytest.fixture(scope="module")
def studio(server: RunningServer) -> Iterator[int]:
    """Run a studio with a daily limit of one second of speech per visitor, and yield its port."""
    visits = VisitSettings(visitor_speech_s=1, visitors_per_address=0)
    with studio_port(server.http, visits=visits, visitors="each") as port:
        yield port


def post(port: int, kind: str, headers: dict[str, str]) -> str:
    """Send a speech request with forged account headers.

    The result is the error text, or "sound" if the request was served.
    """
    path, body = POSTED[kind]
    forged = {"x-speech-account": "somebody else", "x-speech-seconds": "999"}
    answer = httpx.post(f"http://127.0.0.1:{port}{path}", json={**body, **FIELDS}, headers=headers | forged, timeout=30)
    return answer.text if answer.status_code != 200 or kind == "batch" else "sound"


def talk(port: int, kind: str, headers: dict[str, str]) -> str:
    path, subprotocols, messages = TALKED[kind]

    async def run() -> str:
        url, offered = f"ws://127.0.0.1:{port}{path}", [Subprotocol(subprotocol) for subprotocol in subprotocols]
        async with connect(url, subprotocols=offered or None, additional_headers=headers, max_size=None) as socket:
            for message in messages:
                await socket.send(message)
            async for answer in socket:
                if isinstance(answer, str) and is_end(json.loads(answer)):
                    return answer
        return ""

    return asyncio.run(asyncio.wait_for(run(), 30))


def is_end(message: dict[str, Any]) -> bool:
    return message.get("type") in ENDS or bool(message.get("isFinal") or message.get("error"))


def ask(port: int, kind: str, headers: dict[str, str]) -> str:
    return post(port, kind, headers) if kind in POSTED else talk(port, kind, headers)


@pytest.mark.slow("mp3", "events", "batch", "omni", "elevenlabs")
@pytest.mark.parametrize("kind", [*POSTED, *TALKED])
def test_each_route_counts_towards_the_daily_allowance(studio: int, kind: str) -> None:
    visitor = new_visitor(studio)
    first = ask(studio, kind, visitor)
    assert "speech_spent" not in first
    for other in ("stream", "native", kind):
        assert "speech_spent" in ask(studio, other, visitor), other
    assert "speech_spent" not in ask(studio, "stream", new_visitor(studio))


def test_refusal_contains_the_reset_time_of_the_allowance(studio: int) -> None:
    headers = new_visitor(studio)
    post(studio, "stream", headers)
    path, body = POSTED["stream"]
    answer = httpx.post(f"http://127.0.0.1:{studio}{path}", json=body, headers=headers)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 86_400
    assert "1 s of speech" in answer.json()["error"]["message"]


def test_allowance_resets_daily_and_the_number_of_accounts_is_limited() -> None:
    from runtime.errors import SpeechSpent
    from runtime.shared.port.limits import Allowance

    now = 86_400.0
    spending = DailyUsage(lambda: now)
    allowance = Allowance("a", 1)
    spending.check(allowance)
    spending.spend("a", 48_000)
    with pytest.raises(SpeechSpent):
        spending.check(allowance)
    now += 86_400
    spending.check(allowance)
    for number in range(70_000):
        spending.spend(str(number), 1)
    assert len(spending) == 65_536
