"""Tests for stored voices with the same name as a built-in speaker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from runtime.voices.library import Library
from runtime.voices.voice_file import write_voice
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.voices import BOMBS, create_voice, create_voice_file
from tests.wire.test_voices import VOICES, refused, upload

SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a library that contains a voice with the name of a speaker."""
    folder = tmp_path_factory.mktemp("library") / "voices"
    library = Library(folder)
    library.register_voice(create_voice("SERENA", samples=48_000, transcript=None))
    library.close()
    return folder


@pytest.fixture(scope="module")
def running(folder: Path, folder_of: FolderOf) -> Iterator[RunningServer]:
    models = [folder_of("brief", mode) for mode in ("custom_voice", "base")]
    engine, server = EngineSettings(threads=1, max_slots=2), ServerSettings(voices=str(folder))
    with running_server(*models, engine=engine, server=server) as running:
        yield running


@pytest.fixture
def client(running: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.http, timeout=60) as client:
        yield client


def sound_of(client: httpx.Client, voice: str, **fields: object) -> bytes:
    body = {"input": "Hello.", "voice": voice, "seed": 3, "max_frames": 3, "response_format": "pcm", **fields}
    answer = client.post(SPEECH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_speaker_name_is_refused_for_a_voice_in_every_spelling(client: httpx.Client) -> None:
    for name in ("Serena", "sERENA", "Ｓｅｒｅｎａ"):
        refused(upload(client, name), 409, "voice_name_of_speaker", "name")
    for name in ("Sеrena", "ѕerena", "serenɑ", "se\u200drena", "s\u0332erena", "serenа"):
        refused(upload(client, name), 409, "voice_name_looks_alike", "name")
    file = write_voice(create_voice("serena", samples=48_000))
    refused(client.post(VOICES, files={"file": ("a.voice", file)}), 409, "voice_name_of_speaker", "name")
    made = upload(client, "Mine").json()
    renamed = client.patch(f"{VOICES}/{made['id']}", json={"name": "serena"})
    refused(renamed, 409, "voice_name_of_speaker", "name")
    assert client.delete(f"{VOICES}/{made['id']}").status_code == 200


def test_name_that_means_a_blend_is_refused(client: httpx.Client) -> None:
    made = upload(client, "Blended").json()
    for name in ("angus:0.6+clara:0.4", "Serena ： .5 ＋ Mine : 0.5"):
        refused(upload(client, name), 400, "invalid_config", "name")
        refused(client.patch(f"{VOICES}/{made['id']}", json={"name": name}), 400, "invalid_config", "name")
    for name in ("angus:0.6+clara:0.6", "Note: A+B: C"):
        assert client.patch(f"{VOICES}/{made['id']}", json={"name": name}).status_code == 200
    assert client.delete(f"{VOICES}/{made['id']}").status_code == 200


def test_existing_voice_with_a_speaker_name_is_reached_by_id(client: httpx.Client) -> None:
    listed = client.get(VOICES).json()
    (stored,) = listed["data"]
    (problem,) = listed["problems"]
    assert problem["file"] == f"{stored['id']}.voice"
    assert "voice:NAME" in problem["why"]
    speaker = sound_of(client, "serena", task_type="custom_voice")
    cloned = sound_of(client, "serena", task_type="base")
    assert speaker != cloned
    assert sound_of(client, "Serena") == speaker
    for address in ("voice:serena", stored["id"]):
        assert sound_of(client, address) == cloned


def test_crafted_voice_file_is_reported_and_affects_no_other_voice(client: httpx.Client, folder: Path) -> None:
    for bomb in BOMBS.values():
        bad = create_voice("Bad")
        (folder / f"{bad.id}.voice").write_bytes(create_voice_file(bad, **bomb))
        listed = client.get(VOICES)
        assert listed.status_code == 200
        assert f"{bad.id}.voice" in {problem["file"] for problem in listed.json()["problems"]}
        assert sound_of(client, "ryan", task_type="custom_voice")
        answer = client.post(VOICES, files={"file": ("a.voice", create_voice_file(bad, **bomb))})
        refused(answer, 400, "invalid_voice_file", "file")
        (folder / f"{bad.id}.voice").unlink()
