"""Tests for unmodified WebSocket clients of Cartesia's and vLLM-Omni's APIs."""

from __future__ import annotations

import hashlib

from tests.clients.conftest import Client
from tests.support.runtime_server import RunningServer
from voicewright import say

HALF_A_SECOND = 12_000


def test_cartesia_python_client_works_unmodified(client: Client, server: RunningServer) -> None:
    result = client("cartesia_client")
    for name in ("whole", "pieces", "after_cancel"):
        assert result[name]["last"] == "done", name
        assert result[name]["chunks"] > 1, name
        assert result[name]["samples"] > HALF_A_SECOND, name
        assert result[name]["rms"] > 300, name

    assert result["flushes"]["kinds"] == [["chunk", 1], ["flush_done", 1], ["chunk", 2], ["done", None]]
    assert result["events"]["last"] == "done"
    assert result["events"]["sha256"] == result["generated"]["sha256"]
    assert result["voices"]["one"] == result["voices"]["names"][0]
    assert {"clara", "angus"} <= set(result["voices"]["names"])

    kept = result["dictionaries"]
    assert {"Our names", "Others"} <= set(kept["listed"])
    assert kept["items"] == [["nguyen", "Win"]]
    assert kept["pair"][0] == kept["pair"][1]
    assert (kept["gone"], kept["left"]) == ("pronunciation_dictionary_not_found", "Our names")

    generated = result["generated"]
    pcm = say(server.http, "One sentence at once.", voice="clara", language="English", seed=7)
    assert generated["sha256"] == hashlib.sha256(pcm).hexdigest()
    assert generated["type"] == "audio/mpeg"
    assert generated["mp3"] > 5_000


def test_livekit_cartesia_plugin_works_unmodified(client: Client) -> None:
    result = client("livekit_cartesia")
    for turn in ("first", "second", "at_once"):
        assert result[turn]["rates"] == [24_000]
        assert result[turn]["samples"] > HALF_A_SECOND
        assert result[turn]["rms"] > 300


def test_pipecat_cartesia_service_works_unmodified(client: Client) -> None:
    result = client("pipecat_cartesia")
    assert result["errors"] == []
    assert result["stops"] == 2
    assert result["samples"] > 2 * HALF_A_SECOND
    assert result["rms"] > 300
    assert result["words"] == ["The", "kettle", "is", "on.", "The", "boat", "comes", "back", "in", "the", "evening."]


def test_vllm_omni_client_messages_work_unmodified(client: Client) -> None:
    result = client("omni_client")
    for name in ("streamed", "newer"):
        start, audio_done, session_done = result[name]["said"]
        expected = {"type": "audio.start", "utterance_index": 0, "sentence_index": 0, "format": "pcm"}
        assert expected.items() <= start.items()
        assert start["sample_rate"] == 24_000
        assert audio_done["type"] == "audio.done"
        assert audio_done["total_bytes"] == 2 * result[name]["samples"] > 2 * HALF_A_SECOND
        assert audio_done["error"] is False
        pieces = 2 if name == "newer" else 1  # The server counts the messages with streamed text, not the sentences.
        assert session_done == {"type": "session.done", "utterance_index": 0, "total_sentences": pieces}
    assert result["streamed"]["sha256"] == result["newer"]["sha256"]  # The same seed and text yield the same audio.

    sentences = result["sentences"]
    kinds = ["audio.start", "audio.done"] * 2 + ["session.done"]
    assert [message["type"] for message in sentences["said"]] == kinds
    assert sentences["heads"] == ["RIFF", "RIFF"]  # WAV is the default format of vLLM-Omni.
    assert [done["total_bytes"] for done in sentences["said"][1::2]] == sentences["bytes"]
