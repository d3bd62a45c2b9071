"""Tests for voices that are made from takes, with a real runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings
from studio.routes.voices import CONSENT
from tests.conftest import FolderOf
from tests.support.keeping import pcm_of, save, serving, visitor_client
from tests.support.runtime_server import RunningServer, running_server

VOICES = "/v1/audio/voices"
LOW = "A man with a low voice."
DESIGNED: dict[str, Any] = {
    "room": "design",
    "mode": "voice_design",
    "config": {"instructions": LOW, "language": "English"},
    "voice": None,
}


@pytest.fixture(scope="module")
def running(folder_of: FolderOf) -> Iterator[RunningServer]:
    with running_server(folder_of("brief", "base"), engine=EngineSettings(threads=1, max_slots=2)) as server:
        yield server


@pytest.fixture
def client(running: RunningServer, tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(tmp_path / "data", running.http) as address, visitor_client(address) as client:
        yield client
    with httpx.Client(base_url=running.http) as own:
        for voice in own.get(VOICES).json()["data"]:
            own.delete(f"{VOICES}/{voice['id']}").raise_for_status()


def made(client: httpx.Client, take: dict[str, Any], name: str) -> httpx.Response:
    return client.post(f"/studio/takes/{take['id']}/voice", json={"name": name})


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


def test_designed_take_becomes_a_voice_with_its_origin(client: httpx.Client, running: RunningServer) -> None:
    take = save(client, pcm_of(3.5), **DESIGNED)
    answer = made(client, take, "Harbour")
    assert answer.status_code == 200, answer.text
    voice = answer.json()
    assert (voice["name"], voice["transcript"], voice["description"]) == ("Harbour", take["text"], LOW)
    assert (voice["consent"], voice["language"]) == (CONSENT, "English")
    assert voice["seconds"] == pytest.approx(3.5, abs=0.5)  # The silence at both ends is removed.
    assert voice["provenance"] == {
        "source": "design",
        "model": "demo-voice",
        "revision": "f00d",
        "fingerprint": "f00d",
        "seed": "7",
        "description": LOW,
        "language": "English",
        "take": take["id"],
        "sha256": take["sha256"],
    }
    assert [kept["id"] for kept in httpx.get(f"{running.http}{VOICES}").json()["data"]] == [voice["id"]]


def test_transcript_of_the_voice_contains_no_tags(client: httpx.Client) -> None:
    fields = {**DESIGNED, "text": "[sad] Ask Nguyen.", "spoken": "[sad] Ask Win."}
    take = save(client, pcm_of(3.5), **{**fields, "config": {**DESIGNED["config"], "tags": True}})
    assert made(client, take, "Tagged").json()["transcript"] == "Ask Win."


def test_voice_from_a_cloned_take_has_the_description_of_the_first_take(client: httpx.Client) -> None:
    first = save(client, pcm_of(3.5), **DESIGNED)
    after: dict[str, Any] = {"room": "design", "mode": "base", "config": {"ref_text": "Hi."}}
    second = save(client, pcm_of(3.5, seed=2), **after, parent=first["id"])
    third = save(client, pcm_of(3.5, seed=3), **after, parent=second["id"])
    voice = made(client, third, "Harbour two").json()
    assert voice["description"] == LOW
    assert (voice["provenance"]["parent"], voice["provenance"]["description"]) == (second["id"], LOW)
    client.delete(f"/studio/takes/{second['id']}").raise_for_status()
    orphan = save(client, pcm_of(3.5, seed=4), **after, parent="t-nobody")
    voice = made(client, orphan, "Harbour three").json()
    assert (voice["description"], "description" in voice["provenance"]) == (None, False)


def test_only_a_designed_take_can_become_a_voice(client: httpx.Client) -> None:
    for fields in ({}, {"room": "clone", "mode": "base"}):
        take = save(client, pcm_of(3.5), **fields)
        assert refusal(made(client, take, "Harbour")) == (400, "invalid_config", "take")


def test_runtime_refusals_are_forwarded_and_no_voice_is_stored(client: httpx.Client, running: RunningServer) -> None:
    take = save(client, pcm_of(3.5), **DESIGNED)
    assert made(client, take, "Harbour").status_code == 200
    assert refusal(made(client, take, "harbour")) == (409, "voice_name_taken", "name")
    assert refusal(made(client, take, " ")) == (400, "invalid_config", "name")
    assert refusal(client.post(f"/studio/takes/{take['id']}/voice", json={"name": "A", "x": 1}))[0] == 400
    assert refusal(made(client, {"id": "nobody"}, "A")) == (404, "not_found", None)
    assert len(httpx.get(f"{running.http}{VOICES}").json()["data"]) == 1


def test_visitor_cannot_make_a_voice_from_the_take_of_another_visitor(running: RunningServer, tmp_path: Path) -> None:
    served = serving(tmp_path / "data", running.http, visitors="each")
    with served as address, visitor_client(address) as anna, visitor_client(address) as bert:
        take = save(anna, pcm_of(3.5), **DESIGNED)
        assert refusal(made(bert, take, "Stolen"))[:2] == (404, "not_found")


def test_blend_becomes_a_voice_with_the_consent_of_both(client: httpx.Client) -> None:
    anna = made(client, save(client, pcm_of(3.5), **DESIGNED), "Anna").json()
    blend = f"{anna['id']}:0.40+clara:0.60"
    take = save(client, pcm_of(3.5), room="design", mode="custom_voice", config={"voice": blend}, voice=blend)
    voice = made(client, take, "Between").json()
    assert (voice["provenance"]["source"], voice["provenance"]["blend"]) == ("blend", blend)
    assert voice["consent"] == f"Anna: {CONSENT} clara: a speaker of the checkpoint."
