"""Tests for the loudness meter and the limiter, with signals of BS.1770 and EBU R 128."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.audio import loudness
from runtime.shared.audio.loudness import CEILING_DBTP, MAX_GAIN_DB, measure_loudness, normalize_loudness, true_peak
from tests.support.examples import examples
from tests.support.signals import voice


def tone(dbfs: float, seconds: float, hz: float = 997.0, phase: float = 0.0) -> NDArray[np.int16]:
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return np.round(32767 * 10 ** (dbfs / 20) * np.sin(2 * np.pi * hz * time + phase)).astype(np.int16)


def dbtp(samples: NDArray[np.int16]) -> float:
    return float(20 * np.log10(max(true_peak(samples), 1e-9)))


@pytest.mark.parametrize("dbfs", [-40.0, -23.0, -6.0])
def test_single_channel_sine_measures_3_db_below_its_peak(dbfs: float) -> None:
    # BS.1770: a 997 Hz sine at 0 dBFS in one front channel has -3.01 LKFS.
    assert measure_loudness(tone(dbfs, 5)) == pytest.approx(dbfs - 3.01, abs=0.05)


def test_low_and_high_frequencies_are_k_weighted() -> None:
    assert (measure_loudness(tone(-20, 5, hz=60)) or 0) < -24  # The high-pass filter lowers 60 Hz.
    assert (measure_loudness(tone(-20, 5, hz=4000)) or 0) > -21  # The shelf filter raises 4 kHz.


def test_silence_between_words_is_gated_out() -> None:
    # EBU Tech 3341, case 3, for one channel: parts that are 10 LU quieter than the rest are gated out.
    parts = [tone(-36, 10), tone(-23, 30), tone(-36, 10)]
    assert measure_loudness(np.concatenate(parts)) == pytest.approx(-26.01, abs=0.1)
    gaps = np.zeros(3 * SAMPLE_RATE, np.int16)
    assert measure_loudness(np.concatenate([tone(-23, 5), gaps, tone(-23, 5)])) == pytest.approx(-26.01, abs=0.3)


def test_too_short_or_silent_audio_has_no_loudness() -> None:
    assert measure_loudness(tone(-20, 0.39)) is None
    assert measure_loudness(tone(-20, 0.5)) is not None
    assert measure_loudness(np.zeros(48_000, np.int16)) is None
    assert measure_loudness(np.zeros(0, np.int16)) is None


def test_inter_sample_peak_is_detected() -> None:
    # A sine at a quarter of the rate, sampled 45 degrees off its peaks: the samples reach 0.707 of its amplitude.
    wave = tone(-6, 1, hz=SAMPLE_RATE / 4, phase=np.pi / 4)
    assert np.abs(wave).max() / 32768 == pytest.approx(0.354, abs=0.01)
    assert true_peak(wave[2400:-2400]) == pytest.approx(0.501, abs=0.03)


def test_long_audio_is_measured_as_a_whole() -> None:
    sound = np.tile((voice(7, 3) * 32767).astype(np.int16), 5)
    assert len(sound) > 30 * SAMPLE_RATE
    assert measure_loudness(sound) == pytest.approx(measure_loudness(sound[: 7 * SAMPLE_RATE]) or 0, abs=0.3)
    loud = sound.copy()
    loud[20 * SAMPLE_RATE + 5] = 32767  # The peak is in the third chunk.
    assert true_peak(loud) >= 32767 / 32768


@pytest.mark.parametrize("target", [-31.0, -23.0, -16.0, -12.0])
def test_speech_is_normalized_to_the_target_loudness(target: float) -> None:
    out = normalize_loudness((voice(6, 4) * 32767).astype(np.int16), target)
    assert measure_loudness(out) == pytest.approx(target, abs=0.5)
    assert dbtp(out) <= CEILING_DBTP


def test_gain_without_limiting_only_scales_the_samples() -> None:
    sound = (voice(3, 5) * 32767).astype(np.int16)
    out = normalize_loudness(sound, -30.0)
    scale = (out @ sound.astype(np.float64)) / (sound @ sound.astype(np.float64))
    assert np.abs(out - scale * sound).max() <= 1


def test_near_silent_noise_is_not_amplified() -> None:
    noise = np.random.RandomState(1).randint(-3, 4, 3 * SAMPLE_RATE).astype(np.int16)
    out = normalize_loudness(noise, -16.0)
    assert np.abs(out).max() <= 3 * 10 ** (MAX_GAIN_DB / 20) + 1


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 60_000),
    click=st.integers(0, 59_999),
    target=st.floats(-30, -5),
)
def test_peaks_stay_below_the_ceiling_and_no_sample_is_lost(seed: int, length: int, click: int, target: float) -> None:
    stream = np.random.RandomState(seed)
    sound = (stream.standard_normal(length) * 3000).clip(-32768, 32767).astype(np.int16)
    sound[click % length] = 32767
    out = normalize_loudness(sound, target)
    assert len(out) == length
    if measure_loudness(sound) is None:
        assert np.array_equal(out, sound)
    else:
        assert dbtp(out) <= CEILING_DBTP


def test_long_audio_limited_in_parts_equals_audio_limited_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = np.concatenate([(voice(3.0, seed) * 32767).astype(np.int16) for seed in range(4)])
    whole = normalize_loudness(sound, -8.0)
    monkeypatch.setattr(loudness, "_LIMITED_SAMPLES", 24_000)
    assert np.abs(normalize_loudness(sound, -8.0).astype(int) - whole).max() <= 0.02 * np.abs(whole).max()
    assert true_peak(normalize_loudness(sound, -8.0)) <= 10 ** (-1 / 20)
