"""Tests for exports over HTTP: length, loudness, file names, subtitles and metadata."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile

from runtime.shared.audio.encoding import AI_COMMENT, read_tags
from runtime.shared.audio.loudness import measure_loudness, true_peak
from studio.store.exports import MAX_CLIPS
from tests.support.keeping import pcm_of, samples, save, serving, visitor_client
from tests.unit.studio.test_takes import refused


def ask(client: httpx.Client, clips: list[dict[str, Any]], **wanted: Any) -> httpx.Response:
    return client.post("/studio/exports", json={"clips": clips, **wanted})


def got(client: httpx.Client, clips: list[dict[str, Any]], **wanted: Any) -> bytes:
    answer = ask(client, clips, **wanted)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-length"] == str(len(answer.content))
    return answer.content


def louder(pcm: bytes, factor: float) -> bytes:
    return np.round(samples(pcm) * factor).astype("<i2").tobytes()


def dbtp(values: Any) -> float:
    return float(20 * np.log10(true_peak(values)))


def test_export_without_loudness_joins_samples_bit_for_bit(client: httpx.Client) -> None:
    first, two = pcm_of(1.0, 1), pcm_of(0.7, 2)
    clips = [{"take": save(client, first)["id"]}, {"silence_s": 0.5}, {"take": save(client, two)["id"]}]
    data = got(client, clips, format="pcm")
    assert data == first + bytes(24_000) + two
    wav = got(client, clips, name="Two lines")
    values, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    assert (rate, values.tobytes()) == (24_000, data)
    with soundfile.SoundFile(io.BytesIO(wav)) as file:
        assert file.title == "Two lines"
        assert file.comment.startswith(AI_COMMENT)
        assert f"sha256: {hashlib.sha256(data).hexdigest()}" in file.comment


@pytest.mark.parametrize("target", [-30.0, -23.0, -16.0, -14.0])
def test_export_with_loudness_reaches_the_target_below_the_ceiling(client: httpx.Client, target: float) -> None:
    clips = [{"take": save(client, pcm_of(3.0, seed))["id"]} for seed in (1, 2)]
    values = samples(got(client, clips, format="pcm", loudness_lufs=target))
    assert len(values) == 6 * 24_000
    loudness = measure_loudness(values)
    assert loudness is not None
    assert abs(loudness - target) < 0.5
    assert dbtp(values) <= -1.0


def test_export_balances_voices_and_keeps_whispers_quiet(client: httpx.Client) -> None:
    sound = pcm_of(3.0)
    said = [
        save(client, louder(sound, 0.5), voice="anna"),
        save(client, louder(sound, 0.05), voice="anna"),
        save(client, louder(sound, 0.1), voice="ben"),
    ]
    values = samples(got(client, [{"take": message["id"]} for message in said], format="pcm", loudness_lufs=-20))
    anna, whisper, ben = (measure_loudness(part) for part in np.split(values, 3))
    assert anna is not None
    assert whisper is not None
    assert ben is not None
    assert abs(anna - ben) < 1.0
    assert abs(anna - whisper - 20) < 1.5  # The export keeps the difference in loudness between the two takes.


def test_export_does_not_amplify_silence(client: httpx.Client) -> None:
    quiet = np.zeros(24_000, "<i2").tobytes()
    assert got(client, [{"take": save(client, quiet)["id"]}], format="pcm", loudness_lufs=-16) == quiet


def test_export_as_files_has_one_file_per_line_in_order(client: httpx.Client) -> None:
    first, two, three = pcm_of(0.5, 1), pcm_of(0.6, 2), pcm_of(0.7, 3)
    ids = [
        save(client, pcm, text=text)["id"]
        for pcm, text in ((first, "First: a/b"), (two, "goes on."), (three, "Zweite Zeile"))
    ]
    clips = [
        {"take": ids[0], "line": 1},
        {"silence_s": 0.25, "line": 1},
        {"take": ids[1], "line": 1},
        {"silence_s": 0.4},
        {"take": ids[2], "line": 2},
    ]
    with zipfile.ZipFile(io.BytesIO(got(client, clips, shape="files", format="flac", name="Play"))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["lines/001 First a b goes on.flac", "lines/002 Zweite Zeile.flac"]
        values, _ = soundfile.read(io.BytesIO(archive.read(archive.namelist()[0])), dtype="int16")
        assert values.tobytes() == first + bytes(12_000) + two
        tags = read_tags(io.BytesIO(archive.read(archive.namelist()[1])))
        assert (tags["title"], tags["seed"]) == ("Zweite Zeile", "7")


def test_bit_rate_of_an_export_can_be_chosen(client: httpx.Client) -> None:
    clips = [{"take": save(client, pcm_of(1.0, 1))["id"]}]
    for form, rate in (("mp3", 128_000), ("m4b", 96_000)):
        with av.open(io.BytesIO(got(client, clips, format=form, bit_rate=rate))) as container:
            assert container.streams.audio[0].bit_rate == pytest.approx(rate, rel=0.2)
    assert "only mp3" in refused(ask(client, clips, format="flac", bit_rate=64_000), 400, "invalid_config", "bit_rate")


def test_times_of_exported_subtitles_match_the_audio(client: httpx.Client) -> None:
    ids = [save(client, pcm_of(1.25, 1), text="One\n--> two")["id"], save(client, pcm_of(0.5, 2), text="Drei")["id"]]
    clips = [{"take": ids[0]}, {"silence_s": 0.5}, {"take": ids[1], "line": 5}, {"take": ids[1], "line": 5}]
    answer = ask(client, clips, shape="srt", name="Sub")
    assert answer.headers["content-disposition"].startswith('attachment; filename="Sub.srt"')
    assert answer.text == (
        "1\n00:00:00,000 --> 00:00:01,250\nOne -> two\n\n2\n00:00:01,750 --> 00:00:02,750\nDrei Drei\n"
    )


def test_subtitles_of_a_long_line_are_short_and_name_each_speaker(client: httpx.Client) -> None:
    question = "I could not see my own boots. Then I heard the water, a thin line in the moss, no wider than my hand."
    takes = [save(client, pcm_of(seconds, 1), text=text)["id"] for seconds, text in ((10.0, question), (1.0, "Yes."))]
    clips = [
        {"take": take, "line": at, "speaker": name} for at, (take, name) in enumerate(zip(takes, "AB", strict=True))
    ]
    first, second, third = ask(client, clips, shape="srt").text.strip().split("\n\n")
    assert first.splitlines()[2] == "A: I could not see my own boots."
    assert second.splitlines()[2] == "Then I heard the water, a thin line in the moss, no wider than my hand."
    assert third == "3\n00:00:10,000 --> 00:00:11,000\nB: Yes."
    times = [row.splitlines()[1].split(" --> ") for row in (first, second)]
    assert times[0][0] == "00:00:00,000"
    assert "00:00:02,000" < times[0][1] == times[1][0] < "00:00:04,000"
    assert times[1][1] == "00:00:10,000"
    alone = ask(client, clips[:1], shape="srt").text
    assert "A:" not in alone


def test_subtitles_contain_no_inline_tags(client: httpx.Client) -> None:
    text = "[sad] It [1] rains. [pause 1s] Still."
    takes = [
        save(client, pcm_of(1.0, 1), text=text, config={**config, "language": "auto"})
        for config in ({"tags": True}, {})
    ]
    srt = ask(client, [{"take": take["id"], "line": at} for at, take in enumerate(takes)], shape="srt").text
    assert [row for row in srt.splitlines() if "rains" in row] == ["It [1] rains. Still.", text]


def test_full_export_contains_the_joined_audio_subtitles_and_lines(client: httpx.Client) -> None:
    clips = [{"take": save(client, pcm_of(1.0, seed), text=f"Line {seed}")["id"], "line": seed} for seed in (1, 2)]
    with zipfile.ZipFile(io.BytesIO(got(client, clips, shape="all", loudness_lufs=-18, name="Ünï"))) as archive:
        assert archive.namelist() == ["Ünï.wav", "Ünï.srt", "lines/001 Line 1.wav", "lines/002 Line 2.wav"]
        assert all(entry.date_time[0] >= 2024 for entry in archive.infolist()), "not 1980"
        whole, *lines = (
            soundfile.read(io.BytesIO(archive.read(name)), dtype="int16")[0]
            for name in archive.namelist()
            if name.endswith("wav")
        )
        assert np.array_equal(np.concatenate(lines), whole)


BAD: list[tuple[dict[str, Any], int, str, str | None]] = [
    ({"clips": []}, 400, "invalid_config", "clips"),
    ({"clips": [{"silence_s": 1.0}]}, 400, "invalid_config", "clips"),
    ({"clips": [{}]}, 400, "invalid_config", "clips.0"),
    ({"clips": [{"take": "x", "silence_s": 1.0}]}, 400, "invalid_config", "clips.0"),
    ({"clips": [{"silence_s": 61.0}]}, 400, "invalid_config", "clips.0.silence_s"),
    ({"clips": [{"silence_s": -1.0}]}, 400, "invalid_config", "clips.0.silence_s"),
    ({"clips": [{"take": "0" * 32}]}, 404, "not_found", None),
    ({"clips": [{"take": "x"}], "format": "exe"}, 400, "unsupported_format", "format"),
    ({"clips": [{"take": "x"}], "shape": "ball"}, 400, "invalid_config", "shape"),
    ({"clips": [{"take": "x"}], "loudness_lufs": 0}, 400, "invalid_config", "loudness_lufs"),
    ({"clips": [{"take": "x"}], "other": 0}, 400, "invalid_config", "other"),
    ({"clips": [{"take": "x"}], "shape": "chapters"}, 400, "invalid_config", "chapters"),
    ({"clips": [{"take": "x"}], "chapters": [{"first_clip": 1}]}, 400, "invalid_config", "chapters"),
    ({"clips": [{"take": "x"}] * 2, "chapters": [{"first_clip": 0}] * 2}, 400, "invalid_config", "chapters"),
    ({"clips": [{"take": "x"}], "chapters": [{"title": "x"}]}, 400, "invalid_config", "chapters.0.first_clip"),
]


@pytest.mark.parametrize(("body", "status", "code", "param"), BAD)
def test_invalid_export_is_refused(
    client: httpx.Client, body: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    refused(client.post("/studio/exports", json=body), status, code, param)


def test_chapter_files_are_cut_from_one_continuous_audio(client: httpx.Client) -> None:
    sounds = [pcm_of(1.0, seed) for seed in (1, 2, 3)]
    takes = [save(client, pcm, text=f"Line {number}")["id"] for number, pcm in enumerate(sounds, 1)]
    clips = [{"take": takes[0]}, {"silence_s": 0.5}, {"take": takes[1]}, {"take": takes[2]}]
    chapters = [{"title": "Out/side", "first_clip": 2}, {"first_clip": 3}]
    data = got(client, clips, shape="chapters", format="pcm", name="Book", chapters=chapters)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == [f"chapters/{name}.pcm" for name in ("01 Book", "02 Out side", "03 Book")]
        assert [archive.read(name) for name in archive.namelist()] == [sounds[0] + bytes(24_000), *sounds[1:]]
    data = got(client, clips, shape="all", format="flac", chapters=chapters[:1], loudness_lufs=-20)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        whole, *chapter_files = (
            archive.read(name) for name in archive.namelist() if name[0] in "sc" and "flac" in name
        )
        values = [soundfile.read(io.BytesIO(data), dtype="int16")[0] for data in (whole, *chapter_files)]
        assert np.array_equal(values[0], np.concatenate(values[1:]))
        assert read_tags(io.BytesIO(chapter_files[1]))["title"] == "Out/side"


def test_export_duration_is_limited_for_visitors_only(client: httpx.Client, tmp_path: Path) -> None:
    clips = [{"take": save(client, pcm_of(0.5))["id"]}, *[{"silence_s": 60}] * 2]
    assert len(got(client, clips, format="pcm")) == 48_000 * 120.5
    assert client.get("/studio/me").json()["features"]["export"] == {"max_s": None, "max_clips": MAX_CLIPS}
    with serving(tmp_path / "other", max_export_s=60.0, visitors="each") as address, visitor_client(address) as client:
        assert client.get("/studio/me").json()["features"]["export"]["max_s"] == 60
        clips = [{"take": save(client, pcm_of(0.5))["id"]}, {"silence_s": 60}]
        assert "the limit is 60 s" in refused(ask(client, clips), 400, "invalid_config", "clips")


def test_export_is_refused_if_disk_space_is_low(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = [{"take": save(client, pcm_of(1.0))["id"]}]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=90_000))
    assert "which has 0 MB left" in refused(ask(client, clips), 507, "store_full")
    assert ask(client, clips, shape="srt").status_code == 200


def test_export_leaves_no_temporary_file(client: httpx.Client, tmp_path: Path) -> None:
    clips = [{"take": save(client, pcm_of(1.0))["id"]}, *[{"silence_s": 60}] * 8]
    before = sorted(tmp_path.rglob("*"))
    got(client, clips, loudness_lufs=-20, shape="all")
    assert sorted(tmp_path.rglob("*")) == before
