"""Tests for app.py with a full or read-only disk, and for two studios with one folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx

from runtime.voices.library import Library
from studio.store.owned_rows import HOST_OWNER
from tests.support.app import ROOT, START_S, App, running_app
from tests.support.keeping import pcm_of, post, save, visitor_client
from tests.support.small_disk import small_disk
from tests.support.speech_client import speak_text
from tests.support.voices import create_voice
from tests.unit.studio.test_durability import add, opened
from tests.unit.studio.test_durability import ids as ids_of
from tests.unit.studio.test_takes import refused
from tests.wire.test_voices import VOICES, upload

SOUND = pcm_of(0.5)
KIB = 2048
TITLE = {"name": "Play"}


@contextmanager
def studio(data: Path, log: IO[str] | None = None) -> Iterator[tuple[App, httpx.Client]]:
    """Start a studio with the data folder `data`, and yield the app and a visitor's client."""
    environment = {"VOICEWRIGHT_DATA": str(data), "VOICEWRIGHT_VISITORS": "one"}
    with running_app([], log=log, instant=True, **environment) as app, visitor_client(app.url) as client:
        yield app, client


def say(app: App) -> None:
    """Check that the studio can still generate speech."""
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    take = asyncio.run(asyncio.wait_for(speak_text(url, "Still here.", max_frames=4), 60))
    assert take.pcm
    assert take.end["type"] == "audio.done"


def ids(client: httpx.Client) -> set[str]:
    return {take["id"] for take in client.get("/studio/takes", params={"limit": 100}).json()["takes"]}


def sound(client: httpx.Client, take: dict[str, Any]) -> bytes:
    return client.get(f"/studio/takes/{take['id']}/audio", params={"format": "pcm"}).raise_for_status().content


def one_sentence(sentence: str, reason: str, folder: Path) -> None:
    assert reason in sentence
    assert len(sentence.splitlines()) == 1
    assert str(folder) not in sentence


def test_full_disk_is_reported_and_affects_neither_speech_nor_stored_takes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", KIB) as disk:
        with studio(disk.folder) as (app, client):
            before = [save(client, SOUND, reference=b"RIFF....WAVE") for _ in range(3)]
            script = client.put("/studio/scripts/s", json=TITLE).raise_for_status().json()
            voice = upload(client, "Grandmother").raise_for_status().json()["id"]
            disk.fill()
            for _ in range(3):
                one_sentence(refused(post(client, SOUND), 507, "storage_failed"), "the disk is full", disk.folder)
            one_sentence(refused(upload(client, "Wilma"), 507, "storage_failed"), "the disk is full", disk.folder)
            long = {"name": "Long", "notes": "x" * 200_000}
            one_sentence(
                refused(client.put("/studio/scripts/l", json=long), 507, "storage_failed"), "is full", disk.folder
            )
            assert ids(client) == {take["id"] for take in before}
            assert all(sound(client, take) == SOUND for take in before)
            say(app)
        # The studio starts without an error message about storage until a request needs the storage.
        with studio(disk.folder) as (app, client):
            assert ids(client) == {take["id"] for take in before}
            assert client.get("/studio/scripts/s").json() == script
            assert voice in {each["id"] for each in client.get(VOICES).json()["data"]}
            one_sentence(refused(post(client, SOUND), 507, "storage_failed"), "the disk is full", disk.folder)
            say(app)
            disk.make_room()
            after = save(client, SOUND)
            upload(client, "Wilma").raise_for_status()
            assert ids(client) == {take["id"] for take in [*before, after]}
            assert sound(client, after) == SOUND


def test_read_only_disk_is_reported_and_left_unchanged(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", KIB) as disk:
        with opened(disk.folder) as store:
            take = add(store, owner=HOST_OWNER)
        library = Library(disk.folder / "voices")
        library.open()
        voice = library.register_voice(create_voice("Grandmother")).id
        library.close()
        files = {path: path.read_bytes() for path in disk.folder.rglob("*") if path.is_file()}
        disk.allow_writing(False)
        with (tmp_path / "log").open("w") as log, studio(disk.folder, log) as (app, client):
            one_sentence(client.get("/studio/me").json()["temporary_note"], "cannot be written", disk.folder)
            spare = save(client, SOUND)  # The take exists until the studio exits.
            assert sound(client, spare) == SOUND
            one_sentence(refused(upload(client, "Wilma"), 507, "storage_failed"), "cannot be written", disk.folder)
            assert voice in {each["id"] for each in client.get(VOICES).json()["data"]}
            say(app)
        said = Path(log.name).read_text()
        assert "Traceback" not in said
        assert len([line for line in said.splitlines() if str(disk.folder) in line]) == 1, said
        disk.allow_writing(True)
        assert {path: path.read_bytes() for path in files} == files
        with opened(disk.folder) as store:
            assert ids_of(store, HOST_OWNER) == [take]
            assert store.takes.pcm(HOST_OWNER, take)[1] == SOUND


def refused_at(port: str, data: Path) -> str:
    """Start a studio on a port that another process uses, and return its error message."""
    command = [sys.executable, "app.py", "--port", port]
    environment = os.environ | {"VOICEWRIGHT_DATA": str(data)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr.rstrip("\n")


def test_two_studios_share_a_folder_safely_and_cannot_share_a_port(tmp_path: Path) -> None:
    """The second studio starts while the first studio is writing.

    Then both studios write to the same data folder.
    """
    with studio(tmp_path / "data") as (app, first):
        one_sentence(refused_at(app.port, tmp_path / "data"), f"Port {app.port}", tmp_path)
        kept: dict[str, list[dict[str, Any]]] = {"first": [], "second": []}
        enough = threading.Event()

        def write(name: str, client: httpx.Client) -> None:
            while not enough.is_set() and len(kept[name]) < 40:
                kept[name].append(save(client, SOUND, text=f"{name} {len(kept[name])}"))

        early = threading.Thread(target=write, args=("first", first))
        early.start()
        try:
            with studio(tmp_path / "data") as (_, second):
                late = threading.Thread(target=write, args=("second", second))
                late.start()
                while len(kept["second"]) < 10 and late.is_alive():
                    late.join(0.05)
                enough.set()
                early.join(60)
                late.join(60)
                everything = {take["id"] for takes in kept.values() for take in takes}
                assert len(kept["first"]) >= 1
                assert len(kept["second"]) >= 10
                assert ids(first) == ids(second) == everything
                assert all(sound(first, take) == SOUND for take in kept["second"])
        finally:
            enough.set()
            early.join(60)
        assert ids(first) == everything, "the second has ended, and took nothing with it"
