"""Tests for the responses of the HTTP speech routes: engine request, voice and retries."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from runtime.errors import GenerationFailed, UnknownVoice
from runtime.request import AudioChunk, Broken, Layout, Mode, Reference, RequestStats, SpeechRequest, Split, StopReason
from runtime.server.engine_host import EngineHost
from runtime.server.openai.routes import _batch
from runtime.server.openai.schema import read_batch, read_speech
from runtime.server.openai.speech_responder import SpeechResponder
from runtime.server.voices.voice_library import VoiceCard
from runtime.settings import Settings
from runtime.shared.audio.loudness import measure_loudness
from tests.support.library import MemoryLibrary
from tests.support.scripted_engine import ScriptedEngine, chunk, finished, started
from tests.support.signals import voice

CLARA = Reference(samples=np.ones(24_000, np.float32), text="Some words.")
CLARAS_CARD = VoiceCard(id="a" * 32, name="Clara", transcript=CLARA.text)


@asynccontextmanager
async def hosting(engine: ScriptedEngine, *voices: tuple[VoiceCard, Reference]) -> AsyncIterator[EngineHost]:
    host = EngineHost(Settings(), lambda *_: engine, MemoryLibrary(*voices))
    await host.load()
    try:
        yield host
    finally:
        host.close()


async def requested(**fields: Any) -> SpeechRequest:
    """Return the engine request for an HTTP body that has these fields."""
    engine = ScriptedEngine({1: [started(), chunk(), finished()]})
    async with hosting(engine, (CLARAS_CARD, CLARA)) as host:
        body = read_speech({"input": "Hello.", "stream": False, "response_format": "pcm", **fields})
        await SpeechResponder(host, body, host.library, "r").generate_complete_audio()
    return engine.requests[0]


async def test_body_becomes_a_speech_request() -> None:
    request = await requested(
        voice="RYAN",
        language="English",
        instructions="Softly.",
        seed=4,
        max_new_tokens=50,
        temperature=0.7,
        subtalker_top_k=9,
        do_sample=False,
        non_streaming_mode=False,
        split_granularity="clause",
        initial_codec_chunk_frames=3,
    )
    assert (request.text, request.mode, request.voice) == ("Hello.", Mode.CUSTOM_VOICE, "ryan")
    assert (request.language, request.instruct, request.seed, request.max_frames) == ("English", "Softly.", 4, 49)
    assert (request.sampling.temperature, request.sampling.predictor_top_k, request.sampling.greedy) == (0.7, 9, True)
    assert (request.layout, request.split, request.first_chunk_frames) == (Layout.STREAMING, Split.CLAUSE, 3)
    assert (request.bans_eos, request.acknowledged, request.open_text) == (True, True, False)


async def test_omitted_fields_use_engine_defaults() -> None:
    request = await requested(initial_codec_chunk_frames=0, voice=None, speed=None)
    assert (request.voice, request.language, request.seed, request.max_frames) == (None, "auto", None, None)
    assert (request.split, request.first_chunk_frames, request.layout) == (Split.AUTO, None, None)


@pytest.mark.parametrize("voice", ["Clara", "clara", "a" * 32, {"id": "a" * 32}])
async def test_stored_voice_is_read_from_the_library(voice: Any) -> None:
    request = await requested(voice=voice)
    assert (request.mode, request.voice, request.reference) == (Mode.BASE, None, CLARA)


async def test_empty_library_has_no_stored_voices() -> None:
    async with hosting(ScriptedEngine()) as host:
        with pytest.raises(UnknownVoice):
            await SpeechResponder(
                host, read_speech({"input": "Hi.", "voice": "clara", "stream": False}), host.library, "r"
            ).generate_complete_audio()


async def tried(retries: int, *reasons: StopReason, seed: int | None = 8) -> tuple[list[int | None], bytes, int | None]:
    """Run a request with retries, whose attempts end for these reasons.

    The result has the seeds of all attempts, and the PCM and the seed of the accepted attempt.
    """
    script = {
        number: [started((8 if seed is None else seed) + number - 1), chunk(1, number), finished(reason)]
        for number, reason in enumerate(reasons, 1)
    }
    engine = ScriptedEngine(dict(script))
    async with hosting(engine) as host:
        body = {"input": "Hi.", "stream": False, "response_format": "pcm", "retries": retries, "seed": seed}
        whole = await SpeechResponder(host, read_speech(body), host.library, "r").generate_complete_audio()
    return [request.seed for request in engine.requests], whole.audio, whole.seed


async def test_only_runaways_are_retried_up_to_the_number_of_retries() -> None:
    runaway, eos = StopReason.RUNAWAY, StopReason.EOS
    assert await tried(3, runaway, eos) == ([8, 9], chunk(1, 2).pcm, 9)
    assert await tried(3, eos) == ([8], chunk(1, 1).pcm, 8)
    assert (await tried(3, StopReason.MAX_TOKENS))[0] == [8]
    assert await tried(0, runaway) == ([8], chunk(1, 1).pcm, 8)
    assert await tried(2, runaway, runaway, runaway) == ([8, 9, 10], chunk(1, 3).pcm, 10)
    # The first request has no seed, so the engine reports the seed that it has drawn. The retry uses the next seed.
    assert (await tried(1, runaway, eos, seed=None))[0] == [None, 9]


async def test_seed_wraps_around_after_the_maximum() -> None:
    assert (await tried(1, StopReason.RUNAWAY, StopReason.EOS, seed=2**63 - 1))[0] == [2**63 - 1, 0]


async def heard(script: list[Any], **fields: Any) -> list[dict[str, Any]]:
    async with hosting(ScriptedEngine({1: script})) as host:
        body = read_speech({"input": "Hi.", "stream_format": "sse", "response_format": "pcm", **fields})
        blocks = [block async for block in SpeechResponder(host, body, host.library, "r").as_events()]
        assert all(block.endswith(b"\n\n") for block in blocks)
        return [json.loads(block.split(b"data: ")[1]) for block in blocks]


async def test_events_contain_the_audio_and_then_the_usage() -> None:
    first, second, done = await heard([started(), chunk(1, 5), chunk(2, 6), finished(frames=3)])
    assert (first["type"], base64.b64decode(first["audio"])) == ("speech.audio.delta", chunk(1, 5).pcm)
    assert base64.b64decode(second["audio"]) == chunk(2, 6).pcm
    assert done["type"] == "speech.audio.done"
    assert done["usage"] == {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}


@pytest.mark.logs_errors
async def test_error_event_is_the_last_event_of_the_stream() -> None:
    broken = Broken(GenerationFailed(), RequestStats())
    *_, last = await heard([started(), chunk(), broken])
    assert (last["type"], last["partial_audio"], last["action"]) == ("speech.audio.error", True, "discard")
    assert last["error"]["code"] == "generation_failed"
    with pytest.raises(GenerationFailed):
        await heard([started(), broken])


async def test_reply_without_audio_is_empty() -> None:
    (done,) = await heard([started(), finished(frames=0)])
    assert done["type"] == "speech.audio.done"


async def test_complete_reply_has_the_requested_loudness() -> None:
    speech = (0.1 * 32767 * voice(3.0, 4)).astype("<i2")
    loud = AudioChunk(pcm=speech.tobytes(), codes=np.zeros((0, 4), np.int64), first_sample=0)

    async with hosting(ScriptedEngine({1: [started(), loud, finished()]})) as host:
        body = {"input": "Hi.", "stream": False, "response_format": "pcm", "loudness_lufs": -20}
        result = (await SpeechResponder(host, read_speech(body), host.library, "r").generate_complete_audio()).audio
    before, after = measure_loudness(speech), measure_loudness(np.frombuffer(result, "<i2"))
    assert before is not None
    assert after is not None
    assert before < -25
    assert abs(after + 20) < 0.3


async def test_response_to_a_batch_is_serialized_in_pieces() -> None:
    """A batch may have hours of audio, which would block the event loop."""
    engine = ScriptedEngine({1: [started(), chunk(frames=1000), finished()], 2: [started(), chunk(), finished()]})
    async with hosting(engine) as host:
        items = read_batch({"items": [{"input": "Hello."}, {}, {"input": "Bye."}]}, 3)
        pieces = [piece async for piece in _batch(host, items, host.library, "r")]
    reply = json.loads(b"".join(pieces))
    assert max(map(len, pieces)) <= 2**16
    assert (reply["total"], reply["succeeded"], reply["failed"]) == (3, 2, 1)
    assert [result["index"] for result in reply["results"]] == [0, 1, 2]
    sizes = [len(base64.b64decode(result.get("audio_data") or "")) for result in reply["results"]]
    assert sizes == [44 + 1000 * 3840, 0, 44 + 3840]
