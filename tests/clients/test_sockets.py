"""Tests for unmodified WebSocket clients of Cartesia's and vLLM-Omni's APIs."""

from __future__ import annotations

import hashlib

from tests.clients.conftest import Client
from tests.support.runtime_server import RunningServer
from voicewright import say

HALF_A_SECOND = 12_000


def test_cartesia_python_client_works_unmodified(client: Client, server: RunningServer) -> None:
    heard = client("cartesia_client")
    for name in ("whole", "pieces", "after_cancel"):
        assert heard[name]["last"] == "done", name
        assert heard[name]["chunks"] > 1, name
        assert heard[name]["samples"] > HALF_A_SECOND, name
        assert heard[name]["rms"] > 300, name

    assert heard["flushes"]["kinds"] == [["chunk", 1], ["flush_done", 1], ["chunk", 2], ["done", None]]
    assert heard["events"]["last"] == "done"
    assert heard["events"]["sha256"] == heard["generated"]["sha256"]
    assert heard["voices"]["one"] == heard["voices"]["names"][0]
    assert {"clara", "angus"} <= set(heard["voices"]["names"])

    kept = heard["dictionaries"]
    assert {"Our names", "Others"} <= set(kept["listed"])
    assert kept["items"] == [["nguyen", "Win"]]
    assert kept["pair"][0] == kept["pair"][1]
    assert (kept["gone"], kept["left"]) == ("pronunciation_dictionary_not_found", "Our names")

    generated = heard["generated"]
    pcm = say(server.http, "One sentence at once.", voice="clara", language="English", seed=7)
    assert generated["sha256"] == hashlib.sha256(pcm).hexdigest()
    assert generated["type"] == "audio/mpeg"
    assert generated["mp3"] > 5_000


def test_livekit_cartesia_plugin_works_unmodified(client: Client) -> None:
    heard = client("livekit_cartesia")
    for turn in ("first", "second", "at_once"):
        assert heard[turn]["rates"] == [24_000]
        assert heard[turn]["samples"] > HALF_A_SECOND
        assert heard[turn]["rms"] > 300


def test_pipecat_cartesia_service_works_unmodified(client: Client) -> None:
    heard = client("pipecat_cartesia")
    assert heard["errors"] == []
    assert heard["stops"] == 2
    assert heard["samples"] > 2 * HALF_A_SECOND
    assert heard["rms"] > 300
    assert heard["words"] == ["The", "kettle", "is", "on.", "The", "boat", "comes", "back", "in", "the", "evening."]


def test_vllm_omni_client_messages_work_unmodified(client: Client) -> None:
    heard = client("omni_client")
    for name in ("streamed", "newer"):
        start, audio_done, session_done = heard[name]["said"]
        expected = {"type": "audio.start", "utterance_index": 0, "sentence_index": 0, "format": "pcm"}
        assert expected.items() <= start.items()
        assert start["sample_rate"] == 24_000
        assert audio_done["type"] == "audio.done"
        assert audio_done["total_bytes"] == 2 * heard[name]["samples"] > 2 * HALF_A_SECOND
        assert audio_done["error"] is False
        pieces = 2 if name == "newer" else 1  # The number of streamed messages is counted.
        assert session_done == {"type": "session.done", "utterance_index": 0, "total_sentences": pieces}
    assert heard["streamed"]["sha256"] == heard["newer"]["sha256"]  # The same seed and text yield the same audio.

    sentences = heard["sentences"]
    kinds = ["audio.start", "audio.done"] * 2 + ["session.done"]
    assert [message["type"] for message in sentences["said"]] == kinds
    assert sentences["heads"] == ["RIFF", "RIFF"]  # WAV is the default format of vLLM-Omni.
    assert [done["total_bytes"] for done in sentences["said"][1::2]] == sentences["bytes"]
