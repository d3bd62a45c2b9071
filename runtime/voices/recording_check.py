"""Preparation of a recording for a voice: select the speech, check it, append a pause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, TranscriptMismatch
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.voices.activity import SpeechActivity, detect_speech_by_level
from runtime.voices.checks import Advice, AudioLevels, check_transcript, measure_levels, recording_advice

MARGIN_S = 0.1  # Seconds before and after detected speech that are kept, because words start and end quietly.
# Seconds of silence that are appended to the reference. Without them, generated speech would continue the last sound of
# the reference.
PAUSE_S = 0.5
MIN_SPEECH_S = 1.0  # Minimum seconds of detected speech. With less speech, the detection is not reliable.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingCheck:
    """Result of checking a recording and its transcript, before a voice is stored."""

    seconds: float
    speech_s: float  # Seconds of speech without pauses.
    start_s: float  # Time in seconds at which the part to keep starts, including a margin.
    end_s: float
    levels: AudioLevels
    advice: tuple[Advice, ...]
    mismatch: TranscriptMismatch | None  # None if the transcript fits the recording.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRecording:
    """Recording that was checked and trimmed, so that it can be stored as a voice.

    Shapes: samples [M] float32, mono, 24 kHz.
    """

    samples: NDArray[np.float32]
    speech_s: float  # Seconds of speech without pauses.
    advice: tuple[Advice, ...]


def check_recording(samples: NDArray[np.float32], transcript: str | None) -> RecordingCheck:
    """Check a recording and the length of its transcript, and return the result.

    Args:
        samples: Recording that `read_reference` has accepted.
        transcript: Text that is spoken in the recording, or None if unknown.

    Shapes: samples [N] float32, mono, 24 kHz.

    Thread: worker thread. A minute of audio takes 0.6 s.
    """
    activity, is_speech = _activity(samples)
    levels = measure_levels(samples, activity, is_speech=is_speech)
    advice, mismatch = list(recording_advice(samples, activity, levels, is_speech=is_speech)), None
    if transcript is not None and activity.seconds:
        try:
            advice += check_transcript(transcript, activity.seconds)
        except TranscriptMismatch as error:
            mismatch = error
    start, end = _speech_range(samples, activity)
    return RecordingCheck(
        seconds=len(samples) / SAMPLE_RATE,
        speech_s=activity.seconds,
        start_s=start / SAMPLE_RATE,
        end_s=end / SAMPLE_RATE,
        levels=levels,
        advice=tuple(advice),
        mismatch=mismatch,
    )


def require_speech(examination: RecordingCheck, limits: Limits) -> None:
    """Check that a recording is long enough after trimming.

    Raises:
        BadReferenceAudio: The recording is too short.
    """
    trimmed_s, min_s = examination.end_s - examination.start_s, limits.min_reference_s - PAUSE_S
    if trimmed_s < min_s:
        raise BadReferenceAudio(why=f"{trimmed_s:.2f} s of it is left after trimming; at least {min_s:g} s is needed")


def prepare_recording(samples: NDArray[np.float32], transcript: str | None, limits: Limits) -> PreparedRecording:
    """Check and trim a recording, and return it in a form that can be stored as a voice.

    Args:
        samples: Recording that `read_reference` has accepted.
        transcript: Text that is spoken in the recording, or None if unknown.
        limits: Limits on the duration of reference audio.

    Shapes: samples [N] float32, mono, 24 kHz.

    Raises:
        BadReferenceAudio: The recording is too short after trimming.
        TranscriptMismatch: The transcript cannot belong to the recording.

    Thread: worker thread. A minute of audio takes 0.6 s.
    """
    examination = check_recording(samples, transcript)
    require_speech(examination, limits)
    if examination.mismatch is not None:
        raise examination.mismatch
    # Maximum number of samples of a reference, including the appended pause.
    longest = int(limits.max_reference_s * SAMPLE_RATE)
    speech = _ended(samples[round(examination.start_s * SAMPLE_RATE) : round(examination.end_s * SAMPLE_RATE)])
    return PreparedRecording(samples=speech[:longest], speech_s=examination.speech_s, advice=examination.advice)


def clean_reference(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Remove audio without speech at both ends of a recording, and append a pause.

    Shapes: samples [N] -> [M], float32, mono, 24 kHz.
    """
    start, end = _speech_range(samples, _activity(samples)[0])
    return _ended(samples[start:end])


def _activity(samples: NDArray[np.float32]) -> tuple[SpeechActivity, bool]:
    """Return the windows with speech, and True if the network has detected them.

    If the network finds too little speech, the windows are detected by loudness.
    """
    # This import loads torch, which takes seconds. Most processes create no voices and do not need it.
    from runtime.voices.speech_detector import find_speech

    speech = find_speech(samples)
    return (speech, True) if speech.seconds >= MIN_SPEECH_S else (detect_speech_by_level(samples), False)


def _speech_range(samples: NDArray[np.float32], activity: SpeechActivity) -> tuple[int, int]:
    """Return the start and end sample of the speech, with a margin.

    If there is no speech, all samples are kept.
    """
    start, end = activity.span or (0.0, len(samples) / SAMPLE_RATE)
    first, last = round((start - MARGIN_S) * SAMPLE_RATE), round((end + MARGIN_S) * SAMPLE_RATE)
    return max(0, first), min(last, len(samples))


def _ended(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Append a pause to a recording.

    Shapes: [N] -> [M].
    """
    return np.concatenate([samples, np.zeros(int(PAUSE_S * SAMPLE_RATE), np.float32)])
