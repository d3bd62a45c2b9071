"""Waveform outline: the maximum of each of equal parts."""

from __future__ import annotations

import numpy as np

PARTS = 32
FULL = 255  # Value of a full-scale sample.


def outline(pcm: bytes) -> list[int]:
    """Return the largest magnitude in each of the parts, 0 to ``FULL``; fewer parts where there are fewer samples.

    Args:
        pcm: s16le, mono.
    """
    samples = np.abs(np.frombuffer(pcm, "<i2").astype(np.int32))
    parts = np.array_split(samples, min(PARTS, max(len(samples), 1)))
    return [int(part.max(initial=0)) * FULL // 32768 for part in parts]
