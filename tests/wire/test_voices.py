"""Tests for stored voices over HTTP: creation, lists, changes and deletion."""

from __future__ import annotations

import io
import json
import time
import wave
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from runtime.settings import EngineSettings, Limits, ServerSettings
from runtime.voices.voice_file import read_voice
from tests.conftest import FolderOf
from tests.support.audio_files import audio_file
from tests.support.runtime_server import RunningServer, running_server
from tests.support.signals import voice

VOICES = "/v1/audio/voices"
CONSENT = "I am Clara and I allow this."
WORDS = "A few words that could be said here."


def recording(seconds: float = 4.0, seed: int = 5, kind: str = "WAV") -> bytes:
    return audio_file(voice(seconds, seed), kind=kind, subtype=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("library") / "voices"


@pytest.fixture(scope="module")
def running(folder: Path, folder_of: FolderOf) -> Iterator[RunningServer]:
    models = [folder_of("brief", mode) for mode in ("custom_voice", "base")]
    with running_server(
        *models, engine=EngineSettings(threads=1, max_slots=2), server=ServerSettings(voices=str(folder))
    ) as server:
        yield server


@pytest.fixture
def client(running: RunningServer) -> Iterator[httpx.Client]:
    """Yield an HTTP client for an empty library, and delete all its voices at the end."""
    with httpx.Client(base_url=running.http, timeout=30) as client:
        yield client
        for voice in client.get(VOICES).json()["data"]:
            assert client.delete(f"{VOICES}/{voice['id']}").status_code == 200


def upload(client: httpx.Client, name: str = "Clara", sound: bytes | None = None, **fields: str) -> httpx.Response:
    data = {"name": name, "consent": CONSENT, **fields}
    files = {"audio_sample": ("../../etc/passwd.wav", sound or recording(), "audio/wav")}
    return client.post(VOICES, data={key: value for key, value in data.items() if value}, files=files)


def refused(response: httpx.Response, status: int, code: str, param: str | None) -> str:
    """Check the status, code and parameter of an error response, and return its message."""
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (status, code, param), error
    return str(error["message"])


def test_voice_is_stored_and_returned_in_both_formats(client: httpx.Client) -> None:
    reply = upload(client, ref_text=WORDS, speaker_description="calm", language="English").json()
    assert reply["success"] is True
    assert reply["voice"]["name"] == reply["name"] == "Clara"
    assert reply["voice"]["consent"] == CONSENT
    assert reply["voice"]["ref_text"] == WORDS
    assert (reply["object"], reply["type"]) == ("audio.voice", "audio_sample")
    assert len(reply["id"]) == 32
    assert isinstance(reply["created_at"], int)
    assert abs(reply["created_at"] - time.time()) < 60
    # The reference audio is a synthetic signal without speech.
    assert any("speech" in sentence for sentence in reply["advice"])

    listed = client.get(VOICES).json()
    assert "Clara" in listed["voices"]
    assert len(listed["voices"]) > 1  # The list also contains the speakers of the checkpoint.
    assert [voice["name"] for voice in listed["uploaded_voices"]] == ["Clara"]
    assert [voice["id"] for voice in listed["data"]] == [reply["id"]]
    for address in (reply["id"], "clara", "CLARA"):
        assert client.get(f"{VOICES}/{address}").json()["transcript"] == WORDS


def test_voice_is_renamed_fetched_and_deleted(client: httpx.Client) -> None:
    made = upload(client).json()
    place = f"{VOICES}/{made['id']}"
    assert client.patch(place, json={"name": "Zoë 2"}).json()["name"] == "Zoë 2"
    assert client.get(f"{VOICES}/Clara").status_code == 404

    file = client.get(f"{place}/file")
    named = "attachment; filename=\"Zo_ 2.voice\"; filename*=UTF-8''Zo%C3%AB%202.voice"
    assert file.headers["content-disposition"] == named
    stored = read_voice(file.content)
    assert (stored.name, stored.consent and stored.consent.words) == ("Zoë 2", CONSENT)
    with wave.open(io.BytesIO(client.get(f"{place}/audio").content)) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (24_000, 1)
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    assert np.array_equal(samples, stored.reference)

    reply = client.delete(f"{VOICES}/zoë 2").json()
    assert (reply["deleted"], reply["object"], reply["id"]) == (True, "audio.voice.deleted", made["id"])
    refused(client.delete(place), 404, "voice_not_found", None)
    assert client.get(VOICES).json()["data"] == []


@pytest.mark.parametrize(("name", "written"), [("a/b", "a%2Fb"), ("a/b/c", "a/b/c"), ("...", "..."), ("?", "%3F")])
def test_voice_with_any_name_can_be_changed_and_deleted(client: httpx.Client, name: str, written: str) -> None:
    made = upload(client, name=name).json()
    place = f"{VOICES}/{written}"
    assert client.get(place).json()["id"] == made["id"]
    assert client.get(f"{place}/audio").status_code == 200
    assert client.patch(place, json={"description": "Calm."}).json()["id"] == made["id"]
    assert client.delete(place).json()["id"] == made["id"]


@pytest.mark.parametrize("name", [".", ".."])
def test_name_that_no_url_can_contain_is_refused(client: httpx.Client, name: str) -> None:
    refused(upload(client, name=name), 400, "invalid_config", "name")
    place = f"{VOICES}/{upload(client).json()['id']}"
    refused(client.patch(place, json={"name": name}), 400, "invalid_config", "name")


def test_description_and_tags_can_be_changed_and_are_exported(client: httpx.Client) -> None:
    made = upload(client, tags="calm, Radio,,calm ", speaker_description="low").json()
    assert (made["tags"], made["yours"]) == (["calm", "Radio"], True)
    place = f"{VOICES}/{made['id']}"
    changed = client.patch(place, json={"description": "bright", "tags": ["day", "night show"]}).json()
    assert (changed["name"], changed["description"], changed["tags"]) == ("Clara", "bright", ["day", "night show"])
    assert client.patch(place, json={"description": None}).json()["description"] is None
    assert client.get(VOICES, params={"search": "night"}).json()["data"][0]["id"] == made["id"]
    file = client.get(f"{place}/file").content
    client.delete(place)
    assert client.post(VOICES, files={"file": file}).json()["tags"] == ["day", "night show"]


def test_transcript_and_consent_to_blends_can_be_corrected(client: httpx.Client) -> None:
    made = upload(client, ref_text=WORDS).json()
    place = f"{VOICES}/{made['id']}"
    changed = client.patch(place, json={"transcript": f"{WORDS} Indeed.", "allows_blends": False}).json()
    assert changed["transcript"] == f"{WORDS} Indeed."
    assert changed["provenance"] == {**made["provenance"], "blend": "no"}
    assert client.patch(place, json={"transcript": None}).json()["transcript"] is None
    refused(client.patch(place, json={"transcript": WORDS * 20}), 400, "transcript_mismatch", "transcript")
    wrong = (("transcript", 3), ("transcript", False), ("transcript", "half \ud800"), ("allows_blends", "yes"))
    for field, value in (*wrong, ("allows_blends", None)):
        refused(client.patch(place, content=json.dumps({field: value})), 400, "invalid_config", field)


def test_voice_exported_for_voicebox_can_be_imported_again(client: httpx.Client) -> None:
    made = upload(client, ref_text=WORDS, speaker_description="low", language="english").json()
    answer = client.get(f"{VOICES}/{made['id']}/file", params={"format": "voicebox"})
    assert answer.headers["content-disposition"].startswith('attachment; filename="Clara.zip"')
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    manifest = json.loads(archive.read("manifest.json"))
    assert manifest["version"] == "1.0"
    assert manifest["profile"] == {"name": "Clara", "description": "low", "language": "en"}
    ((recording, text),) = json.loads(archive.read("samples.json")).items()
    assert text == WORDS
    assert archive.read(f"samples/{recording}") == client.get(f"{VOICES}/{made['id']}/audio").content
    client.delete(f"{VOICES}/{made['id']}")
    back = client.post(VOICES, files={"file": answer.content}, data={"consent": CONSENT}).json()
    for field in ("name", "description", "language", "transcript"):
        assert back[field] == made[field]
    refused(client.get(f"{VOICES}/{back['id']}/file?format=wav"), 400, "invalid_config", "format")


def test_origin_of_a_voice_is_stored(client: httpx.Client) -> None:
    provenance = {"source": "design", "model": "demo-voice", "seed": "7", "description": "Eine „ruhige“ Stimme"}
    made = upload(client, provenance=json.dumps(provenance)).json()
    assert made["provenance"] == provenance
    assert upload(client, "Bert").json()["provenance"] == {"source": "upload"}
    for wrong in ("[]", "7", '{"seed": 7}', '{"a": "x", "a": "y"}', "[" * 9000, json.dumps({"a": "x" * 501})):
        refused(upload(client, "Carl", provenance=wrong), 400, "invalid_config", "provenance")


def check(client: httpx.Client, sound: bytes, **fields: str) -> httpx.Response:
    return client.post(f"{VOICES}/check", data=fields or {"x": ""}, files={"audio_sample": sound})


def test_recording_is_checked_without_storing_it(client: httpx.Client) -> None:
    said = check(client, recording(4.0), ref_text=WORDS).json()
    kept = upload(client, ref_text=WORDS).json()
    assert [hint["sentence"] for hint in said["advice"]] == kept["advice"]
    assert said["usable"] is True
    assert said["seconds"] == 4.0
    assert said["trim"]["end_s"] - said["trim"]["start_s"] == pytest.approx(kept["seconds"], abs=0.01)
    assert -7 < said["levels"]["peak_db"] < -5  # The peak is at half of full scale (-6 dB).
    assert said["levels"]["clipped"] == 0
    assert [voice["name"] for voice in client.get(VOICES).json()["data"]] == ["Clara"]


def test_recording_check_refuses_recordings_that_cannot_be_stored(client: httpx.Client) -> None:
    refused(check(client, b"no sound"), 400, "invalid_ref_audio", "audio_sample")
    refused(check(client, recording(0.4)), 400, "ref_too_short", "audio_sample")
    refused(client.post(f"{VOICES}/check", files={"file": b"x"}), 400, "invalid_config", "audio_sample")
    refused(check(client, recording(), ref_text="x" * 4097), 400, "invalid_config", "ref_text")


def test_speaker_cannot_be_changed_or_deleted(client: httpx.Client) -> None:
    speaker = next(name for name in client.get(VOICES).json()["voices"])
    for name in (speaker, speaker.upper()):
        refused(client.delete(f"{VOICES}/{name}"), 403, "voice_not_yours", None)
        refused(client.patch(f"{VOICES}/{name}", json={"description": "low"}), 403, "voice_not_yours", None)
    assert speaker in client.get(VOICES).json()["voices"]
    refused(client.delete(f"{VOICES}/nobody"), 404, "voice_not_found", None)


def test_voices_are_visible_to_their_owner_only(client: httpx.Client, running: RunningServer) -> None:
    anna, bert = ({"X-Voice-Owner": name} for name in ("anna", "bert"))
    common = upload(client, "House").json()

    def keep(owner: dict[str, str], seed: int) -> Any:
        files = {"audio_sample": recording(seed=seed)}
        return client.post(VOICES, data={"name": "Clara", "consent": CONSENT}, files=files, headers=owner).json()

    annas, berts = keep(anna, 5), keep(bert, 6)
    listed = client.get(VOICES, headers=anna).json()["data"]
    assert [(voice["id"], voice["yours"]) for voice in listed] == [(annas["id"], True), (common["id"], False)]
    assert [voice["name"] for voice in client.get(VOICES).json()["data"]] == ["House"]
    for tail in ("", "/file", "/audio"):
        refused(client.get(f"{VOICES}/{annas['id']}{tail}", headers=bert), 404, "voice_not_found", None)
        assert client.get(f"{VOICES}/{common['id']}{tail}", headers=bert).status_code == 200
    refused(client.delete(f"{VOICES}/{annas['id']}", headers=bert), 404, "voice_not_found", None)
    refused(client.delete(f"{VOICES}/{common['id']}", headers=bert), 403, "voice_not_yours", None)
    refused(client.patch(f"{VOICES}/house", json={"name": "x"}, headers=bert), 403, "voice_not_yours", None)

    def speak(voice: str, owner: dict[str, str]) -> httpx.Response:
        body = {"input": "Hi.", "voice": voice, "task_type": "base", "seed": 1, "response_format": "wav"}
        return client.post("/v1/audio/speech", json={**body, "max_new_tokens": 8}, headers=owner)

    assert speak(annas["id"], anna).status_code == 200
    sentence = refused(speak(annas["id"], bert), 404, "unknown_voice", "voice")
    assert "House" in sentence
    assert annas["id"] not in sentence
    # The two owners have different voices with the same name.
    assert speak("clara", anna).content != speak("clara", bert).content
    refused(speak("clara", {}), 404, "unknown_voice", "voice")
    for made, owner in [(annas, anna), (berts, bert)]:
        assert client.delete(f"{VOICES}/{made['id']}", headers=owner).status_code == 200


def test_voices_per_owner_are_limited(folder_of: FolderOf, tmp_path: Path) -> None:
    settings = ServerSettings(voices=str(tmp_path / "v"), owned_voices=1)
    with (
        running_server(folder_of("brief", "base"), server=settings) as server,
        httpx.Client(base_url=server.http, timeout=30) as client,
    ):
        client.headers["X-Voice-Owner"] = "anna"
        assert upload(client).status_code == 200
        refused(upload(client, "Bert"), 409, "too_many_voices", None)


def test_exported_voice_is_imported_unchanged(client: httpx.Client) -> None:
    made = upload(client, ref_text=WORDS).json()
    wait_for_prompt(client, made["id"])
    file = client.get(f"{VOICES}/{made['id']}/file").content
    refused(client.post(VOICES, files={"file": file}), 409, "voice_name_taken", "name")
    client.delete(f"{VOICES}/{made['id']}")
    again = client.post(VOICES, files={"file": file}).json()
    assert {**again, "voice": None, "success": None} == {
        **made,
        "voice": None,
        "success": None,
        "file_bytes": len(file),
    }
    assert parts_of(client.get(f"{VOICES}/{made['id']}/file").content) == parts_of(file)


def test_voice_prompt_file_of_the_official_demo_can_speak_without_a_recording(client: httpx.Client) -> None:
    item = {"ref_spk_embedding": torch.ones(64), "ref_code": None, "x_vector_only_mode": True, "ref_text": None}
    file = io.BytesIO()
    torch.save({"items": [item]}, file)
    refused(client.post(VOICES, files={"file": file.getvalue()}), 400, "consent_required", "consent")
    fields = {"name": "Wilma", "consent": "Wilma said yes."}
    made = client.post(VOICES, files={"file": file.getvalue()}, data=fields).json()
    assert (made["name"], made["seconds"]) == ("Wilma", 0)
    refused(client.get(f"{VOICES}/Wilma/audio"), 404, "no_recording", None)
    width = client.post("/v1/audio/speech", json={"input": "Hello.", "voice": "Wilma", "max_frames": 3})
    assert width.status_code == 200, width.text
    exported = client.get(f"{VOICES}/Wilma/file").content
    client.delete(f"{VOICES}/Wilma")
    assert client.post(VOICES, files={"file": exported}).json()["id"] == made["id"]


def parts_of(file: bytes) -> tuple[Any, bytes]:
    """Return the parsed header and the tensors of a voice file, for a comparison.

    The order of the header fields may differ between equal files.
    """
    end = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:end]), file[end:]


def wait_for_prompt(client: httpx.Client, voice_id: str) -> Any:
    end = time.monotonic() + 100
    while not (prompts := read_voice(client.get(f"{VOICES}/{voice_id}/file").content).prompts):
        assert time.monotonic() < end, "no prompt was made"
        time.sleep(0.05)
    return prompts


def test_voice_prompt_is_computed_in_the_background_and_stored(client: httpx.Client, running: RunningServer) -> None:
    assert running.engine is not None
    made = upload(client, ref_text=WORDS).json()
    prompts = wait_for_prompt(client, made["id"])
    (base,) = [card for card in running.engine.cards if "base" in card.modes]
    assert list(prompts) == [base.fingerprint]
    assert prompts[base.fingerprint].codes is not None

    upload(client, sound=recording(seed=9), replace="true")
    end = time.monotonic() + 100
    while True:
        new = wait_for_prompt(client, made["id"])[base.fingerprint]
        if not np.array_equal(new.x_vector, prompts[base.fingerprint].x_vector):
            break
        assert time.monotonic() < end, "the prompt is still that of the replaced recording"


def test_invalid_upload_keeps_the_existing_voice(client: httpx.Client) -> None:
    made = upload(client).json()
    wait_for_prompt(client, made["id"])
    before = client.get(f"{VOICES}/{made['id']}/file").content
    for bad in (b"no sound", recording()[:1000], recording(0.4)):
        assert upload(client, sound=bad, replace="true").status_code == 400
    refused(upload(client, "CLARA"), 409, "voice_name_taken", "name")
    assert client.get(f"{VOICES}/{made['id']}/file").content == before
    replaced = upload(client, "clara", sound=recording(seed=8), replace="true").json()
    assert (replaced["id"], replaced["name"]) == (made["id"], "clara")


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"consent": ""}, 400, "consent_required", "consent"),
        ({"consent": "  "}, 400, "consent_required", "consent"),
        ({"name": ""}, 400, "invalid_config", "name"),
        ({"name": "x" * 65}, 400, "invalid_config", "name"),
        ({"name": "a\u202eb"}, 400, "invalid_config", "name"),
        ({"name": "0" * 32}, 400, "invalid_config", "name"),
        ({"type": "prompt"}, 400, "invalid_config", "type"),
        ({"speaker_embedding": "[0.1]"}, 400, "invalid_config", "speaker_embedding"),
        ({"language": "../en"}, 400, "invalid_config", "language"),
        ({"tags": "x" * 33}, 400, "invalid_config", "tags"),
        ({"speaker_description": "x" * 501}, 400, "invalid_config", "speaker_description"),
        ({"ref_text": "x" * 400}, 400, "transcript_mismatch", "ref_text"),
    ],
)
def test_invalid_form_is_refused(
    client: httpx.Client, fields: dict[str, str], status: int, code: str, param: str
) -> None:
    refused(upload(client, **fields), status, code, param)
    assert client.get(VOICES).json()["data"] == []


def test_unsupported_content_types_are_refused(client: httpx.Client) -> None:
    sentence = refused(
        client.post(VOICES, json={"type": "prompt", "name": "x", "prompt": "deep"}), 400, "invalid_config", "body"
    )
    assert "prompt" in sentence
    refused(client.post(VOICES, data={"name": "x", "consent": "y"}), 400, "invalid_config", "body")
    head = {"content-type": "multipart/form-data; boundary=x"}
    refused(client.post(VOICES, content=b"--y\r\n\r\n", headers=head), 400, "invalid_config", "body")
    refused(client.post(VOICES, content=b"", headers=head), 400, "invalid_config", "audio_sample")
    refused(
        client.post(VOICES, files={"audio_sample": b"", "file": b"x"}, data={"consent": "y"}),
        400,
        "invalid_config",
        "audio_sample",
    )
    refused(client.post(VOICES, files={"file": b"x" * 100}), 400, "invalid_voice_file", "file")
    made = upload(client).json()
    refused(client.patch(f"{VOICES}/{made['id']}", content=b"["), 400, "invalid_json", None)
    for field, wrong in [
        ("name", 7),
        ("name", None),
        ("description", 7),
        ("tags", "calm"),
        ("tags", [7]),
        ("tags", None),
    ]:
        refused(client.patch(f"{VOICES}/{made['id']}", json={field: wrong}), 400, "invalid_config", field)
    refused(client.patch(f"{VOICES}/{made['id']}", json={"colour": "red"}), 400, "invalid_config", "body")
    refused(
        client.patch(f"{VOICES}/{made['id']}", json={"description": "x" * 501}), 400, "invalid_config", "description"
    )
    refused(client.patch(f"{VOICES}/nobody", json={"name": "x"}), 404, "voice_not_found", None)


@pytest.mark.parametrize("address", ["nobody", "%2e%2e", "..%2f..%2fetc%2fpasswd", "a%00b", "x" * 500, "%ff", "0" * 32])
def test_path_traversal_out_of_the_library_is_refused(client: httpx.Client, address: str) -> None:
    for tail in ("", "/file", "/audio"):
        assert client.get(f"{VOICES}/{address}{tail}").status_code in {404, 405}


@pytest.mark.slow
def test_uploads_are_limited_with_and_without_declared_length(folder_of: FolderOf, tmp_path: Path) -> None:
    limits = Limits(max_upload_bytes=300_000)
    with (
        running_server(
            folder_of("brief", "base"), limits=limits, server=ServerSettings(voices=str(tmp_path / "v"))
        ) as server,
        httpx.Client(base_url=server.http, timeout=30) as client,
    ):
        refused(upload(client, sound=recording(8.0)), 413, "message_too_large", None)
        sizes = [upload(client, sound=bytes(5 * 2**20))]

        def endless() -> Iterator[bytes]:
            yield b'--x\r\nContent-Disposition: form-data; name="audio_sample"; filename="a"\r\n\r\n'
            for _ in range(200):
                yield bytes(2**16)

        head = {"content-type": "multipart/form-data; boundary=x"}
        sizes.append(client.post(VOICES, content=endless(), headers=head))
        for answer, (least, said) in zip(
            sizes, [(5 * 2**20, "has 524"), (824_288, "has more than 824288 ")], strict=True
        ):
            refused(answer, 413, "message_too_large", None)
            error = answer.json()["error"]
            assert said in error["message"]
            assert isinstance(size := error["facts"]["size"], int)
            assert size >= least
        assert upload(client).status_code == 200


@pytest.mark.slow
def test_many_concurrent_uploads_are_all_answered(client: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda number: upload(client, f"Voice {number % 8}"), range(16)))
    assert sorted(reply.status_code for reply in replies) == [200] * 8 + [409] * 8
    assert len(client.get(VOICES).json()["data"]) == 8


def test_server_speaks_even_if_voices_cannot_be_stored(folder_of: FolderOf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of the folder")
    folder = tmp_path / "file" / "voices"
    with (
        running_server(folder_of("brief", "base"), server=ServerSettings(voices=str(folder))) as server,
        httpx.Client(base_url=server.http, timeout=30) as client,
    ):
        assert client.get(VOICES).json()["data"] == []
        sentence = refused(upload(client), 507, "storage_failed", None)
        assert str(folder) not in sentence
        assert server.load()["status"] == "ready"


@pytest.mark.parametrize("path", ["/v1/open-webui/audio/voices", f"{VOICES}?of=objects"])
def test_open_webui_lists_and_uses_stored_voices(client: httpx.Client, path: str) -> None:
    """If an entry of the list has no ID or name, Open WebUI shows OpenAI's six voices instead."""
    voice = upload(client, "Wilma").json()
    try:
        menu = {voice["id"]: voice["name"] for voice in client.get(path).json()["voices"]}
        assert menu[voice["id"]] == "Wilma"
        names = client.get(VOICES).json()["voices"]
        assert all(isinstance(name, str) for name in names)
        assert sorted(menu.values()) == sorted(names)
        assert any(id_ == name for id_, name in menu.items())  # The menu also contains the speakers.
        body = {"model": "tts-1", "input": "Hello.", "voice": voice["id"], "max_frames": 3, "response_format": "pcm"}
        spoken = client.post("/v1/open-webui/audio/speech", json=body, timeout=60)
        assert (spoken.status_code, len(spoken.content)) == (200, 3 * 3840)
        models = client.get("/v1/open-webui/audio/models").json()["models"]
        assert {"tts-1"} <= {model["id"] for model in models}
    finally:
        client.delete(f"{VOICES}/{voice['id']}")


def test_format_of_the_voice_list_is_set_by_the_server_or_the_request(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(voices_as="objects")) as running:
        assert httpx.get(running.http + VOICES).json()["voices"][0].keys() == {"id", "name"}
        assert isinstance(httpx.get(f"{running.http}{VOICES}?of=names").json()["voices"][0], str)
        assert httpx.get(f"{running.http}{VOICES}?of=songs").status_code == 400
