"""Tests for blends of two voices in the native API and in OpenAI's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import speak_text
from tests.wire.test_voices import CONSENT, VOICES, WORDS, recording

FIXED: dict[str, Any] = {"seed": 11, "max_frames": 4, "language": "English"}


@pytest.fixture(scope="module")
def running(folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server with CustomVoice and Base checkpoints and three stored voices.

    One of the stored voices forbids blends.
    """
    models = [folder_of("brief", "custom_voice"), folder_of("brief", "base")]
    library = ServerSettings(voices=str(tmp_path_factory.mktemp("library") / "voices"))
    with running_server(*models, engine=EngineSettings(threads=1, max_slots=2), server=library) as server:
        for seed, (name, origin) in enumerate({"Marta": {}, "Jan": {}, "Shy": {"blend": "no"}}.items()):
            form = {"name": name, "consent": CONSENT, "ref_text": WORDS, "provenance": json.dumps(origin)}
            files = {"audio_sample": ("a.wav", recording(seed=seed), "audio/wav")}
            assert httpx.post(server.http + VOICES, data=form, files=files).status_code == 200
        yield server


@pytest.fixture(scope="module")
def speakers(running: RunningServer) -> list[str]:
    cards = httpx.get(f"{running.http}/v1/models").json()["data"]
    return [speaker for card in cards for speaker in card["speakers"]][:2]


def ask(server: RunningServer, voice: str, **fields: Any) -> httpx.Response:
    body = {"input": "Hello world.", "voice": voice, "response_format": "pcm", **FIXED, **fields}
    return httpx.post(f"{server.http}/v1/audio/speech", json=body, timeout=60)


def test_blend_has_the_same_audio_in_every_api_for_each_ratio(running: RunningServer, speakers: list[str]) -> None:
    first, second = speakers
    blends = {share: f"{first}:{1 - share:g}+{second}:{share:g}" for share in (0.3, 0.7)}
    heard = {share: ask(running, voice).raise_for_status().content for share, voice in blends.items()}
    assert heard[0.3] != heard[0.7]
    for share, voice in blends.items():
        native = asyncio.run(speak_text(running.socket, "Hello world.", voice=voice, **FIXED))
        assert native.pcm == heard[share]


def test_stored_voices_can_be_blended_with_speakers(running: RunningServer, speakers: list[str]) -> None:
    marta = httpx.get(f"{running.http}{VOICES}/Marta").json()["id"]
    by_name, by_id, mixed = (
        ask(running, voice).raise_for_status()
        for voice in ("Marta:0.5+voice:Jan:0.5", f"{marta}:0.5+Jan:0.5", f"Marta:0.4+{speakers[0]}:0.6")
    )
    assert by_name.content == by_id.content != mixed.content
    assert mixed.content


@pytest.mark.parametrize(
    ("voice", "status", "code"),
    [
        ("Marta:0.5+Jan:0.6", 400, "invalid_blend"),
        ("Marta:-1+Jan:2", 400, "invalid_blend"),
        ("Marta:half+Jan:half", 400, "invalid_blend"),
        ("Marta:nan+Jan:0.5", 400, "invalid_blend"),
        ("Marta:0.5+nobody:0.5", 404, "unknown_voice"),
        ("Marta:0.5+Shy:0.5", 403, "blend_forbidden"),
    ],
)
def test_invalid_blend_is_refused_with_one_sentence(running: RunningServer, voice: str, status: int, code: str) -> None:
    refused = ask(running, voice)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (status, code, "voice")
