"""Tests for takes over HTTP: stored unchanged, and visible only to their owner."""

from __future__ import annotations

import hashlib
import io
import json
import wave
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.shared.audio.encoding import AI_COMMENT, read_tags
from studio.store.audio_files import outline
from tests.support.examples import examples
from tests.support.keeping import create_take, pcm_of, post, save, serving, visitor_client

SOUND = pcm_of(2.0)


def refused(answer: httpx.Response, status: int, code: str, param: str | None = None) -> str:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param), answer.text
    return str(error["message"])


def test_stored_take_is_returned_unchanged(client: httpx.Client) -> None:
    sent = create_take()
    record = save(client, SOUND)
    assert {name: record[name] for name in sent} == sent
    assert record["sha256"] == hashlib.sha256(SOUND).hexdigest()
    assert (record["samples"], record["seconds"]) == (48000, 2.0)
    assert -30 < record["lufs"] < -10
    assert (record["name"], record["tags"], record["favourite"], record["notes"]) == (None, [], False, "")
    assert client.get(f"/studio/takes/{record['id']}").json() == record
    assert client.get("/studio/takes").json() == {"takes": [record], "next": None}
    audio = client.get(f"/studio/takes/{record['id']}/audio", params={"format": "pcm"})
    assert audio.content == SOUND


def test_waveform_outline_contains_the_peak_level_of_each_part(client: httpx.Client) -> None:
    steps = np.repeat(np.arange(32) * 1024, 100) * np.where(np.arange(3200) % 2, 1, -1)
    path = f"/studio/takes/{save(client, steps.astype('<i2').tobytes())['id']}/outline"
    answer = client.get(path)
    assert answer.json() == {"outline": [step * 1024 * 255 // 32768 for step in range(32)]}
    assert answer.headers["cache-control"] == "private, max-age=86400, immutable"
    assert answer.headers["vary"] == "cookie"
    assert outline(np.array([-32768, 32767], "<i2").tobytes()) == [255, 254]
    assert outline(b"") == [0]


@pytest.mark.parametrize("wanted", ["wav", "flac"])
def test_lossless_files_preserve_every_sample(client: httpx.Client, wanted: str) -> None:
    record = save(client, SOUND)
    audio = client.get(f"/studio/takes/{record['id']}/audio", params={"format": wanted})
    values, rate = soundfile.read(io.BytesIO(audio.content), dtype="int16")
    assert rate == 24_000
    assert values.tobytes() == SOUND


@pytest.mark.parametrize("wanted", ["mp3", "flac", "opus"])
def test_file_tags_name_the_model_and_seed(client: httpx.Client, wanted: str) -> None:
    record = save(client, SOUND, name="Ein Gruß, 你好")
    audio = client.get(f"/studio/takes/{record['id']}/audio", params={"format": wanted})
    tags = read_tags(io.BytesIO(audio.content))
    assert tags["title"] == "Ein Gruß, 你好"
    assert AI_COMMENT in tags["comment"]
    assert tags["model"] == "demo-voice f00d"
    assert tags["seed"] == "7"
    assert tags["voice"] == "clara"
    assert tags["sha256"] == record["sha256"]
    assert tags["software"].startswith("Voicewright")
    assert "owner" not in json.dumps(tags)


def test_wav_tags_name_the_model_and_seed(client: httpx.Client) -> None:
    record = save(client, SOUND)
    data = client.get(f"/studio/takes/{record['id']}/audio").content
    with wave.open(io.BytesIO(data)) as file:
        assert file.readframes(10**9) == SOUND
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        assert file.title == "Good morning."
        assert file.software.startswith("Voicewright")
        assert file.comment.startswith(AI_COMMENT)
        for said in ("model: demo-voice f00d", "seed: 7", f"sha256: {record['sha256']}"):
            assert said in file.comment


def test_mp3_file_decodes_to_the_stored_audio(client: httpx.Client) -> None:
    record = save(client, SOUND)
    data = client.get(f"/studio/takes/{record['id']}/audio", params={"format": "mp3"}).content
    with av.open(io.BytesIO(data)) as container:
        count = sum(frame.samples for frame in container.decode(audio=0))
    assert abs(count - 48000) < 2400


def test_bit_rate_of_a_lossy_file_can_be_chosen(client: httpx.Client) -> None:
    path = f"/studio/takes/{save(client, SOUND)['id']}/audio"
    answers = [client.get(path, params={"format": "mp3", "bit_rate": rate}) for rate in (64_000, 128_000)]
    assert answers[0].headers["etag"] != answers[1].headers["etag"]
    for answer, rate in zip(answers, (64_000, 128_000), strict=True):
        with av.open(io.BytesIO(answer.content)) as container:
            assert container.streams.audio[0].bit_rate == rate
    refused(client.get(path, params={"format": "mp3", "bit_rate": "1"}), 400, "invalid_config", "bit_rate")
    assert "only mp3" in refused(client.get(path, params={"bit_rate": 64_000}), 400, "invalid_config", "bit_rate")


def test_file_has_the_given_name_and_supports_conditional_requests(client: httpx.Client) -> None:
    record = save(client, name='Wer "da"? ../é')
    answer = client.get(f"/studio/takes/{record['id']}/audio")
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="Wer da .. _.wav"')
    assert "/" not in disposition.split("filename*=UTF-8''")[1]
    again = client.get(answer.url.path, headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    inline = client.get(f"/studio/takes/{record['id']}/audio", params={"inline": "1"})
    assert inline.headers["content-disposition"].startswith("inline")
    client.patch(f"/studio/takes/{record['id']}", json={"name": "Other"}).raise_for_status()
    renamed = client.get(answer.url.path, headers={"if-none-match": answer.headers["etag"]})
    assert renamed.status_code == 200


def test_reference_is_served_with_its_detected_type(client: httpx.Client) -> None:
    reference = b"RIFF\x00\x00\x00\x00WAVE<script>"
    record = save(client, reference=reference, mode="base", room="clone")
    two = save(client, reference=reference, mode="base", room="clone")
    assert record["reference"] == two["reference"] == hashlib.sha256(reference).hexdigest()
    answer = client.get(f"/studio/takes/{two['id']}/reference")
    assert (answer.content, answer.headers["content-type"]) == (reference, "audio/wav")
    html = save(client, reference=b"<html><script>alert(1)</script>")
    answer = client.get(f"/studio/takes/{html['id']}/reference")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    refused(client.get(f"/studio/takes/{save(client)['id']}/reference"), 404, "not_found")


def test_takes_can_be_searched_and_paged(client: httpx.Client) -> None:
    ids = [save(client, pcm_of(0.1), text=f"Sentence {number}", room="design")["id"] for number in range(7)]
    other = save(client, pcm_of(0.1), text="GRÜSSE aus Köln", tags=["Intro"], label="A")["id"]

    def page(**query: Any) -> tuple[list[str], str | None]:
        answer = client.get("/studio/takes", params=query).json()
        return [take["id"] for take in answer["takes"]], answer["next"]

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        found, cursor = page(limit=3, cursor=cursor)
        assert len(found) <= 3
        seen += found
    assert seen == [other, *reversed(ids)]
    assert page(search="grüsse köln")[0] == [other]
    assert page(search="intro")[0] == [other]
    assert page(search="calmly", room="design")[0] == list(reversed(ids))
    assert page(search="100%")[0] == []
    client.patch(f"/studio/takes/{ids[2]}", json={"favourite": True, "notes": "the best"})
    assert page(favourite="1")[0] == [ids[2]]
    assert page(search="best")[0] == [ids[2]]
    refused(client.get("/studio/takes", params={"cursor": "x"}), 400, "invalid_config", "cursor")
    for limit in ("many", "-5", "0", "101", "1.5", "٣"):
        sentence = refused(client.get("/studio/takes", params={"limit": limit}), 400, "invalid_config", "limit")
        assert sentence == "limit is not valid: it must be a whole number from 1 to 100."


def test_takes_of_a_script_are_listed_separately(client: httpx.Client) -> None:
    alone, first, second = (save(client, pcm_of(0.1))["id"] for _ in range(3))
    lines = [{"id": "a", "takes": [{"key": "k", "take": first}]}, {"id": "b", "takes": [{"key": "l", "take": second}]}]
    client.put("/studio/scripts/river", json={"name": "River", "lines": lines})
    client.put("/studio/scripts/other", json={"lines": []})

    def page(**query: Any) -> list[str]:
        return [take["id"] for take in client.get("/studio/takes", params=query).json()["takes"]]

    assert page() == [second, first, alone]
    assert page(loose="1") == [alone]
    assert page(script="river") == [second, first]
    assert page(script="other") == page(script="none") == []
    client.delete("/studio/scripts/river")
    assert page(loose="1") == [second, first, alone], "what is left of it is to be found"
    assert page(script="river") == []


def test_pages_of_the_take_list_do_not_shift_while_takes_change(client: httpx.Client) -> None:
    ids = [save(client, pcm_of(0.1))["id"] for _ in range(4)]
    first = client.get("/studio/takes", params={"limit": 2}).json()
    save(client, pcm_of(0.1))
    client.delete(f"/studio/takes/{ids[3]}")
    second = client.get("/studio/takes", params={"limit": 2, "cursor": first["next"]}).json()
    assert [take["id"] for take in second["takes"]] == [ids[1], ids[0]]


def test_update_of_a_take_changes_only_the_given_fields(client: httpx.Client) -> None:
    record = save(client, tags=["one"], notes="before")
    path = f"/studio/takes/{record['id']}"
    changed = client.patch(path, json={"name": " Take two ", "favourite": True}).json()
    assert changed == record | {"name": "Take two", "favourite": True}
    assert client.patch(path, json={"name": None, "tags": []}).json() == changed | {"name": None, "tags": []}
    refused(client.patch(path, json={"seed": 8}), 400, "invalid_config", "seed")
    refused(client.patch(path, json={"favourite": 1}), 400, "invalid_config", "favourite")
    refused(client.patch(path, json={"tags": ["x" * 41]}), 400, "invalid_config", "tags.0")
    refused(client.patch(path, content=b"[1]"), 400, "invalid_json")
    assert client.get(path).json()["seed"] == 7


def test_deletion_of_a_take_can_be_undone(client: httpx.Client) -> None:
    record = save(client, SOUND)
    path = f"/studio/takes/{record['id']}"
    assert client.delete(path).json() == {"id": record["id"], "deleted": True}
    for answer in (client.get(path), client.get(f"{path}/audio"), client.patch(path, json={}), client.delete(path)):
        refused(answer, 404, "not_found")
    assert client.get("/studio/takes").json()["takes"] == []
    assert client.post(f"{path}/restore").json() == record
    assert client.get(f"{path}/audio", params={"format": "pcm"}).content == SOUND
    refused(client.post(f"{path}/restore"), 404, "not_found")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"mode": "loud"}, "mode"),
    ({"room": "../x"}, "room"),
    ({"seed": -1}, "seed"),
    ({"seed": "7"}, "seed"),
    ({"text": 5}, "text"),
    ({"text": "a\x00b"}, "text"),
    ({"config": {"ref_audio": "data:"}}, "config"),
    ({"sha256": "0" * 64}, "sha256"),
    ({"samples": 5}, "samples"),
    ({"id": "mine"}, "id"),
    ({"name": "x" * 121}, "name"),
]


@pytest.mark.parametrize(("fields", "param"), BAD, ids=str)
def test_invalid_take_is_refused_in_one_sentence(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    sentence = refused(post(client, **fields), 400, "invalid_config", param)
    assert sentence.startswith(param)
    assert client.get("/studio/takes").json()["takes"] == []


def test_invalid_form_for_a_new_take_is_refused(client: httpx.Client) -> None:
    refused(client.post("/studio/takes", json=create_take()), 400, "invalid_config", "body")
    refused(client.post("/studio/takes", files={"pcm": SOUND}), 400, "invalid_config", "take")
    take = {"take": json.dumps(create_take())}
    refused(client.post("/studio/takes", data=take, files={"reference": b"x"}), 400, "invalid_config", "pcm")
    refused(client.post("/studio/takes", data=take, files={"other": b"x"}), 400, "invalid_config", "other")
    refused(client.post("/studio/takes", data={"take": "{"}, files={"pcm": SOUND}), 400, "invalid_json")
    refused(client.post("/studio/takes", data={"take": '{"seed": NaN}'}, files={"pcm": SOUND}), 400, "invalid_json")
    refused(post(client, b""), 400, "invalid_config", "pcm")
    refused(post(client, b"odd"), 400, "invalid_config", "pcm")
    headers = {"content-type": "multipart/form-data; boundary=x"}
    refused(client.post("/studio/takes", content=b"--y", headers=headers), 400, "invalid_config", "body")


def test_take_size_is_limited(tmp_path: Path) -> None:
    with serving(tmp_path / "data", max_take_bytes=48_000) as address, visitor_client(address) as client:
        save(client, bytes(48_000))
        sentence = refused(post(client, bytes(48_002)), 413, "message_too_large")
        assert "48002 bytes; the limit is 48000" in sentence
        refused(post(client, bytes(20_000_000)), 413, "message_too_large", "pcm")


def test_unknown_format_error_lists_the_available_formats(client: httpx.Client) -> None:
    answer = client.get(f"/studio/takes/{save(client)['id']}/audio", params={"format": "aac"})
    assert "wav, mp3, flac, opus, pcm" in refused(answer, 400, "unsupported_format", "format")


def test_foreign_origin_may_not_change_takes(client: httpx.Client) -> None:
    record = save(client)
    answer = client.delete(f"/studio/takes/{record['id']}", headers={"origin": "http://evil.example"})
    refused(answer, 403, "origin_refused")
    assert client.get(f"/studio/takes/{record['id']}").status_code == 200


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pcm=st.binary(min_size=2, max_size=20_000).map(lambda data: data[: len(data) // 2 * 2]),
    text=st.text(max_size=200).filter(lambda text: "\x00" not in text),
    config=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20) | st.booleans(), max_size=4),
)
def test_stored_take_returns_any_audio_and_text_unchanged(
    client: httpx.Client, pcm: bytes, text: str, config: dict[str, Any]
) -> None:
    record = save(client, pcm, text=text, config=config)
    assert (record["text"], record["config"]) == (text, config)
    path = f"/studio/takes/{record['id']}"
    assert client.get(path).json() == record
    assert client.get(f"{path}/audio", params={"format": "pcm"}).content == pcm
    assert client.get(f"{path}/audio").content.endswith(b"data" + len(pcm).to_bytes(4, "little") + pcm)
    assert client.get(f"{path}/audio", params={"format": "mp3"}).status_code == 200
