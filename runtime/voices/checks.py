"""Quality checks of recordings, computed from their samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.errors import TranscriptMismatch
from runtime.request import SAMPLE_RATE
from runtime.shared.text.speech_rate import expected_seconds, is_another_text
from runtime.voices.activity import SpeechActivity, window_levels
from runtime.voices.faults import is_clipped_at_any_level, level_decay_db

# Range of the duration of speech in seconds that is recommended. Shorter references describe a voice poorly, and longer
# references make every request slower.
SHORT_S, LONG_S = 3.0, 30.0
FULL_SCALE = 0.998
MAX_CLIPPED_SHARE = 5e-4  # Maximum fraction of samples at full scale. A few single peaks do not exceed it.
# Minimum difference in dB between the level of speech and the level of pauses. A recording in a quiet room has 40 dB.
NOISY_DB = 20.0
# Minimum decay of the level in dB within 80 ms. A smaller decay means echo, which fills the gaps between words.
MIN_DECAY_DB = 16.0
QUIET_DB = -40.0  # Minimum level of the speech in dB relative to full scale.
SILENCE = 1e-5  # Level that replaces the level of digital silence (-100 dB).
WORD_END_S = 0.1  # Seconds before and after detected speech that may still contain audio of a word.
PAUSES_S = 0.2  # Minimum total seconds of pauses that are needed to measure the noise.
# Audio that the network has detected as speech counts as a pause if it lasts at least QUIET_S seconds and its level is
# at most QUIET_RATIO (-30 dB) of the speech level. Quiet parts of normal speech are shorter, such as the silence in a
# stop consonant.
QUIET_S, QUIET_RATIO = 0.2, 10 ** (-30 / 20)
# Without pauses, the noise is the level of the quietest windows if the fractions below have almost the same level. The
# quiet sounds of clean speech and the echo of a room differ more.
FLOOR_WINDOW_S = 0.02
FLOOR_SHARES = (0.03, 0.1)
MAX_FLOOR_DIFFERENCE_DB = 2.0
SILENT_SHARE = 0.5
TELEPHONE_HZ = 4_200.0
# Minimum fraction of the energy that is above TELEPHONE_HZ (-55 dB). Normal speech has 1000 times as much.
MIN_TREBLE_SHARE = 3e-6
SPECTRUM_SAMPLES = 1024

# Maximum and minimum ratio between the expected duration of the transcript and the duration of the speech. The speech
# rates of two speakers may differ by a factor of two.
MAX_TRANSCRIPT_RATIO, MIN_TRANSCRIPT_RATIO = 1.8, 0.4


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a recording: a stable code, and a sentence for the user."""

    code: str
    sentence: str


LONG_TRANSCRIPT = Advice(
    "transcript", "The transcript is long for this recording; it must hold the words that are spoken, and no more."
)
SHORT_TRANSCRIPT = Advice(
    "transcript", "The transcript is short for this recording; it must hold all the words that are spoken."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioLevels:
    """Levels of a recording in dB relative to full scale.

    A level is None if it cannot be measured.
    """

    peak_db: float | None
    speech_db: float | None
    pauses_db: float | None  # Level of the pauses, or of steady noise if there are no pauses.
    clipped: float  # Fraction of samples at full scale.
    decay_db: float | None  # Decay of the level of speech within 80 ms.


def measure_levels(samples: NDArray[np.float32], activity: SpeechActivity, *, is_speech: bool) -> AudioLevels:
    """Return the levels of a recording that is not trimmed yet.

    Args:
        is_speech: True if a network has detected the speech. Otherwise, a constant sound may not be noise.

    Shapes: samples [N] float32, mono, 24 kHz.
    """
    levels = window_levels(samples, activity.window_s)
    spoken = activity.windows[: len(levels)]
    speech = float(np.sqrt((levels[spoken] ** 2).mean())) if spoken.any() else 0.0
    # The level of a pause is its mean, because a low quantile would miss the beats of background music. The median of
    # all pauses is used, because one pause may contain a cough.
    pauses = [pause for each in activity.pauses(WORD_END_S) if len(pause := levels[each])]
    if sum(map(len, pauses)) * activity.window_s < PAUSES_S:
        quiet = SpeechActivity(levels > QUIET_RATIO * speech, activity.window_s)
        pauses = [pause for each in quiet.pauses(0.0) if len(pause := levels[each]) * activity.window_s >= QUIET_S]
    noises = sorted(float(np.sqrt((pause**2).mean())) for pause in pauses)
    if not noises and is_speech and (floor := _steady_noise(samples)) is not None:
        noises = [floor]
    return AudioLevels(
        peak_db=_decibels(float(np.abs(samples).max(initial=0.0))),
        speech_db=_decibels(speech),
        pauses_db=_decibels(max(noises[(len(noises) - 1) // 2], SILENCE)) if noises else None,
        clipped=float((np.abs(samples) >= FULL_SCALE).mean()),
        decay_db=level_decay_db(samples),
    )


def recording_advice(
    samples: NDArray[np.float32], activity: SpeechActivity, levels: AudioLevels, *, is_speech: bool
) -> Iterator[Advice]:
    """Yield advice about the quality of a recording that is not trimmed yet.

    Shapes: samples [N] float32, mono, 24 kHz.
    """
    if not is_speech:
        yield Advice("no_speech", "No clear speech was found in the recording; the clone may not sound like a voice.")
    else:
        yield from _length(activity.seconds)
        if levels.decay_db is not None and levels.decay_db < MIN_DECAY_DB:
            yield Advice(
                "echo", "An echo of the room is audible; record closer to the microphone, in a furnished room."
            )
    if levels.clipped > MAX_CLIPPED_SHARE or (is_speech and is_clipped_at_any_level(samples)):
        yield Advice("clipping", "The recording is clipped; record it again with less gain.")
    yield from _judged(levels)
    silent = 1 - activity.seconds / (len(samples) / SAMPLE_RATE)
    if silent > SILENT_SHARE:
        yield Advice("silence", f"{silent:.0%} of the recording is silence; speak without long pauses.")
    if _share_above(samples, TELEPHONE_HZ) < MIN_TREBLE_SHARE:
        yield Advice(
            "bandwidth", "The recording holds nothing above 4 kHz, as on a telephone; the clone will sound dull."
        )


def check_transcript(transcript: str, speech_s: float) -> Iterator[Advice]:
    """Yield advice if the length of a transcript does not fit the duration of the speech.

    Raises:
        TranscriptMismatch: The transcript would need an impossible speaking rate.
    """
    if is_another_text(transcript, speech_s):
        raise TranscriptMismatch(characters=len(transcript), seconds=speech_s, param="ref_text")
    pace = expected_seconds(transcript) / speech_s
    if pace > MAX_TRANSCRIPT_RATIO:
        yield LONG_TRANSCRIPT
    elif pace < MIN_TRANSCRIPT_RATIO:
        yield SHORT_TRANSCRIPT


def _steady_noise(samples: NDArray[np.float32]) -> float | None:
    """Return the level of steady noise, or None if it cannot be measured.

    Steady noise has a constant level, so the quietest windows are about equally loud.
    """
    levels = window_levels(samples, FLOOR_WINDOW_S)
    if not len(levels):
        return None
    low, high = (max(float(np.quantile(levels, share)), SILENCE) for share in FLOOR_SHARES)
    return low if 20 * math.log10(high / low) < MAX_FLOOR_DIFFERENCE_DB else None


def _length(speech_s: float) -> Iterator[Advice]:
    if speech_s < SHORT_S:
        yield Advice("short", f"Only {speech_s:.1f} s of speech; about ten seconds are best.")
    elif speech_s > LONG_S:
        yield Advice(
            "long", f"The recording holds {speech_s:.0f} s of speech; more than 30 s costs time and gains little."
        )


def _judged(levels: AudioLevels) -> Iterator[Advice]:
    if levels.speech_db is None:
        return
    if levels.speech_db < QUIET_DB:
        yield Advice("quiet", "The recording is very quiet; record it closer to the microphone or with more gain.")
    if levels.pauses_db is not None and (above := levels.speech_db - levels.pauses_db) < NOISY_DB:
        yield Advice("noise", f"Noise or music is only {above:.0f} dB below the speech; record in a quiet room.")


def _decibels(level: float) -> float | None:
    """Convert a level to dB relative to full scale, or return None for digital silence."""
    return 20 * math.log10(level) if level > 0 else None


def _share_above(samples: NDArray[np.float32], hertz: float) -> float:
    """Return the fraction of energy above a frequency in Hz (0 for a very short recording)."""
    pieces = samples[: len(samples) // SPECTRUM_SAMPLES * SPECTRUM_SAMPLES].reshape(-1, SPECTRUM_SAMPLES)
    energy = (np.abs(np.fft.rfft(pieces * np.hanning(SPECTRUM_SAMPLES))) ** 2).sum(axis=0)
    above = np.fft.rfftfreq(SPECTRUM_SAMPLES, 1 / SAMPLE_RATE) > hertz
    return float(energy[above].sum() / energy.sum()) if energy.any() else 0.0
