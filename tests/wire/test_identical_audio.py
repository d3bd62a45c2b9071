"""Tests that a seed gives the same PCM bytes on each route and in each batch."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import wave
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
import torch

from runtime.cli import main
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from tests.conftest import FolderOf, Loaded
from tests.support.runtime_server import RunningServer
from tests.support.signals import voice
from tests.support.speech_client import same_sound, speak_text, talk
from tests.wire import test_cartesia as cartesia
from tests.wire import test_elevenlabs as elevenlabs
from tests.wire import test_omni as omni
from tests.wire import test_openai as openai
from voicewright import say as client_say

pytestmark = pytest.mark.slow

TEXT = "Good morning, the kettle is on."
PIECES = ("Good mor", "ning,", " the kettle ", "is on.")
SEED, FRAMES = 11, 13
DESIGN = "A calm old man."
WORDS = "Some words."
STORED = "Clara"

Cast = dict[str, Any]  # Fields that select a voice in the native protocol and in vLLM-Omni's and OpenAI's APIs.
Route = Callable[[RunningServer, Cast], bytes]


def samples_of(file: bytes) -> bytes:
    samples, rate = openai.decoded(file)
    assert rate == 24_000
    return samples.astype("<i2").tobytes()


# --- Requests with the native protocol.


def native_whole(server: RunningServer, cast: Cast) -> bytes:
    return asyncio.run(speak_text(server.socket, TEXT, seed=SEED, max_frames=FRAMES, **cast)).pcm


def native_in_pieces(server: RunningServer, cast: Cast) -> bytes:
    async def speak() -> bytes:
        async with talk(server.socket, seed=SEED, max_frames=FRAMES, **cast) as session:
            for piece in PIECES:
                await session.send("input.text", text=piece)
                await asyncio.sleep(0.03)
            await session.send("input.done")
            return (await session.receive_take()).pcm

    return asyncio.run(speak())


def native_labelled(server: RunningServer, cast: Cast) -> bytes:
    async def speak() -> bytes:
        pcm = b""
        async with talk(server.socket, frames="labelled", seed=SEED, max_frames=FRAMES, **cast) as session:
            await session.send_text(TEXT, context_id="one")
            while not isinstance(message := await session.receive(), dict) or message["type"] != "audio.done":
                pcm += message[16:] if isinstance(message, bytes) else b""
        return pcm

    return asyncio.run(speak())


def python_client(server: RunningServer, cast: Cast) -> bytes:
    return client_say(server.http, TEXT, seed=SEED, max_frames=FRAMES, **cast)


# --- Requests with vLLM-Omni's API.


def omni_reply(server: RunningServer, cast: Cast, *texts: str, **kwargs: Any) -> bytes:
    config = {"seed": SEED, "max_new_tokens": FRAMES + 1, **cast, **kwargs}
    (reply,), _ = asyncio.run(omni.speak(server, *texts, **config))
    assert reply.errors == []
    return b"".join(reply.sound)


# --- Requests with OpenAI's API.


def post(server: RunningServer, cast: Cast, path: str = "/v1/audio/speech", **kwargs: Any) -> httpx.Response:
    body = {"model": "tts-1", "input": TEXT, "seed": SEED, "max_frames": FRAMES, **cast, **kwargs}
    reply = httpx.post(server.http + path, json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply


def openai_events(server: RunningServer, cast: Cast) -> bytes:
    lines = post(server, cast, response_format="pcm", stream_format="sse").text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    return b"".join(base64.b64decode(event["audio"]) for event in events if event["type"] == "speech.audio.delta")


def openai_batch(server: RunningServer, cast: Cast) -> bytes:
    items = [{"input": TEXT}, {"input": "Somebody else speaks beside it."}]
    reply = post(server, cast, "/v1/audio/speech/batch", items=items, response_format="pcm").json()
    return base64.b64decode(reply["results"][0]["audio_data"])


# --- Requests with Cartesia's API, in which a voice is an ID.


def fields_of(cast: Cast) -> dict[str, Any]:
    """Return the request fields of Cartesia's and ElevenLabs' APIs, except the voice."""
    styles = {name: value for name, value in cast.items() if name in {"instructions", "graft"}}
    return {"seed": SEED, "max_frames": FRAMES, **styles}


def cartesia_context(server: RunningServer, cast: Cast, *texts: str) -> bytes:
    fields = {"voice": {"mode": "id", "id": cast["voice"]}, "language": None, **fields_of(cast)}

    async def speak() -> bytes:
        async with cartesia.cartesia(server) as connection:
            for number, text in enumerate(texts, 1):
                await cartesia.send(connection, text, "c", goes_on=number < len(texts), **fields)
            return cartesia.sound_of((await cartesia.until_done(connection, "c"))["c"])

    return asyncio.run(speak())


def cartesia_bytes(server: RunningServer, cast: Cast) -> bytes:
    body = {"transcript": TEXT, "voice": {"mode": "id", "id": cast["voice"]}, "output_format": cartesia.NATIVE}
    body |= {"model_id": "sonic-3", **fields_of(cast)}
    return httpx.post(f"{server.http}/tts/bytes", json=body, timeout=60).raise_for_status().content


# --- Requests with ElevenLabs' API, in which the voice is part of the path.


def elevenlabs_in_pieces(server: RunningServer, cast: Cast) -> bytes:
    async def speak() -> bytes:
        async with elevenlabs.socket(server, elevenlabs.ONE, cast["voice"], language_code="") as connection:
            for text in (" ", *PIECES, ""):
                await elevenlabs.send(connection, text, **fields_of(cast))
            return elevenlabs.sound_of((await elevenlabs.closed(connection))[0])

    return asyncio.run(speak())


def elevenlabs_whole(server: RunningServer, cast: Cast) -> bytes:
    url = f"{server.http}/v1/text-to-speech/{cast['voice']}?output_format=pcm_24000"
    return httpx.post(url, json={"text": TEXT, **fields_of(cast)}, timeout=60).raise_for_status().content


ROUTES: dict[str, Route] = {
    "native": native_whole,
    "native in pieces": native_in_pieces,
    "native labelled": native_labelled,
    "Python client": python_client,
    "omni streamed": lambda server, cast: omni_reply(server, cast, TEXT, stream_audio=True, response_format="pcm"),
    "omni in pieces": lambda server, cast: omni_reply(server, cast, *PIECES, stream_audio=True, response_format="pcm"),
    "omni": lambda server, cast: omni_reply(server, cast, TEXT, response_format="pcm"),
    "omni WAV": lambda server, cast: samples_of(omni_reply(server, cast, TEXT, response_format="wav")),
    "omni FLAC": lambda server, cast: samples_of(omni_reply(server, cast, TEXT, response_format="flac")),
    "OpenAI": lambda server, cast: post(server, cast, response_format="pcm").content,
    "OpenAI whole": lambda server, cast: post(server, cast, response_format="pcm", stream=False).content,
    "OpenAI WAV": lambda server, cast: samples_of(post(server, cast, response_format="wav", stream=False).content),
    "OpenAI FLAC": lambda server, cast: samples_of(post(server, cast, response_format="flac").content),
    "OpenAI events": openai_events,
    "OpenAI batch": openai_batch,
}
BY_ID: dict[str, Route] = {
    "Cartesia": lambda server, cast: cartesia_context(server, cast, TEXT),
    "Cartesia in pieces": lambda server, cast: cartesia_context(server, cast, *PIECES),
    "Cartesia bytes": cartesia_bytes,
    "ElevenLabs": elevenlabs_whole,
    "ElevenLabs in pieces": elevenlabs_in_pieces,
}
CASTS = ("speaker", "design", "clone", "x_vector", "stored")


@pytest.fixture(scope="module")
def casts(server: RunningServer, ref_audio: str) -> Iterator[dict[str, Cast]]:
    recording = io.BytesIO()
    soundfile.write(recording, voice(3.0, 8), 24_000, format="WAV", subtype="PCM_16")
    kept = httpx.post(
        f"{server.http}/v1/audio/voices",
        data={"name": STORED, "consent": "I am Clara and I allow this.", "ref_text": "A few words that are said."},
        files={"audio_sample": recording.getvalue()},
        timeout=60,
    )
    assert kept.status_code == 200, kept.text
    yield {
        "speaker": {"task_type": "custom_voice", "voice": "serena"},
        "design": {"task_type": "voice_design", "instructions": DESIGN},
        "clone": {"task_type": "base", "ref_audio": ref_audio, "ref_text": WORDS},
        "x_vector": {"task_type": "base", "ref_audio": ref_audio, "x_vector_only_mode": True},
        "stored": {"voice": STORED},
    }
    assert httpx.delete(f"{server.http}/v1/audio/voices/{STORED}").status_code == 200


@pytest.mark.parametrize("who", CASTS)
def test_every_route_returns_the_same_bytes(server: RunningServer, casts: dict[str, Cast], who: str) -> None:
    wanted = native_whole(server, casts[who])
    assert len(wanted) == 2 * 1920 * FRAMES
    routes = ROUTES | (BY_ID if "voice" in casts[who] else {})
    heard = {name: route(server, casts[who]) for name, route in routes.items()}
    assert [name for name, sound in heard.items() if not same_sound(sound, wanted)] == []


def test_speaker_embedding_returns_the_bytes_of_its_reference(
    server: RunningServer, casts: dict[str, Cast], loaded: Loaded
) -> None:
    encoder = loaded("brief", "base").speaker_encoder
    assert encoder is not None
    recording = base64.b64decode(casts["x_vector"]["ref_audio"].partition(",")[2])
    x_vector = encoder(torch.from_numpy(read_reference(recording, Limits()))).tolist()
    wanted = native_whole(server, casts["x_vector"])
    heard = {name: route(server, {"speaker_embedding": x_vector}) for name, route in ROUTES.items()}
    assert [name for name, sound in heard.items() if not same_sound(sound, wanted)] == []
    other = native_whole(server, {"speaker_embedding": [-number for number in x_vector]})
    assert not same_sound(other, wanted)


@pytest.mark.parametrize("who", CASTS)
def test_concurrent_requests_do_not_change_the_bytes(server: RunningServer, casts: dict[str, Cast], who: str) -> None:
    """All routes are requested at the same time, with more requests than slots."""
    wanted = native_whole(server, casts[who])
    routes = ROUTES | (BY_ID if "voice" in casts[who] else {})
    with ThreadPoolExecutor(len(routes)) as pool:
        heard = dict(zip(routes, pool.map(lambda route: route(server, casts[who]), routes.values()), strict=True))
    assert [name for name, sound in heard.items() if not same_sound(sound, wanted)] == []


def test_voices_and_seeds_change_the_audio(server: RunningServer, casts: dict[str, Cast]) -> None:
    """If voices or seeds had no effect, the other comparisons could not fail."""
    sounds = {who: native_whole(server, cast) for who, cast in casts.items()}
    assert len(set(sounds.values())) == len(CASTS)
    other = post(server, casts["speaker"], response_format="pcm", seed=SEED + 1).content
    assert not same_sound(other, sounds["speaker"])


@pytest.mark.parametrize("who", ["speaker", "design", "clone", "x_vector"])
def test_command_line_returns_the_same_bytes(
    server: RunningServer, casts: dict[str, Cast], folder_of: FolderOf, tmp_path: Path, who: str
) -> None:
    cast = casts[who]
    reference, out = tmp_path / "reference.wav", tmp_path / "out.wav"
    words = ["--out", str(out), "--seed", str(SEED), "--max-frames", str(FRAMES)]
    words += ["--mode", cast["task_type"], "--model", str(folder_of("brief", cast["task_type"]))]
    if "voice" in cast:
        words += ["--voice", cast["voice"]]
    if "instructions" in cast:
        words += ["--instruct", cast["instructions"]]
    if "ref_audio" in cast:
        reference.write_bytes(base64.b64decode(cast["ref_audio"].partition(",")[2]))
        words += ["--ref-audio", str(reference)]
        words += ["--ref-text", cast["ref_text"]] if "ref_text" in cast else ["--x-vector-only"]
    assert main(["say", TEXT, *words]) == 0
    with wave.open(str(out)) as file:
        assert same_sound(file.readframes(file.getnframes()), native_whole(server, cast))
