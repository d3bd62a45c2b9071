"""Tests for Cartesia's route POST /tts/bytes: all formats contain the same audio."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile

from tests.support.errors import BY_CODE
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import speak_text

PATH = "/tts/bytes"
NATIVE = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
BODY: dict[str, Any] = {
    "model_id": "sonic-3",
    "voice": {"mode": "id", "id": "alloy"},
    "language": "en",
    "transcript": "Good morning.",
    "output_format": NATIVE,
    "seed": 11,
    "max_frames": 12,
}
SECONDS = 12 * 0.08


def post(server: RunningServer, **fields: Any) -> httpx.Response:
    return httpx.post(server.http + PATH, json={**BODY, **fields}, timeout=60)


@pytest.fixture(scope="module")
def native(server: RunningServer) -> bytes:
    """Return the PCM that the native protocol generates for the text of BODY."""
    config = {"task_type": "custom_voice", "voice": "alloy", "language": "english", "seed": 11, "max_frames": 12}
    return asyncio.run(speak_text(server.socket, "Good morning.", **config)).pcm


def test_raw_cartesia_audio_equals_the_native_protocol(server: RunningServer, native: bytes) -> None:
    reply = post(server)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "audio/pcm"
    assert reply.headers["x-sample-rate"] == "24000"
    assert reply.headers["x-seed"] == "11"
    assert reply.headers["x-notes"].endswith(" is used instead.")
    speaker = reply.headers["x-notes"].split()[-4]
    assert "x-notes" not in post(server, voice=speaker).headers
    assert "ttfa;dur=" in reply.headers["server-timing"]
    assert reply.content == native
    assert post(server, seed=12).content != native


@pytest.mark.slow("pcm_alaw-ALAW-0.04", "pcm_f32le-FLOAT-0", "pcm_mulaw-ULAW-0.04")
@pytest.mark.parametrize(
    ("encoding", "subtype", "error"),
    [("pcm_s16le", "PCM_16", 0), ("pcm_f32le", "FLOAT", 0), ("pcm_mulaw", "ULAW", 0.04), ("pcm_alaw", "ALAW", 0.04)],
)
def test_cartesia_wav_supports_each_encoding(
    server: RunningServer, native: bytes, encoding: str, subtype: str, error: float
) -> None:
    reply = post(server, output_format={**NATIVE, "container": "wav", "encoding": encoding})
    assert reply.headers["content-type"] == "audio/wav"
    with soundfile.SoundFile(io.BytesIO(reply.content)) as file:
        assert (file.format, file.subtype, file.samplerate, file.channels) == ("WAV", subtype, 24_000, 1)
        samples = file.read(dtype="float32")
    wanted = np.frombuffer(native, "<i2").astype(np.float32) / 32768
    assert len(samples) == len(wanted)
    assert np.all(np.abs(samples - wanted) <= error * np.abs(wanted) + error / 50)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100])
def test_all_cartesia_sample_rates_keep_the_duration(server: RunningServer, rate: int) -> None:
    samples = len(post(server, output_format={**NATIVE, "sample_rate": rate}).content) // 2
    assert abs(samples - SECONDS * rate) <= 1


@pytest.mark.slow("22050-None", "44100-128000")
@pytest.mark.parametrize(("rate", "bit_rate"), [(44_100, 128_000), (24_000, 32_000), (22_050, None)])
def test_cartesia_mp3_has_the_requested_rates(server: RunningServer, rate: int, bit_rate: int | None) -> None:
    reply = post(server, output_format={"container": "mp3", "sample_rate": rate, "bit_rate": bit_rate})
    assert reply.headers["content-type"] == "audio/mpeg"
    with av.open(io.BytesIO(reply.content), format="mp3") as file:
        stream = file.streams.audio[0]
        assert stream.codec_context.sample_rate == rate
        bits = sum(8 * packet.size for packet in file.demux(stream))
        frames = [frame for frame in av.open(io.BytesIO(reply.content), format="mp3").decode(audio=0)]
    seconds = sum(frame.samples for frame in frames) / rate
    assert SECONDS <= seconds < SECONDS + 0.15
    assert bits / seconds == pytest.approx(bit_rate or 64_000, rel=0.03)


@pytest.mark.slow
def test_fields_of_newer_cartesia_clients_are_accepted(server: RunningServer, native: bytes) -> None:
    """The voice is given as an ID, the language in `locale`, and there are unknown fields."""
    body = {name: value for name, value in BODY.items() if name != "language"}
    more = {"voice": "alloy", "locale": "en-GB", "save": False, "generation_config": {"speed": 1}, "speed": "normal"}
    reply = httpx.post(server.http + PATH, json={**body, **more}, timeout=60)
    assert reply.content == native


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"voice": {"mode": "id", "id": "nobody"}}, "unknown_voice", "voice.id"),
        ({"voice": "nobody"}, "unknown_voice", "voice"),
        ({"voice": {"mode": "embedding", "embedding": [0.1]}}, "invalid_config", "voice.mode"),
        ({"transcript": " "}, "empty_text", "transcript"),
        ({"transcript": None}, "invalid_config", "transcript"),
        ({"transcript": "x" * 5000}, "text_too_long", "transcript"),
        ({"language": "hi"}, "unsupported_language", "language"),
        ({"output_format": {**NATIVE, "container": "ogg"}}, "invalid_config", "output_format.container"),
        ({"output_format": {**NATIVE, "sample_rate": 96_000}}, "invalid_config", "output_format.sample_rate"),
        ({"output_format": {"container": "mp3", "sample_rate": 20_000}}, "invalid_config", "output_format"),
        ({"output_format": {"container": "mp3", "bit_rate": 1}}, "invalid_config", "output_format.bit_rate"),
    ],
)
def test_unsupported_request_is_refused_before_any_audio(
    server: RunningServer, fields: dict[str, Any], code: str, param: str
) -> None:
    reply = post(server, **fields)
    error = reply.json()
    assert (reply.status_code, error["error_code"], error["param"]) == (BY_CODE[code].http_status, code, param)
    assert error["request_id"] == reply.headers["x-request-id"]
    assert error["title"]
    assert error["message"]
    assert "nobody" not in error["message"]
