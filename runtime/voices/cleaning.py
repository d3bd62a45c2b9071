"""Care for a reference before a voice is made of it; never applied where a result is compared with the reference
implementation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

WINDOW = SAMPLE_RATE // 50  # 20 ms
QUIET = 10 ** (-40 / 20)  # of the loudest window; what lies below at the ends is room, not voice
MARGIN_S = 0.1  # kept before the first and after the last voiced window
PAUSE_S = 0.5  # appended, so that the model does not go on with the reference's last word (facts 8.1)


def clean_reference(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Trim silent ends and finish on a pause. Shapes: [N] and [M] float32, 24 kHz."""
    windows = samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW)
    level = np.sqrt((windows**2).mean(axis=1))
    voiced = np.flatnonzero(level > QUIET * level.max(initial=0.0))
    if not len(voiced):
        return samples
    margin = int(MARGIN_S * SAMPLE_RATE)
    start = max(0, voiced[0] * WINDOW - margin)
    end = min(len(samples), (voiced[-1] + 1) * WINDOW + margin)
    pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.float32)
    return np.concatenate([samples[start:end], pause])
