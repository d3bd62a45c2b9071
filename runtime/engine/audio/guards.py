"""Detection of runaway speech, which continues after all text is spoken.

Runaway speech is either a loop or a series of inaudible frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runtime.request import Guard
from runtime.shared.text.speech_rate import expected_frames

# Lengths in frames (80 ms each) of the loops that are detected. A runaway is near-silence or a short loop that
# continues for minutes (docs/model.md 7.1). Loops with more frames may be repeated phrases of the text. Normal speech
# after the last word has at most the end of that word and a breath.
LOOP_FRAMES = np.arange(1, 9)
# Minimum total length of a repeated loop: 3.2 s, which are five repetitions of the longest loop. Shorter repetitions
# occur in normal speech: a long vowel (less than 3 s) and a long pause (2 s, or 25 frames) may also repeat one code.
REPEATED_FRAMES = 40
# Minimum length in frames of the silence that counts as a runaway (3 s). Pauses between paragraphs are shorter.
SILENT_FRAMES = 38
# Minimum RMS of 16-bit samples that count as audible. Pauses of the embedded voice have less than -60 dBFS.
MIN_AUDIBLE_RMS = 32768.0 * 10 ** (-55 / 20)

# Ratio between the number of frames after which a text is assumed to be completely spoken, and its expected number of
# frames. The embedded voice needs a ratio of 0.8 to 1.4. A slower voice may still be speaking at this time, but only a
# loop or a silence of 3 s ends its speech.
SPOKEN_RATIO = 1.5
SPOKEN_GRACE_FRAMES = 12  # Additional frames for the silence before the first word (1 s).


# Maximum number of consecutive frames that meet a condition. The first eight values are for loops of 1 to 8 frames,
# and the last value is for silence. The frames of a loop are counted from its second pass.
MAX_RUN_FRAMES = np.append(REPEATED_FRAMES - LOOP_FRAMES, SILENT_FRAMES)


@dataclass(slots=True)
class RunawayDetector:
    """Detector of runaway speech in one request, after all text is spoken.

    `last_audible_frame` is the index of the request's last audible frame, or -1. When a runaway is detected, it is set
    to the last frame before the silence or loop.
    """

    last_audible_frame: int = -1
    # Index of the frame at which the last call has detected a runaway, or -1. Audio after this frame is cut.
    cut_at: int = -1
    _frames: int = 0
    # For each limit in MAX_RUN_FRAMES, the current number of consecutive frames that meet its condition.
    runs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(MAX_RUN_FRAMES), np.int64))
    # Recent codes of codebook 0. The initial value -1 differs from every code.
    _recent: NDArray[np.int64] = field(default_factory=lambda: np.full(len(LOOP_FRAMES), -1))
    # For each recent frame, the index of the last audible frame, which may be the frame itself.
    _ends: NDArray[np.int64] = field(default_factory=lambda: np.full(REPEATED_FRAMES, -1))

    def check_frames(self, codes: NDArray[np.int64], pcm: bytes) -> Guard | None:
        """Check the next frames for runaway speech: a loop or a long silence.

        Call this method only with frames after the expected end of the text.

        Shapes: codes [n, Q] with n at least 1; pcm is the audio of the same frames, mono s16le.

        Returns:
            The kind of runaway, or None.
        """
        ends = self._last_audible(len(codes), pcm)
        holds = np.vstack([self._repeats(codes[:, 0]), ends[REPEATED_FRAMES:] != self._numbers(len(codes))])
        runs = _runs(holds, self.runs)
        self.runs = runs[:, -1]
        is_runaway = runs >= MAX_RUN_FRAMES[:, None]
        if not is_runaway.any():
            return None
        frame = self.cut_at = int(is_runaway.any(axis=0).argmax())
        silent = bool(is_runaway[-1, frame])
        self.last_audible_frame = int(ends[frame + REPEATED_FRAMES if silent else frame])
        return Guard.SILENCE if silent else Guard.REPETITION

    def _last_audible(self, frames: int, pcm: bytes) -> NDArray[np.int64]:
        """Return the index of the last audible frame at each recent frame.

        The recent frames are the `REPEATED_FRAMES` frames before `pcm`, and the n frames of `pcm`.

        Shapes: [40 + n].
        """
        samples = np.frombuffer(pcm, np.int16).astype(np.float32).reshape(frames, -1)
        audible = np.sqrt(np.mean(np.square(samples), axis=1)) > MIN_AUDIBLE_RMS
        self._frames += frames
        new = np.where(audible, self._numbers(frames), self.last_audible_frame)
        ends = np.concatenate([self._ends, np.maximum.accumulate(new)])
        self._ends = ends[-REPEATED_FRAMES:]
        self.last_audible_frame = int(ends[-1])
        return ends

    def _repeats(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compare each code with the code one period earlier.

        Shapes: codes [n]; returns [periods, n].
        """
        known = np.concatenate([self._recent, codes])
        self._recent = known[-len(LOOP_FRAMES) :]
        frame_indices = np.arange(len(self._recent), len(known))
        return known[frame_indices - LOOP_FRAMES[:, None]] == codes

    def _numbers(self, frames: int) -> NDArray[np.int64]:
        """Return the frame numbers of the newest frames."""
        return np.arange(self._frames - frames, self._frames)


def _runs(holds: NDArray[np.bool_], before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the consecutive frames up to each frame for which each condition holds.

    `before` has the counts of the frame before the first frame.

    Shapes: holds [m, n], before [m]; returns [m, n].
    """
    frame_indices = np.arange(holds.shape[1])
    broken = np.maximum.accumulate(np.where(holds, -1, frame_indices), axis=1)
    return frame_indices - broken + np.where(broken < 0, before[:, None], 0)


def estimate_speech_frames(text: str) -> int:
    """Estimate the number of frames that the speech of a complete text needs, with a margin."""
    return round(SPOKEN_RATIO * expected_frames(text)) + SPOKEN_GRACE_FRAMES
