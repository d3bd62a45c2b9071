"""What a recogniser that knows nothing of us hears: pocketsphinx with the English model in its package."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

Decoder = pytest.importorskip("pocketsphinx", reason="pocketsphinx has no wheel for Python 3.14").Decoder

RECOGNISER_RATE = 16_000  # Hz


def heard_words(pcm: NDArray[np.int16]) -> list[str]:
    """The words of an utterance. Shapes: pcm [N] int16, 24 kHz."""
    decoder = Decoder(samprate=RECOGNISER_RATE, loglevel="FATAL")
    samples = soxr.resample(pcm.astype(np.float32), SAMPLE_RATE, RECOGNISER_RATE)
    decoder.start_utt()
    decoder.process_raw(np.clip(samples, -32768, 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return words(hypothesis.hypstr) if hypothesis else []


def words(text: str) -> list[str]:
    """Lower-case words without marks."""
    return re.findall(r"[a-z']+", text.lower())


def share_heard(text: str, heard: list[str]) -> float:
    """Which part of a text's words was heard, in any order, each as often as it stands there."""
    wanted, got = Counter(words(text)), Counter(heard)
    return sum(min(count, got[word]) for word, count in wanted.items()) / sum(wanted.values())
