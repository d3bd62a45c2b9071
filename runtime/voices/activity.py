"""Detection of speech in a recording, from loudness or from a network's probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

WINDOW_S = 0.01  # Length in seconds of a window of the speech detection by loudness.
# Minimum level of speech relative to the loudest window (-40 dB). Every consonant of a usable recording is louder.
QUIET = 1e-2

ENTER, LEAVE = 0.5, 0.35  # Likelihood above which speech starts, and likelihood below which it ends.
SHORTEST_S = 0.25  # Minimum duration of speech in seconds. Shorter bursts are clicks.
GAP_S = 0.1  # Minimum duration of a gap in seconds. A shorter gap is a part of a word.


@dataclass(frozen=True, slots=True, eq=False)
class SpeechActivity:
    """Speech activity of a recording: one flag per time window, which is True for speech.

    Shapes: windows [n] bool.
    """

    windows: NDArray[np.bool_]
    window_s: float

    @property
    def seconds(self) -> float:
        """Return the duration of speech in seconds, without pauses."""
        return float(self.windows.sum()) * self.window_s

    @property
    def span(self) -> tuple[float, float] | None:
        """Return the start of the first speech and the end of the last speech in seconds.

        The result is None if there is no speech.
        """
        spoken = np.flatnonzero(self.windows)
        return (float(spoken[0]) * self.window_s, float(spoken[-1] + 1) * self.window_s) if len(spoken) else None

    def pauses(self, margin_s: float) -> list[slice]:
        """Return the pauses as ranges of windows.

        Windows that are within `margin_s` seconds of speech are not part of a pause.
        """
        reach = round(margin_s / self.window_s)
        near = self.windows.copy()
        for start, end in _runs(self.windows):
            near[max(0, start - reach) : end + reach] = True
        return [slice(start, end) for start, end in _runs(~near)]


def detect_speech_by_level(samples: NDArray[np.float32]) -> SpeechActivity:
    """Detect speech by loudness, and return the speech activity of the recording.

    A window is speech if it is not much quieter than the loudest window.

    Shapes: samples [N] float32, mono, 24 kHz.
    """
    loudness = window_levels(samples, WINDOW_S)
    return SpeechActivity(loudness > QUIET * loudness.max(initial=0.0), WINDOW_S)


def detect_speech_by_probability(likely: NDArray[np.float32], window_s: float) -> SpeechActivity:
    """Return the speech activity for speech probabilities that a network has computed.

    Speech starts at a higher probability than it ends (hysteresis). Short gaps and short bursts are removed.

    Args:
        likely: Probability of speech in each window, from 0 to 1.
        window_s: Length of a window in seconds.

    Shapes: likely [n].
    """
    spoken = np.zeros(len(likely), bool)
    speaking = False
    for window, value in enumerate(likely):
        speaking = bool(value >= (LEAVE if speaking else ENTER))
        spoken[window] = speaking
    for start, end in _runs(~spoken):
        if start > 0 and end < len(spoken) and (end - start) * window_s < GAP_S:
            spoken[start:end] = True
    for start, end in _runs(spoken):
        if (end - start) * window_s < SHORTEST_S:
            spoken[start:end] = False
    return SpeechActivity(spoken, window_s)


def window_levels(samples: NDArray[np.float32], window_s: float) -> NDArray[np.float32]:
    """Return the root mean square of the samples in each complete window, without their mean.

    The mean is the constant offset of a faulty microphone, which is not audible.

    Shapes: [N] -> [n].
    """
    step = int(window_s * SAMPLE_RATE)
    return samples[: len(samples) // step * step].reshape(-1, step).std(axis=1)


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return start and end indices of each run of True values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
