"""Tests for stored voices with a style, which have the same audio in all APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import same_sound, speak_text
from tests.wire.test_identical_audio import BY_ID, ROUTES, native_whole
from tests.wire.test_voices import CONSENT, VOICES, WORDS, recording

TEXT, NAME = "Hello world.", "Marta"
STYLE = {"instructions": "Slowly, in a low voice."}
MANNERS: dict[str, dict[str, Any]] = {"plain": {}, "styled": STYLE, "grafted": {**STYLE, "graft": True}}
FIXED: dict[str, Any] = {"seed": 11, "max_frames": 5}
DIALECTS = ("Python client", "omni streamed", "OpenAI", *BY_ID)


@pytest.fixture(scope="module")
def running(folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server with CustomVoice and Base checkpoints of one size and a stored voice."""
    models = [folder_of("brief", "custom_voice"), folder_of("brief", "base", 2)]
    library = ServerSettings(voices=str(tmp_path_factory.mktemp("library") / "voices"))
    with running_server(*models, engine=EngineSettings(threads=1, max_slots=2), server=library) as server:
        form = {"name": NAME, "consent": CONSENT, "ref_text": WORDS}
        kept = httpx.post(server.http + VOICES, data=form, files={"audio_sample": ("a.wav", recording(), "audio/wav")})
        assert kept.status_code == 200, kept.text
        yield server


@pytest.fixture(scope="module")
def expected(running: RunningServer) -> dict[str, bytes]:
    """Return the audio that the native protocol generates for each style.

    The audio of any two styles differs.
    """
    sounds = {name: native_whole(running, {"voice": NAME, **manner}) for name, manner in MANNERS.items()}
    assert len(set(sounds.values())) == len(MANNERS)
    return sounds


@pytest.mark.slow("Cartesia", "Cartesia bytes", "Cartesia in pieces", "ElevenLabs", "omni streamed", "OpenAI")
@pytest.mark.parametrize("route", DIALECTS)
def test_every_dialect_supports_styled_voices_and_cross_checkpoint_embeddings(
    running: RunningServer, expected: dict[str, bytes], route: str
) -> None:
    for name, manner in MANNERS.items():
        assert same_sound((ROUTES | BY_ID)[route](running, {"voice": NAME, **manner}), expected[name]), name


async def test_notes_explain_how_a_styled_voice_is_used(running: RunningServer) -> None:
    started = (await speak_text(running.socket, TEXT, voice=NAME, **FIXED, **MANNERS["grafted"])).start
    assert started["mode"] == "custom_voice"
    assert [note.rpartition(";")[2] for note in started["notes"]] == 2 * [" this is experimental."]
    ignored = (await speak_text(running.socket, TEXT, voice=NAME, **FIXED, graft=True)).start
    assert ignored["mode"] == "base"
    assert ignored["notes"] == [
        "graft needs a stored voice, instructions and a Base checkpoint with the same ids; it was ignored."
    ]
