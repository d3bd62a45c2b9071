"""Tests for the page's HTTP API with Gradio's client and with plain HTTP requests."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import httpx
import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.support.app import App
from voicewright import say

TEXT = "The kettle is on."


@pytest.fixture(scope="module")
def page(app: App) -> Client:
    return Client(app.url, verbose=False)


def test_gradio_call_returns_the_audio_of_the_runtime(app: App, page: Client) -> None:
    spoken = page.predict(text=TEXT, voice="clara", language="English", seed=7, api_name="/speak")
    assert (spoken["sample_rate"], spoken["seed"], spoken["stop_reason"]) == (24_000, 7, "eos")
    with wave.open(spoken["wav"]) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        heard = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(int)
    native = np.frombuffer(say(app.url, TEXT, voice="clara", language="English", seed=7), "<i2").astype(int)
    assert len(heard) == len(native) > 12_000
    assert np.abs(heard - native).max() <= 1


def test_described_voice_can_be_used_through_the_gradio_api(page: Client) -> None:
    spoken = page.predict(text=TEXT, mode="voice_design", instruct="A woman with a low voice.", api_name="/speak")
    assert Path(spoken["wav"]).stat().st_size > 24_000
    assert spoken["seed"] >= 0


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"text": ""}, "The text is empty"),
        ({"text": TEXT, "voice": "nobody"}, "no voice of that name"),
        ({"text": TEXT, "mode": "song"}, "it must be CustomVoice, VoiceDesign or Base"),
    ],
)
def test_gradio_error_equals_the_message_of_the_runtime(page: Client, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AppError, match=sentence):
        page.predict(**asked, api_name="/speak")


def call(app: App, origin: str | None) -> list[str]:
    """Call the action /speak over plain HTTP, and return the lines of the event stream."""
    headers = {"origin": origin} if origin else {}
    inputs = [TEXT, "", "", "auto", "", None]
    route = f"{app.url}/gradio_api/call/speak"
    event = httpx.post(route, json={"data": inputs}, headers=headers, trust_env=False).json()["event_id"]
    return httpx.get(f"{route}/{event}", headers=headers, trust_env=False, timeout=60).text.splitlines()


def test_gradio_routes_work_over_plain_http(app: App) -> None:
    kind, data, *_ = call(app, None)
    assert kind == "event: complete"
    spoken = json.loads(data.removeprefix("data: "))[0]
    assert spoken["stop_reason"] == "eos"
    found = httpx.get(spoken["wav"]["url"], trust_env=False)
    assert (found.status_code, found.content[:4]) == (200, b"RIFF")


def test_gradio_routes_serve_only_files_that_the_call_created(app: App) -> None:
    cache = Path(gettempdir()) / "gradio"
    for path in (
        __file__,
        "/etc/passwd",
        f"{cache}/../passwd",
        f"{cache}/{'0' * 64}/voicewright.wav",
        "http://localhost/",
    ):
        assert httpx.get(f"{app.url}/gradio_api/file={path}", trust_env=False).status_code in {403, 404}
