"""Tests for resampling, compared with the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from runtime.shared.audio.samples import DecodedAudio, resample
from tests.golden.stored import arrays
from tests.support.audio_files import audio_file
from tests.support.signals import noise

# Tolerance for another order of soxr's additions, which depends on the vector unit of the processor.
SAMPLES_ATOL = 1e-6

STORED = arrays("resampling")
RATES = [int(name.split("_")[1]) for name in STORED if name.startswith("lengths_")]
KEPT = [tuple(map(int, name.split("_")[1:])) for name in STORED if name.startswith("samples_")]


@pytest.mark.parametrize("rate", RATES)
def test_resampled_length_equals_the_reference_implementation(rate: int) -> None:
    counts, wanted = STORED[f"lengths_{rate}"].T
    made = [len(resample(DecodedAudio(np.zeros(count, np.float32), rate), SAMPLE_RATE).samples) for count in counts]
    assert made == wanted.tolist()


@pytest.mark.parametrize(("rate", "channels", "count"), KEPT)
def test_resampled_samples_of_a_file_equal_the_reference_implementation(rate: int, channels: int, count: int) -> None:
    file = audio_file(noise(count, channels, rate), rate, subtype="FLOAT")
    heard = read_reference(file, Limits(min_reference_s=0.01))
    wanted = STORED[f"samples_{rate}_{channels}_{count}"]
    assert heard.shape == wanted.shape
    np.testing.assert_allclose(heard, wanted, rtol=0, atol=SAMPLES_ATOL)
