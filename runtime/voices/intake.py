"""What a recording goes through when a voice is made of it: trimmed to speech, ended on a pause, judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.voices.activity import Activity, by_loudness
from runtime.voices.checks import Advice, advise, check_transcript

MARGIN_S = 0.1  # kept around the speech: onsets and decays lie below the first thing that is sure to be speech
PAUSE_S = 0.5  # appended silence, so that the clone does not begin in the middle of the reference's last sound
LEAST_SPEECH_S = 1.0  # less than that found, the network did not understand the recording


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intake:
    """A recording as it is kept.

    Shapes: samples [M] float32, mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    speech_s: float  # of speech in it, without the pauses
    advice: tuple[Advice, ...]


def take_in(samples: NDArray[np.float32], transcript: str | None, limits: Limits) -> Intake:
    """Prepare a recording that `read_reference` accepted, and judge it.

    Shapes: samples [N] float32, mono, 24 kHz.
    Raises:
        TranscriptMismatch: the transcript cannot be that of the recording.
    Thread: a worker; a minute of sound takes 0.6 s.
    """
    activity, is_speech = _activity(samples)
    advice = list(advise(samples, activity, is_speech=is_speech))
    if transcript is not None and activity.seconds:
        advice += check_transcript(transcript, activity.seconds)
    longest = int(limits.max_reference_s * SAMPLE_RATE)  # of what a request may use, the pause included
    return Intake(
        samples=_cut(samples, activity)[:longest],
        speech_s=activity.seconds,
        advice=tuple(advice),
    )


def clean_reference(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut what is not speech at both ends, and end on a pause.

    Shapes: samples [N] -> [M], float32, mono, 24 kHz.
    """
    return _cut(samples, _activity(samples)[0])


def _activity(samples: NDArray[np.float32]) -> tuple[Activity, bool]:
    """Where the sound is, and whether it is known to be speech."""
    from runtime.voices.speech import find_speech  # torch takes seconds to import, and most processes make no voices

    speech = find_speech(samples)
    return (speech, True) if speech.seconds >= LEAST_SPEECH_S else (by_loudness(samples), False)


def _cut(samples: NDArray[np.float32], activity: Activity) -> NDArray[np.float32]:
    start, end = activity.span or (0.0, len(samples) / SAMPLE_RATE)
    kept = samples[max(0, round((start - MARGIN_S) * SAMPLE_RATE)) : round((end + MARGIN_S) * SAMPLE_RATE)]
    return np.concatenate([kept, np.zeros(int(PAUSE_S * SAMPLE_RATE), np.float32)])
