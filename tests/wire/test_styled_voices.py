"""Tests for stored voices with a style, which have the same audio in all APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import same_sound, speak_text
from tests.wire import test_elevenlabs as elevenlabs
from tests.wire.test_cartesia import cartesia, send, sound_of, until_done
from tests.wire.test_omni import STREAM, speak
from tests.wire.test_voices import CONSENT, VOICES, WORDS, recording
from voicewright import say

TEXT, NAME = "Hello world.", "Marta"
STYLE = {"instructions": "Slowly, in a low voice."}
MANNERS = {"plain": {}, "styled": STYLE, "grafted": {**STYLE, "graft": True}}
FIXED: dict[str, Any] = {"seed": 11, "max_frames": 5}
ENGLISH: dict[str, Any] = {**FIXED, "language": "English"}
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}

Manner = dict[str, Any]


@pytest.fixture(scope="module")
def running(folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Running server with CustomVoice and Base checkpoints of one size and a stored voice."""
    models = [folder_of("brief", "custom_voice"), folder_of("brief", "base", 2)]
    library = ServerSettings(voices=str(tmp_path_factory.mktemp("library") / "voices"))
    with running_server(*models, engine=EngineSettings(threads=1, max_slots=2), server=library) as server:
        form = {"name": NAME, "consent": CONSENT, "ref_text": WORDS}
        kept = httpx.post(server.http + VOICES, data=form, files={"audio_sample": ("a.wav", recording(), "audio/wav")})
        assert kept.status_code == 200, kept.text
        yield server


def native(server: RunningServer, manner: Manner) -> bytes:
    return asyncio.run(speak_text(server.socket, TEXT, voice=NAME, **ENGLISH, **manner)).pcm


def by_our_client(server: RunningServer, manner: Manner) -> bytes:
    return say(server.http, TEXT, voice=NAME, **ENGLISH, **manner)


def omni(server: RunningServer, manner: Manner) -> bytes:
    (reply,), _ = asyncio.run(speak(server, TEXT, voice=NAME, **STREAM, **ENGLISH, **manner))
    assert reply.errors == []
    return b"".join(reply.sound)


def openai(server: RunningServer, manner: Manner) -> bytes:
    body = {"input": TEXT, "voice": NAME, "response_format": "pcm", **ENGLISH, **manner}
    return httpx.post(f"{server.http}/v1/audio/speech", json=body, timeout=60).raise_for_status().content


def cartesia_socket(server: RunningServer, manner: Manner) -> bytes:
    async def heard() -> bytes:
        async with cartesia(server) as connection:
            fields = {"voice": {"mode": "id", "id": NAME}, "language": "en", **FIXED, **manner}
            await send(connection, TEXT, "c", goes_on=False, **fields)
            return sound_of((await until_done(connection, "c"))["c"])

    return asyncio.run(heard())


def cartesia_bytes(server: RunningServer, manner: Manner) -> bytes:
    body = {"transcript": TEXT, "voice": NAME, "language": "en", "output_format": RAW, **FIXED, **manner}
    return httpx.post(f"{server.http}/tts/bytes", json=body, timeout=60).raise_for_status().content


def elevenlabs_socket(server: RunningServer, manner: Manner) -> bytes:
    async def heard() -> bytes:
        async with elevenlabs.socket(server, elevenlabs.ONE, NAME) as connection:
            await elevenlabs.send(connection, TEXT, **FIXED, **manner)
            await elevenlabs.send(connection, "")
            return elevenlabs.sound_of((await elevenlabs.closed(connection))[0])

    return asyncio.run(heard())


def elevenlabs_bytes(server: RunningServer, manner: Manner) -> bytes:
    body = {"text": TEXT, "language_code": "en", **FIXED, **manner}
    url = f"{server.http}/v1/text-to-speech/{NAME}?output_format=pcm_24000"
    return httpx.post(url, json=body, timeout=60).raise_for_status().content


DIALECTS = [by_our_client, omni, openai, cartesia_socket, cartesia_bytes, elevenlabs_socket, elevenlabs_bytes]


@pytest.fixture(scope="module")
def expected(running: RunningServer) -> dict[str, bytes]:
    """Return the audio that the native protocol generates for each style.

    The audio of any two styles differs.
    """
    sounds = {name: native(running, manner) for name, manner in MANNERS.items()}
    assert len(set(sounds.values())) == len(MANNERS)
    return sounds


@pytest.mark.slow("cartesia_bytes", "cartesia_socket", "elevenlabs_bytes", "omni", "openai")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_supports_styled_voices_and_cross_checkpoint_embeddings(
    running: RunningServer, expected: dict[str, bytes], dialect: Callable[[RunningServer, Manner], bytes]
) -> None:
    for name, manner in MANNERS.items():
        assert same_sound(dialect(running, manner), expected[name]), name


async def test_notes_say_how_the_voice_is_used(running: RunningServer) -> None:
    started = (await speak_text(running.socket, TEXT, voice=NAME, **FIXED, **MANNERS["grafted"])).start
    assert started["mode"] == "custom_voice"
    assert [note.rpartition(";")[2] for note in started["notes"]] == 2 * [" this is experimental."]
    ignored = (await speak_text(running.socket, TEXT, voice=NAME, **FIXED, graft=True)).start
    assert ignored["mode"] == "base"
    assert ignored["notes"] == [
        "graft needs a stored voice, instructions and a Base checkpoint with the same ids; it was ignored."
    ]
