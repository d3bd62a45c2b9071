"""Encoder that writes audio files to memory with libsndfile."""

from __future__ import annotations

import io
from typing import Any

import soundfile
from numpy.typing import NDArray


def audio_file(
    samples: NDArray[Any], rate: int = 24_000, *, kind: str = "WAV", subtype: str | None = "PCM_16"
) -> bytes:
    """Encode samples as an audio file, and return its bytes.

    Args:
        samples: [N] or [N, channels].
        rate: Sample rate in Hz.
        kind: File format, as named by libsndfile.
        subtype: Sample encoding, as named by libsndfile. None selects the default of the format.
    """
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()
