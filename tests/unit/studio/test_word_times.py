"""Tests for a take's word times, which are measured by an aligner or estimated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.text.word_times import TimedWords, divide_time_by_length, spans_of
from studio.aligning import plugin
from studio.aligning.fitting import MisfitError, align_to_text, map_to_displayed_words
from studio.aligning.service import MAX_WAITING, AlignmentService
from studio.routes.word_times import webvtt
from tests.support.keeping import pcm_of, save, serving, visitor_client
from tests.support.spoken import generate_each
from tests.support.timeouts import TEST_TIMEOUT_S
from tests.unit.studio.test_takes import refused

pytest.importorskip("pocketsphinx", reason="pocketsphinx has no wheel for Python 3.14")
from studio.aligning.sphinx import align

Install = Callable[..., None]
Known = tuple[NDArray[np.float32], list[tuple[float, float]]]

PHRASES = ("The kettle is on.", "Nobody had expected it so soon.", "Good morning!")
TEXT = " ".join(PHRASES)
SILENCES = (0.2, 1.4, 0.3, 0.9)  # Durations in seconds of the silence before, between and after the phrases.


def trimmed(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the samples without silence at the start and the end."""
    loud = np.flatnonzero(np.abs(samples) > 0.02)
    return samples[loud[0] : loud[-1] + 1]


@pytest.fixture(scope="module")
def known() -> Known:
    """Return audio with phrases between silences, and the times of the phrases.

    Each phrase has a start time and an end time in seconds.
    """
    sound, truth = np.zeros(0, np.float32), []
    for said, silence_s in zip(map(trimmed, generate_each(*PHRASES, seed=2)), SILENCES, strict=False):
        start = len(sound) / SAMPLE_RATE + silence_s
        truth.append((start, start + len(said) / SAMPLE_RATE))
        sound = np.concatenate([sound, np.zeros(round(silence_s * SAMPLE_RATE), np.float32), said])
    return np.concatenate([sound, np.zeros(round(SILENCES[-1] * SAMPLE_RATE), np.float32)]), truth


def phrases_of(words: TimedWords) -> list[tuple[float, float]]:
    """Return the start and end time of each phrase, from the times of its words."""
    found, at = [], 0
    for phrase in PHRASES:
        last = at + len(phrase.split()) - 1
        found.append((words.start[at], words.end[last]))
        at = last + 1
    return found


def worst(words: TimedWords, truth: list[tuple[float, float]]) -> float:
    return float(np.abs(np.array(phrases_of(words)) - np.array(truth)).max())


def test_built_in_aligner_is_more_accurate_than_the_estimate(
    known: Known,
) -> None:
    sound, truth = known
    seconds = len(sound) / SAMPLE_RATE
    words = align_to_text(align(sound, SAMPLE_RATE, TEXT, "en") or [], TEXT, seconds)
    assert words.words == TEXT.split()
    times = [time for pair in zip(words.start, words.end, strict=True) for time in pair]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= seconds
    assert worst(words, truth) < 0.1
    assert worst(divide_time_by_length(spans_of(TEXT), 0.0, seconds), truth) > 0.5


def test_aligner_handles_unknown_words_and_skips_other_languages(
    known: Known,
) -> None:
    sound, truth = known
    text = "The ketl is on. Nobody had — expected it so-soon. (Good moarning!)"
    words = align_to_text(align(sound, SAMPLE_RATE, text, None) or [], text, len(sound) / SAMPLE_RATE)
    assert words.spans[-2:] == ["(Good ", "moarning!)"]
    assert np.abs(np.array([words.start[0], words.end[-1]]) - [truth[0][0], truth[-1][1]]).max() < 0.1
    assert align(sound, SAMPLE_RATE, TEXT, "de") is None
    assert align(sound, SAMPLE_RATE, "Der Kessel steht auf dem Herd, und niemand kommt.", None) is None
    assert align(sound, SAMPLE_RATE, "你好", "en") is None


def test_recording_without_most_of_the_text_is_not_aligned(known: Known) -> None:
    sound, _ = known
    assert align(sound[: SAMPLE_RATE // 2], SAMPLE_RATE, TEXT, "en") is None


# --- Tests of the validation of an aligner's result.


def test_aligner_words_may_be_split_differently_and_lack_punctuation() -> None:
    words = align_to_text(
        [("good", 0.1, 0.2), ("MOR", 0.2, 0.3), ("ning", 0.3, 0.5), ("you", 0.6, 1.04)], "Good mor-ning — (you)!", 1.0
    )
    assert words == TimedWords(["Good ", "mor", "-ning — ", "(you)!"], [0.1, 0.2, 0.3, 0.6], [0.2, 0.3, 0.5, 1.0])


@pytest.mark.parametrize(
    "placed",
    [
        [("Good", 0.1, 0.2)],
        [("Good", 0.1, 0.2), ("evening", 0.2, 0.3)],
        [("Good", 0.1, 0.2), ("day", 0.2, 0.3), ("sir", 0.3, 0.4)],
        [("Good", 0.3, 0.2), ("day", 0.4, 0.5)],
        [("Good", 0.3, 0.4), ("day", 0.1, 0.2)],
        [("Good", -0.1, 0.2), ("day", 0.2, 0.3)],
        [("Good", 0.1, 0.2), ("day", 0.2, 1.2)],
        [("Good", float("nan"), 0.2), ("day", 0.2, 0.3)],
        [("Good", 0.1, float("inf")), ("day", 0.2, 0.3)],
        [("", 0.1, 0.2), ("Good", 0.1, 0.2), ("day", 0.2, 0.3)],
    ],
)
def test_impossible_alignment_is_rejected(placed: list[Any]) -> None:
    with pytest.raises(MisfitError) as failure:
        align_to_text(placed, "Good day.", 1.0)
    assert "ood" not in str(failure.value)


def test_respelled_words_are_displayed_as_written() -> None:
    heard = TimedWords(["Ask ", "miss ", "Win ", "to ", "come. "], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    assert map_to_displayed_words("Ask Nguyen to come.", heard) == TimedWords(
        ["Ask ", "Nguyen ", "to ", "come."], [0, 1, 3, 4], [1, 3, 4, 5]
    )
    more = map_to_displayed_words("Ask Ms Nguyen in.", TimedWords(["Ask ", "Win ", "in."], [0, 1, 3], [1, 3, 4]))
    assert more.words == ["Ask", "Ms", "Nguyen", "in."]
    assert (more.start[1], more.end[2], more.start[3]) == (1, 3, 3)
    assert 1 < more.end[1] == more.start[2] < 3


def test_captions_are_sentences_of_at_most_two_lines() -> None:
    text = 'He said "Stop." Then a < b & c. ' + "word " * 30
    spans = spans_of(text)
    captions = webvtt(divide_time_by_length(spans, 3599.0, 3699.0), "Times are estimated.")
    head, note, first, *rest = captions.strip().split("\n\n")
    assert (head, note) == ("WEBVTT", "NOTE Times are estimated.")
    assert first.startswith("00:59:59.000 --> 01:00:0")
    assert first.split("\n")[1].startswith("He <01:00:0")
    assert first.endswith('"Stop."')
    assert rest[0].endswith("c.")
    assert "&lt; <" in rest[0]
    assert "&amp; <" in rest[0]
    assert len(rest) == 3


# --- Tests of the studio's route for word times.

MODULE = """
import os, time
from studio.aligning.sphinx import align as known

def right(samples, rate, text, language):
    print("this is no answer")
    words = text.split()
    each = len(samples) / rate / len(words)
    return [(word, at * each, (at + 1) * each) for at, word in enumerate(words)]

def unknown(*_):
    return None

def wrong(samples, rate, text, language):
    return [("other", 0.0, 0.1)]

def raising(samples, rate, text, language):
    raise RuntimeError(text)

def crashing(*_):
    os._exit(9)

def hanging(*_):
    time.sleep(600)
"""


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes functions of a module the only installed aligners."""

    def install(*functions: str) -> None:
        about = tmp_path / "packages" / "other_aligner-1.dist-info"
        about.mkdir(parents=True)
        lines = [f"{number}-{function} = other_aligner:{function}" for number, function in enumerate(functions)]
        (about / "entry_points.txt").write_text("\n".join([f"[{plugin.ENTRY_POINT_GROUP}]", *lines]))
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-aligner\nVersion: 1\n")
        (about.parent / "other_aligner.py").write_text(MODULE)
        monkeypatch.syspath_prepend(about.parent)
        monkeypatch.setenv("PYTHONPATH", str(about.parent), prepend=":")

    return install


def words_of(client: httpx.Client, take: dict[str, Any]) -> Any:
    answer = client.get(f"/studio/takes/{take['id']}/words")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_plugin_aligner_provides_word_times(only: Install, tmp_path: Path) -> None:
    only("unknown", "right")
    with serving(tmp_path / "other") as address, visitor_client(address) as client:
        take = save(client, pcm_of(2.0), text="[sad] Ask Nguyen.", spoken="[sad] Ask Win.", config={"tags": True})
        found = words_of(client, take)
        assert (found["estimated"], found["by"]) == (False, "1-right")
        assert found["words"] == [
            {"word": "Ask", "start_s": 0.0, "end_s": 1.0},
            {"word": "Nguyen.", "start_s": 1.0, "end_s": 2.0},
        ]
        answer = client.get(f"/studio/takes/{take['id']}/words", params={"format": "vtt"})
        assert answer.headers["content-type"].startswith("text/vtt")
        assert answer.text == (
            "WEBVTT\n\nNOTE Times by 1-right.\n\n00:00:00.000 --> 00:00:02.000\nAsk <00:00:01.000>Nguyen.\n"
        )


def test_without_an_aligner_times_are_estimated_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.plugins.version", absent)
    with serving(tmp_path / "data") as address, visitor_client(address) as client:
        take = save(client, pcm_of(2.0), text="Good  morning,\neverybody.")
        found = words_of(client, take)
        assert (found["estimated"], found["by"]) == (True, None)
        assert [word["word"] for word in found["words"]] == ["Good", "morning,", "everybody."]
        assert (found["words"][0]["start_s"], found["words"][-1]["end_s"]) == (0.0, 2.0)
        path = f"/studio/takes/{take['id']}/words"
        assert "NOTE Times are estimated.\n" in client.get(path, params={"format": "vtt"}).text
        refused(client.get(path, params={"format": "srt"}), 400, "unsupported_format", "format")
        refused(client.get("/studio/takes/nobodys/words"), 404, "not_found")
        assert words_of(client, save(client, pcm_of(0.1), text="…"))["estimated"]


def absent(name: str) -> str:
    raise PackageNotFoundError(name)


def asked(timeout_s: float = 60.0, times: int = 1) -> list[Any]:
    """Request the word times of one recording from all aligners, and return the results."""

    async def ask() -> list[Any]:
        aligning = AlignmentService(timeout_s)
        try:
            sound = np.zeros(SAMPLE_RATE, np.float32)
            return [await aligning.align(sound, "Secret words.", "en") for _ in range(times)]
        finally:
            aligning.close()

    return asyncio.run(ask())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "studio.aligning.service"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("wrong", "0-wrong: its words differ from the text"),
        pytest.param("raising", "0-raising: RuntimeError", marks=pytest.mark.slow),
        pytest.param("missing", "0-missing: AttributeError", marks=pytest.mark.slow),
    ],
)
def test_failing_plugin_is_logged_without_text_and_the_next_plugin_is_tried(
    only: Install, caplog: pytest.LogCaptureFixture, function: str, reason: str
) -> None:
    only(function, "right")
    ((words, by),) = asked()
    assert (words.words, by) == (["Secret", "words."], "1-right")
    assert warnings(caplog) == [f"an aligner could not align the words of a take: {reason}"]


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "reason", "timeout_s"),
    [
        ("crashing", "its process ended", TEST_TIMEOUT_S),
        ("hanging", "it took too long", 5.0),
    ],  # The hanging aligner would sleep for 600 s.
)
def test_aligner_crash_or_hang_affects_no_other_request(
    only: Install, caplog: pytest.LogCaptureFixture, function: str, reason: str, timeout_s: float
) -> None:
    only(function)
    assert asked(timeout_s=timeout_s, times=2) == [None, None]
    assert [line.rpartition(": ")[2] for line in warnings(caplog)] == [reason] * 2


async def test_alignment_queue_is_bounded(only: Install) -> None:
    only("right")

    async def ask() -> list[Any]:
        aligning = AlignmentService()
        try:
            sound = np.zeros(SAMPLE_RATE, np.float32)
            return await asyncio.gather(*(aligning.align(sound, "Good day.", None) for _ in range(MAX_WAITING + 2)))
        finally:
            aligning.close()

    assert [found is None for found in await ask()] == [False] * MAX_WAITING + [True] * 2
