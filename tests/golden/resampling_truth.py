"""Audio that the reference implementation resampled from other sample rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.golden.oracle import Oracle
from tests.support.signals import noise

RATES = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000)
LENGTHS = 65  # Number of lengths per sample rate.
LONGEST_S = 3.0
STORED_S = (0.021, 0.03)  # Durations of the mono and the stereo signal whose output samples are stored.


def resampling_truth(oracle: Oracle, folder: Path) -> dict[str, NDArray[Any]]:
    """Return input and output lengths for each sample rate, and the resampled noise.

    The noise is ``noise(count, channels, rate)`` of tests/support/signals.py.
    """
    stream, arrays = np.random.RandomState(15), dict[str, NDArray[Any]]()
    for rate in RATES:
        counts = stream.randint(rate // 50, round(LONGEST_S * rate), LENGTHS)
        out = [len(_resampled(oracle, np.zeros(count, np.float32), rate)) for count in counts]
        arrays[f"lengths_{rate}"] = np.stack([counts, out], axis=1)
        for channels, seconds in enumerate(STORED_S, start=1):
            count = int(seconds * rate) + int(stream.randint(0, 60))
            path = folder / "noise.wav"
            soundfile.write(path, noise(count, channels, rate), rate, subtype="FLOAT")
            mono, _ = oracle.wrapper._load_audio_to_np(str(path))
            arrays[f"samples_{rate}_{channels}_{count}"] = _resampled(oracle, mono, rate)
    return arrays


def _resampled(oracle: Oracle, mono: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Return the resampled audio that the reference's speech tokenizer would encode."""
    (samples,) = oracle.speech_tokenizer._normalize_audio_inputs([mono], sr=rate)
    return np.asarray(samples, np.float32)
