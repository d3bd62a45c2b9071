"""Lines at the times of a film: exact starts, speech that is shortened to fit, and what does not fit is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from studio.store.programme import Clip, fitted
from tests.support.keeping import keep, kept, pcm_of, samples, visitor

RATE = 24_000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with kept(tmp_path / "data") as address, visitor(address) as client:
        yield client


def exported(client: httpx.Client, clips: list[dict[str, Any]], **wanted: Any) -> httpx.Response:
    return client.post("/studio/exports", json={"clips": clips, "format": "pcm", **wanted})


def first_sound(values: Any) -> float:
    return float(np.argmax(np.abs(values.astype(int)) > 300)) / RATE


def test_lines_begin_at_their_times_and_the_file_has_the_given_length(client: httpx.Client) -> None:
    take = keep(client, pcm_of(1.0, 1))["id"]
    clips = [
        {"take": take, "line": 1, "starts_s": 0.5},
        {"silence_s": 5.0, "line": 1},  # Pauses after a line have no effect.
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


def test_a_line_that_is_too_long_is_spoken_faster_and_then_the_next_is_late(client: httpx.Client) -> None:
    take = keep(client, pcm_of(2.0, 1))["id"]
    fits = [{"take": take, "line": 1, "starts_s": 0.0}, {"take": take, "line": 2, "starts_s": 1.8}]
    answer = exported(client, fits)
    assert "x-notes" not in answer.headers
    assert abs(len(samples(answer.content)) - 3.8 * RATE) < 10
    late = [{"take": take, "line": 1, "starts_s": 0.0}, {"take": take, "line": 2, "starts_s": 1.0}]
    answer = exported(client, late, loudness_lufs=-20)
    assert answer.headers["x-notes"] == "1 lines begin late, because the ones before are too long: 2 by 0.7 s."
    assert abs(len(samples(answer.content)) - (2 / 1.15 + 2) * RATE) < 10


@pytest.mark.parametrize("starts", [(1.0, None), (2.0, 1.0)])
def test_every_line_has_a_time_and_they_do_not_decrease(client: httpx.Client, starts: tuple[float | None, ...]) -> None:
    take = keep(client, pcm_of(0.5, 1))["id"]
    clips = [{"take": take, "line": line, "starts_s": start} for line, start in enumerate(starts)]
    assert (exported(client, clips).status_code, exported(client, clips).json()["error"]["param"]) == (400, "clips")


def test_a_film_of_1300_cues_has_every_cue_within_100_ms_or_names_it() -> None:
    rng = np.random.default_rng(1)
    starts = np.cumsum(rng.uniform(1.0, 6.0, 1300))
    lengths = rng.uniform(0.8, 4.0, 1300)
    clips = [
        Clip(round(length * RATE), {"id": str(line)}, line, round(start * RATE))
        for line, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    total = round((starts[-1] + 10) * RATE)
    placed, late = fitted(clips, total)
    assert sum(clip.samples for clip in placed) == total
    at = 0
    named = {each.line for each in late}
    for clip in placed:
        if clip.line is not None and clip.start is not None:
            assert clip.line in named or abs(at - clip.start) <= 0.1 * RATE
            assert clip.tempo <= 1.15
        at += clip.samples
    assert 0 < len(named) < 650
