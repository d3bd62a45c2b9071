"""Tests for the runaway detector: early detection, and no false alarms on speech."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.engine.audio.guards import REPEATED_FRAMES, SILENT_FRAMES, RunawayDetector, estimate_speech_frames
from runtime.engine.text.rules import frame_budget
from runtime.request import Guard
from runtime.shared.text.speech_rate import expected_frames
from tests.support.examples import examples

SAMPLES = 1920  # Number of samples per frame.
Codes = NDArray[np.int64]


def speech_codes(frames: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 2048, (frames, 16))


def loop_codes(frames: int, period: int) -> Codes:
    """Return codes whose codebook 0 repeats after `period` frames and others are random."""
    codes = speech_codes(frames, 5)
    codes[:, 0] = 100 + np.arange(frames) % period
    return codes


def sound(frames: int, dbfs: float = -20.0) -> bytes:
    noise = np.random.default_rng(1).standard_normal(frames * SAMPLES) * 32768 * 10 ** (dbfs / 20)
    return noise.round().astype(np.int16).tobytes()


def listened(codes: Codes, pcm: bytes, sizes: tuple[int, ...] = (1,)) -> tuple[Guard | None, int, RunawayDetector]:
    """Pass frames to the detector in chunks of these sizes until a guard triggers.

    The result is the guard or None, the number of checked frames, and the detector.
    """
    detector, start, turn = RunawayDetector(), 0, 0
    while start < len(codes):
        end = min(start + sizes[turn % len(sizes)], len(codes))
        guard = detector.check_frames(codes[start:end], pcm[2 * SAMPLES * start : 2 * SAMPLES * end])
        start, turn = end, turn + 1
        if guard:
            return guard, start, detector
    return None, start, detector


SIZES = [(1,), (16,), (1, 2, 4, 8, 16), (3,)]
every_size = pytest.mark.parametrize("sizes", SIZES, ids=str)


@every_size
@pytest.mark.parametrize("period", [1, 2, 3, 5, 8])
def test_repetition_is_detected_at_the_end_of_its_window(period: int, sizes: tuple[int, ...]) -> None:
    codes = np.concatenate([speech_codes(20), loop_codes(100, period)])
    guard, frames, detector = listened(codes, sound(120), sizes)
    assert guard is Guard.REPETITION
    assert 20 + REPEATED_FRAMES <= frames < 20 + REPEATED_FRAMES + max(sizes)
    assert detector.last_audible_frame == 19


@every_size
def test_near_silence_is_detected_after_three_seconds(sizes: tuple[int, ...]) -> None:
    pcm = sound(20) + sound(100, -65)
    guard, frames, detector = listened(speech_codes(120), pcm, sizes)
    assert guard is Guard.SILENCE
    assert 20 + SILENT_FRAMES <= frames < 20 + SILENT_FRAMES + max(sizes)
    assert detector.last_audible_frame == 19


def test_last_audible_frame_is_found_if_sound_returns_in_the_same_chunk() -> None:
    pcm = sound(10) + sound(SILENT_FRAMES, -80) + sound(16)
    guard, _, detector = listened(speech_codes(10 + SILENT_FRAMES + 16), pcm, (16,))
    assert guard is Guard.SILENCE
    assert detector.last_audible_frame == 9


def test_silent_repetition_ends_at_the_last_audible_frame() -> None:
    guard, _, detector = listened(np.concatenate([speech_codes(9), loop_codes(80, 4)]), sound(7) + sound(82, -90))
    assert guard is Guard.SILENCE
    assert detector.last_audible_frame == 6


def test_pure_silence_has_no_audible_frame() -> None:
    guard, frames, detector = listened(loop_codes(80, 1), bytes(2 * SAMPLES * 80))
    assert (guard, frames, detector.last_audible_frame) == (Guard.SILENCE, SILENT_FRAMES, -1)


@pytest.mark.parametrize(("dbfs", "caught"), [(-50.0, False), (-54.0, False), (-56.0, True)])
def test_silence_threshold_is_55_db_below_full_scale(dbfs: float, caught: bool) -> None:
    assert (listened(speech_codes(60), sound(60, dbfs))[0] is Guard.SILENCE) == caught


@every_size
def test_two_second_pause_is_not_a_runaway(sizes: tuple[int, ...]) -> None:
    """The codes of a pause also repeat, with 25 equal frames without sound."""
    codes = np.concatenate([speech_codes(30), loop_codes(25, 1), speech_codes(30, 2), loop_codes(25, 1)])
    pcm = sound(30) + sound(25, -90) + sound(30) + sound(25, -90)
    assert listened(codes, pcm, sizes)[0] is None


@pytest.mark.parametrize("period", [1, 3, 8])
def test_one_frame_less_than_the_window_is_not_a_runaway(period: int) -> None:
    codes = np.concatenate([speech_codes(10), loop_codes(REPEATED_FRAMES - 1, period), speech_codes(30, 3)])
    assert listened(codes, sound(len(codes)))[0] is None


def test_repeated_phrase_is_not_a_runaway() -> None:
    codes = np.tile(speech_codes(9), (20, 1))
    assert listened(codes, sound(len(codes)))[0] is None


@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 16), min_size=1, max_size=8),
    quiet=st.lists(st.tuples(st.booleans(), st.integers(1, 45)), min_size=1, max_size=4),
    period=st.integers(1, 10),
    lead=st.integers(0, 30),
)
def test_chunk_size_affects_only_the_time_of_detection(
    sizes: list[int], quiet: list[tuple[bool, int]], period: int, lead: int
) -> None:
    pcm = b"".join(sound(frames, -80 if silent else -20) for silent, frames in quiet)
    frames = len(pcm) // (2 * SAMPLES)
    codes = np.concatenate([speech_codes(lead), loop_codes(max(frames - lead, 0), period)])[:frames]
    verdict, seen, detector = listened(codes, pcm)
    other, later, other_detector = listened(codes, pcm, tuple(sizes))
    assert other is verdict
    assert seen <= later < seen + max(sizes)
    if verdict:
        assert other_detector.last_audible_frame == detector.last_audible_frame


def test_detector_memory_is_bounded() -> None:
    detector = RunawayDetector()
    pcm = sound(16)
    for turn in range(300):
        assert detector.check_frames(speech_codes(16, turn), pcm) is None
    held = [getattr(detector, name) for name in RunawayDetector.__slots__]
    assert sum(value.size for value in held if isinstance(value, np.ndarray)) < 100


def test_detection_takes_little_time_per_frame() -> None:
    detector, codes, pcm = RunawayDetector(), speech_codes(1), sound(1)
    started = time.thread_time()
    for _ in range(1000):
        detector.check_frames(codes, pcm)
    assert time.thread_time() - started < 1.0


@pytest.mark.parametrize(
    "text", ["No!", "Hello.", "你好，今天的声音很清楚。", "3.14", "A sentence of a common length, read aloud. " * 5]
)
def test_speech_estimate_is_above_the_expected_length_and_below_the_frame_budget(text: str) -> None:
    assert expected_frames(text) < estimate_speech_frames(text) < frame_budget(text)
