"""Tests for exports with subtitle times: starts, shortened speech and reported overruns."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from tests.support.keeping import pcm_of, samples, save

RATE = 24_000


def exported(client: httpx.Client, clips: list[dict[str, Any]], **wanted: Any) -> httpx.Response:
    return client.post("/studio/exports", json={"clips": clips, "format": "pcm", **wanted})


def first_sound(values: Any) -> float:
    return float(np.argmax(np.abs(values.astype(int)) > 300)) / RATE


def test_lines_begin_at_their_times_and_the_file_has_the_given_length(client: httpx.Client) -> None:
    take = save(client, pcm_of(1.0, 1))["id"]
    clips = [
        {"take": take, "line": 1, "starts_s": 0.5},
        {"silence_s": 5.0, "line": 1},  # In a timed export, a pause after a line has no effect.
        {"silence_s": 3.0},
        {"take": take, "line": 2, "starts_s": 2.0},
        {"take": take, "line": 3, "starts_s": 5.25},
    ]
    answer = exported(client, clips, length_s=8.0)
    values = samples(answer.content)
    assert len(values) == 8 * RATE
    assert "x-notes" not in answer.headers
    own = samples(pcm_of(1.0, 1))
    for start in (0.5, 2.0, 5.25):
        at = round(start * RATE)
        assert np.array_equal(values[at : at + RATE], own)
    assert not values[: RATE // 2].any()
    srt = exported(client, clips, shape="srt").text
    assert re.findall(r"(\S+) -->", srt) == ["00:00:00,500", "00:00:02,000", "00:00:05,250"]


def test_overlong_line_is_spoken_faster_before_the_next_line_is_delayed(client: httpx.Client) -> None:
    take = save(client, pcm_of(2.0, 1))["id"]
    fits = [{"take": take, "line": 1, "starts_s": 0.0}, {"take": take, "line": 2, "starts_s": 1.8}]
    answer = exported(client, fits)
    assert "x-notes" not in answer.headers
    assert abs(len(samples(answer.content)) - 3.8 * RATE) < 10
    late = [{"take": take, "line": 1, "starts_s": 0.0}, {"take": take, "line": 2, "starts_s": 1.0}]
    answer = exported(client, late, loudness_lufs=-20)
    assert answer.headers["x-notes"] == "1 lines begin late, because the ones before are too long: 2 by 0.7 s."
    assert abs(len(samples(answer.content)) - (2 / 1.15 + 2) * RATE) < 10


def test_lines_of_one_cue_follow_each_other_and_are_not_late(client: httpx.Client) -> None:
    take = save(client, pcm_of(1.0, 1))["id"]
    starts = (0.0, 0.0, 3.0)  # The first cue has a question and its answer.
    answer = exported(client, [{"take": take, "line": at + 1, "starts_s": start} for at, start in enumerate(starts)])
    assert "x-notes" not in answer.headers
    own = samples(pcm_of(1.0, 1))
    assert np.array_equal(samples(answer.content), np.concatenate([own, own, np.zeros(RATE, np.int16), own]))


def test_a_last_line_that_exceeds_the_given_length_is_reported(client: httpx.Client) -> None:
    take = save(client, pcm_of(2.0, 1))["id"]
    clips = [{"take": take, "line": 1, "starts_s": 1.0}]
    answer = exported(client, clips, length_s=2.0)
    assert answer.headers["x-notes"] == "The audio ends 0.7 s after the given length."
    assert "x-notes" not in exported(client, clips, length_s=2.8).headers


@pytest.mark.parametrize("starts", [(1.0, None), (2.0, 1.0)])
def test_timed_lines_need_start_times_that_never_decrease(
    client: httpx.Client, starts: tuple[float | None, ...]
) -> None:
    take = save(client, pcm_of(0.5, 1))["id"]
    clips = [{"take": take, "line": line, "starts_s": start} for line, start in enumerate(starts)]
    assert (exported(client, clips).status_code, exported(client, clips).json()["error"]["param"]) == (400, "clips")


# Number of cues, and seconds of silence before and after the speech of a take, as in real takes.
CUES, BEFORE_S, AFTER_S = 1300, 0.25, 0.3


def film() -> tuple[list[tuple[float, float]], list[float]]:
    """Return start and end of each subtitle of a film, and the duration of its speech.

    Some speech is longer than its subtitle.
    """
    rng = np.random.default_rng(1)
    at, times = 30.0, []
    for _ in range(CUES):
        at += float(rng.choice([0.04, 0.2, 1.0, 8.0], p=[0.4, 0.3, 0.2, 0.1]))
        lasts = float(rng.uniform(1.0, 6.0))
        times.append((round(at, 3), round(at + lasts, 3)))
        at += lasts
    return times, [float((end - start) * rng.uniform(0.5, 1.2)) for start, end in times]


def spoken_take(seconds: float) -> bytes:
    tone = 8000 * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)
    edges = [np.zeros(round(quiet * RATE)) for quiet in (BEFORE_S, AFTER_S)]
    return np.concatenate([edges[0], tone, edges[1]]).astype("<i2").tobytes()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg")
def test_each_of_1300_cues_is_within_100_ms_or_reported(client: httpx.Client, tmp_path: Path) -> None:
    times, lengths = film()
    client.timeout = httpx.Timeout(300)
    known = [f"{length:.1f}" for length in lengths]
    takes = {length: save(client, spoken_take(float(length)))["id"] for length in set(known)}
    clips = [
        {"take": takes[length], "line": line, "starts_s": start}
        for line, ((start, _), length) in enumerate(zip(times, known, strict=True), 1)
    ]
    total = times[-1][1] + 60
    answer = exported(client, clips, length_s=total, format="wav")
    late, cues = re.fullmatch(r"(\d+) lines begin late, [^:]*: (.*)\.", answer.headers["x-notes"]).groups()  # type: ignore[union-attr]
    named = {int(cue.split(" by ")[0]) for cue in cues.split(", ")}
    assert 0 < len(named) == int(late) < CUES / 20
    path = tmp_path / "film.wav"
    path.write_bytes(answer.content)
    assert soundfile.info(path).frames == round(total * RATE)
    detect = ["ffmpeg", "-hide_banner", "-i", str(path), "-af", "silencedetect=noise=-40dB:d=0.02", "-f", "null", "-"]
    log_text = subprocess.run(detect, capture_output=True, text=True, check=True).stderr
    begins = np.array([float(at) for at in re.findall(r"silence_end: ([\d.]+)", log_text)])
    assert begins.size >= CUES, "each cue begins after a silence"
    away = {line: float(np.abs(begins - start).min()) for line, (start, _) in enumerate(times, 1)}
    assert {line for line, seconds in away.items() if seconds > 0.1} <= named


def test_timed_line_starts_with_speech_without_leading_silence(client: httpx.Client) -> None:
    take = save(client, spoken_take(1.0))["id"]
    values = samples(exported(client, [{"take": take, "line": 1, "starts_s": 2.0}]).content)
    assert first_sound(values) == pytest.approx(2.02, abs=0.005)
    assert len(values) == pytest.approx(3.04 * RATE, abs=0.01 * RATE)
