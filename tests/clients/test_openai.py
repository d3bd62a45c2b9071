"""Tests for unmodified OpenAI clients.

Only the base URL of the clients is changed.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from tests.clients.conftest import REFERENCE_TEXT, Client
from tests.support.runtime_server import RunningServer
from voicewright import say

TEXT = "The kettle is on, and the boat comes back in the evening."  # Text to speak, as in the client scripts.
A_SECOND = 24_000


@pytest.fixture(scope="module")
def same_as_native(server: RunningServer) -> str:
    """Return the SHA-256 of the audio that the native protocol generates for `TEXT`.

    The voice and the seed are equal to those of the client scripts.
    """
    return hashlib.sha256(say(server.http, TEXT, voice="clara", language="English", seed=7)).hexdigest()


def test_openai_python_client_works_unmodified(client: Client, recording: Path, same_as_native: str) -> None:
    result = client("openai_client", recording, REFERENCE_TEXT)

    whole = result["whole"]
    assert whole["type"] == "audio/mpeg"
    assert whole["head"].startswith(("494433", "fff"))  # An MP3 file starts with an ID3 tag or with a frame.
    assert whole["bytes"] > 5_000

    streamed = result["streamed"]
    assert streamed["type"] == "audio/pcm"
    assert streamed["samples"] > A_SECOND
    assert streamed["rms"] > 300
    assert streamed["last_s"] - streamed["first_s"] > 0.2  # The audio arrived while it was generated.
    assert streamed["sha256"] == same_as_native

    events = result["events"]
    assert events["type"].startswith("text/event-stream")
    assert set(events["deltas"]) == {"speech.audio.delta"}
    assert len(events["deltas"]) > 2
    assert events["last"] == "speech.audio.done"
    assert events["sha256"] == same_as_native

    stored = result["stored"]
    assert stored["rms"] > 30
    assert (stored["object"], stored["name"], stored["kind"]) == ("audio.voice", "Neighbour", "audio_sample")
    assert stored["after_delete"]["status"] == 404

    assert "demo-voice" in result["models"]
    assert all(0 < created <= time.time() for created in result["created"])
    assert result["refused"] == {"kind": "NotFoundError", "status": 404, "code": "unknown_voice", "param": "voice"}
    unknown = {"kind": "NotFoundError", "status": 404, "code": "model_not_found", "param": "model"}
    assert result["unknown_model"] == unknown
    assert result["empty"] == {"kind": "BadRequestError", "status": 400, "code": "empty_text", "param": "input"}
    assert result["too_fast"] == {"kind": "BadRequestError", "status": 400, "code": "invalid_config", "param": "speed"}
    for file in result["files"].values():
        assert A_SECOND < file["said"] == file["read"]
    assert len(result["every_model"]) >= 4
    assert all(size > 1_000 for size in result["every_model"].values())
    assert result["request_ids"]["mine"] == "app-1"
    assert len(result["request_ids"]["theirs"]) == 16


def test_livekit_openai_plugin_works_unmodified(client: Client) -> None:
    result = client("livekit_openai")
    assert result["rates"] == [A_SECOND]
    assert result["samples"] > A_SECOND
    assert result["rms"] > 300


def test_pipecat_openai_service_works_unmodified(client: Client) -> None:
    result = client("pipecat_openai")
    assert result["errors"] == []
    assert result["samples"] > A_SECOND
    assert result["rms"] > 300
