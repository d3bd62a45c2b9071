"""Figures of sound against sounds whose figures are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.voicing import FULL, voicing
from runtime.request import SAMPLE_RATE


def tone(hz: float, seconds: float = 1.0, level: float = 0.2) -> NDArray[np.float64]:
    t = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    number = np.arange(1, 9)[:, None]
    return level * (np.sin(2 * np.pi * hz * number * t + number) / number).sum(axis=0)


def pcm(samples: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.clip(np.round(FULL * samples), -FULL - 1, FULL).astype(np.int16)


@pytest.mark.parametrize("hz", [90.0, 131.7, 220.0, 400.0])
@pytest.mark.parametrize("ratio_db", [5.0, 10.0, 20.0])
def test_harmonics_stand_above_noise_by_what_was_mixed(hz: float, ratio_db: float) -> None:
    clean = tone(hz, 2.0)
    noise = np.random.default_rng(1).standard_normal(len(clean))
    noise *= np.sqrt(np.square(clean).mean() / 10 ** (ratio_db / 10)) / noise.std()
    found = voicing(pcm(clean + noise))
    assert found.harmonics_db == pytest.approx(ratio_db, abs=1.5)
    assert found.voiced > 0.95


def test_noise_alone_is_hardly_voiced_and_silence_has_no_ratio() -> None:
    noise = voicing(pcm(0.1 * np.random.default_rng(2).standard_normal(SAMPLE_RATE)))
    assert noise.voiced < 0.05
    silence = voicing(np.zeros(SAMPLE_RATE, np.int16))
    assert (silence.silent, silence.voiced) == (1.0, 0.0)
    assert math.isnan(silence.harmonics_db)


def test_clipping_silence_peak_and_offset_are_shares() -> None:
    half = np.concatenate((tone(200), np.zeros(SAMPLE_RATE)))
    found = voicing(pcm(half))
    assert found.silent == pytest.approx(0.5, abs=0.05)
    assert found.clipped == 0
    assert found.seconds == 2.0
    square = voicing(pcm(np.sign(tone(100))))
    assert square.clipped > 0.9
    assert square.peak == pytest.approx(1, abs=1e-4)
    assert voicing(pcm(tone(100) + 0.1)).offset == pytest.approx(0.1, abs=1e-3)


def test_a_sound_without_one_window_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than one window of 1440"):
        voicing(np.zeros(1439, np.int16))
