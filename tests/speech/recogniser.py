"""Transcription of generated speech with the Whisper base model, if it is installed.

The required packages are listed in tests/support/whisper.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from tests.support.spoken import words_of
from tests.support.whisper import REASON, require_whisper, whisper_base

faster_whisper = pytest.importorskip("faster_whisper", reason=REASON)
require_whisper()

RECOGNISER_RATE = 16_000  # Sample rate of the recogniser's input in Hz.


@cache
def recogniser() -> Any:
    """Return the loaded Whisper model."""
    folder = whisper_base(Path(mkdtemp(prefix="whisper-base-")))
    return faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)


def heard_words(pcm: NDArray[np.int16]) -> list[str]:
    """Transcribe an utterance, and return its lower-case words.

    Shapes: pcm [N] int16, 24 kHz.
    """
    samples = soxr.resample(pcm.astype(np.float32) / 32768, SAMPLE_RATE, RECOGNISER_RATE)
    segments, _ = recogniser().transcribe(
        samples, language="en", beam_size=1, temperature=0.0, condition_on_previous_text=False, without_timestamps=True
    )
    return words_of(" ".join(segment.text for segment in segments))
