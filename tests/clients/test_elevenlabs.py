"""Tests for unmodified clients of ElevenLabs' API: its own SDK, LiveKit and Pipecat."""

from __future__ import annotations

import hashlib

from tests.clients.conftest import Client
from tests.support.runtime_server import RunningServer
from voicewright import say

HALF_A_SECOND = 12_000
SPEAKERS = {"clara", "angus"}


def test_elevenlabs_python_client_works_unmodified(client: Client, server: RunningServer) -> None:
    result = client("elevenlabs_client")
    pcm = say(server.http, "One sentence at once.", voice="clara", language="English", seed=7)
    http = result["http"]
    for name in ("whole", "streamed", "timed", "pieces"):
        assert http[name]["sha256"] == hashlib.sha256(pcm).hexdigest(), name
    assert http["mp3"] > 15_000  # The MP3 has 128 kbit/s.
    assert http["faster"]["samples"] * 1.2 > 0.97 * http["whole"]["samples"]
    assert http["faster"]["samples"] * 1.2 < 1.03 * http["whole"]["samples"]
    assert http["characters"] == http["aligned"] == "One sentence at once."
    assert http["end"] == round(len(pcm) / 48_000, 3)

    dialogue = result["dialogue"]
    for name in ("whole", "streamed", "timed", "pieces"):
        assert dialogue[name]["sha256"] == dialogue["alone"]["sha256"], name
    assert dialogue["mp3"] > 15_000
    assert dialogue["characters"] == "Is the kettle on?It is.Good."
    assert dialogue["segments"] == [["clara", 0, 0, 17], ["angus", 1, 17, 23], ["clara", 2, 23, 28]]
    assert dialogue["edges"] == sorted(dialogue["edges"])
    assert abs(dialogue["edges"][-1] - dialogue["whole"]["samples"] / 24_000) < 0.001
    assert dialogue["turns"] == [0, 1, 2]
    assert dialogue["refused"] == [404, "inputs.3.voice_id"]

    assert result["realtime"]["chunks"] > 5
    assert result["realtime"]["samples"] > 3 * HALF_A_SECOND
    assert result["realtime"]["rms"] > 300
    (http_status, http_body), (close_code, said) = result["refused"]
    assert (http_status, http_body["detail"]["status"]) == (404, "unknown_voice")
    # The client reads the message, or only the close reason if the socket closes while the client is writing.
    assert (close_code, said["error"] if isinstance(said, dict) else said) == (1008, "unknown_voice")
    assert set(result["voices"]) >= SPEAKERS
    assert result["one"] == result["voices"][0]
    assert result["found"] == [["clara"], False]
    assert result["models"] == [["demo-voice", True]]
    assert result["user"] == ["voicewright", 0]

    kept = result["dictionaries"]
    assert all(one == other for one, other in kept["pairs"])
    assert kept["pairs"][0] != kept["pairs"][1]
    assert kept["rules"] == [["Nguyen", "Lose"]]
    assert "<grapheme>Nguyen</grapheme>" in kept["lexicon"]
    # The newest entries come first. Other tests on this server may have stored older entries.
    assert (kept["removed"], kept["page"], kept["next"][:1]) == (0, [["A copy"], True], ["Our names"])
    assert kept["left"][:1] == ["Our names"]
    assert kept["refused"][0] == 400
    assert "phonemes are not supported" in kept["refused"][1]


def test_elevenlabs_javascript_client_works_unmodified(client: Client, server: RunningServer) -> None:
    result = client("elevenlabs_client.cjs")
    pcm = say(server.http, "One sentence at once.", voice="clara", language="English", seed=7)
    for name in ("whole", "streamed", "timed", "pieces"):
        assert result[name]["sha256"] == hashlib.sha256(pcm).hexdigest(), name
    assert result["characters"] == result["aligned"] == "One sentence at once."
    assert result["refused"] == [404, "unknown_voice"]
    assert set(result["voices"]) >= SPEAKERS
    assert result["one"] == result["voices"][0]
    assert result["found"] == [["clara"], False]
    assert result["models"] == [["demo-voice", True]]
    assert result["said"] == result["meant"]
    assert "In JavaScript" in result["kept"]


def test_livekit_elevenlabs_plugin_works_unmodified(client: Client) -> None:
    result = client("livekit_elevenlabs")
    for turn, rate in (
        ("first", 24_000),
        ("second", 24_000),
        ("mp3", 22_050),
        ("at_once", 22_050),
        ("scheduled", 24_000),
    ):
        assert result[turn]["rates"] == [rate], turn
        assert result[turn]["samples"] > HALF_A_SECOND, turn
        assert result[turn]["rms"] > 300, turn
    words = result["first"]["words"]
    assert "".join(word for word, _, _ in words) == "The kettle is on. The boat comes back in the evening. "
    edges = [time for _, start, end in words for time in (start, end)]
    assert edges == sorted(edges)
    # A frame has 10 ms, and the last frame is padded, so the end may be up to 10 ms late.
    assert abs(edges[-1] - result["first"]["samples"] / 24_000) < 0.0101
    assert set(result["voices"]) >= SPEAKERS


def test_pipecat_elevenlabs_services_work_unmodified(client: Client) -> None:
    result = client("pipecat_elevenlabs")
    for way in ("socket", "http"):
        turns = result[way]
        assert turns["errors"] == [], way
        assert turns["stops"] == 2, way
        assert turns["samples"] > 2 * HALF_A_SECOND, way
        assert turns["rms"] > 300, way
        assert " ".join(turns["words"]) == "The kettle is on. The boat comes back in the evening.", way
