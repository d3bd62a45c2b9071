"""Tests for texts with several segments: words, loudness and pauses at segment boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import SAMPLE_RATE, Mode, SpeechRequest, StopReason
from runtime.settings import Settings
from runtime.shared.audio.loudness import measure_loudness
from tests.speech.recogniser import heard_words
from tests.support.engines import EventRecorder, speak
from tests.support.spoken import share_heard

pytestmark = pytest.mark.slow

TEXT = (
    "The boat came back in the evening, and nobody on the quay had expected it so soon. We had put the kettle on and "
    "were waiting for the rain to stop. My brother told us about the long winter in the north, where the roads are "
    "closed for weeks. He had learned to bake bread there, and to repair an old engine with very little. In the "
    "morning we walked along the river to the station, because the bus was late again."
)
MIN_RECOGNISED = 0.85  # Minimum fraction of recognised words. Without one of the five parts, the fraction is lower.
QUIET = 300  # Maximum absolute value of inaudible int16 samples.
PAUSE_S = 0.15  # Minimum duration of a pause between sentences in seconds.
LONGEST_PAUSE_S = 1.2
APART_LU = 5.0  # Maximum difference in loudness between two stretches of speech.
# Minimum duration of a stretch of speech in seconds. A shorter stretch is a single phrase, whose loudness varies.
SHORTEST_S = 2.0


@pytest.fixture(scope="module")
def recorder() -> EventRecorder:
    return speak(Engine.open(Settings()), SpeechRequest(text=TEXT, mode=Mode.CUSTOM_VOICE, voice="Angus", seed=1))


def pauses(recorder: EventRecorder) -> NDArray[np.int64]:
    """Return the first sample of each pause and the first sample after the pause.

    Shapes: [N, 2].
    """
    loud = np.flatnonzero(np.abs(recorder.pcm.astype(int)) > QUIET)
    gaps = np.flatnonzero(np.diff(loud) > PAUSE_S * SAMPLE_RATE)
    return np.stack([loud[gaps] + 1, loud[gaps + 1]], axis=1)


def test_no_word_of_a_long_text_is_lost(recorder: EventRecorder) -> None:
    assert recorder.end.stop_reason is StopReason.EOS
    assert recorder.end.stats.parts == 5
    assert share_heard(TEXT, heard_words(recorder.pcm)) > MIN_RECOGNISED


def test_pauses_between_segments_are_not_longer_than_within_segments(recorder: EventRecorder) -> None:
    lengths = np.diff(pauses(recorder)) / SAMPLE_RATE
    assert len(lengths) >= 2
    assert lengths.max() < LONGEST_PAUSE_S


def test_all_segments_are_equally_loud(recorder: EventRecorder) -> None:
    stretches = [
        part for part in np.split(recorder.pcm, pauses(recorder)[:, 1]) if len(part) > SHORTEST_S * SAMPLE_RATE
    ]
    loudness = [one for part in stretches if (one := measure_loudness(part)) is not None]
    assert len(loudness) >= 3
    assert max(loudness) - min(loudness) < APART_LU, loudness
