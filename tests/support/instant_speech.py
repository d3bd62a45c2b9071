"""Generator of speech-like audio, composed from recordings of the embedded voice."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import soundfile
from numpy.typing import NDArray

from runtime.settings import DEMO_CHECKPOINT
from runtime.shared.text.speech_rate import expected_frames

FRAME_SAMPLES = 1920  # Number of samples per frame.
PACE = 0.5  # Ratio to the usual speaking time. Below 0.4, the page reports missing words.
MIN_FRAMES = 6
AUDIBLE = 0.02  # Minimum root mean square of the samples of a frame with speech (full scale is 1).
MIN_GAIN = 0.4


@cache
def _recordings() -> NDArray[np.float32]:
    """Return the concatenated recordings without pauses.

    Shapes: [samples].
    """
    paths = sorted((DEMO_CHECKPOINT / "samples").glob("*.wav"))
    sounds = [soundfile.read(path, dtype="float32")[0] for path in paths]
    frames = np.concatenate(
        [sound[: sound.size // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES) for sound in sounds]
    )
    return np.asarray(frames[np.sqrt((frames**2).mean(axis=1)) > AUDIBLE].reshape(-1), np.float32)


def frames_of(text: str) -> int:
    """Return the number of audio frames for a text, which is half of the usual number."""
    return max(MIN_FRAMES, round(PACE * expected_frames(text)))


def speech(text: str, manner: object, frames: int) -> NDArray[np.int16]:
    """Return 16-bit audio that depends only on the text, `manner` and the number of frames.

    Shapes: result [frames * FRAME_SAMPLES].
    """
    digest = hashlib.blake2b(repr((text, manner)).encode(errors="surrogatepass"), digest_size=8).digest()
    recordings = _recordings()
    begin = int.from_bytes(digest[:6], "little") % recordings.size
    gain = MIN_GAIN + (1 - MIN_GAIN) * int.from_bytes(digest[6:], "little") / 2**16
    piece = recordings.take(np.arange(begin, begin + frames * FRAME_SAMPLES), mode="wrap")
    return np.asarray((32767 * gain * piece).clip(-32768, 32767), np.int16)
