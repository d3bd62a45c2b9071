"""Encoder for audio files in memory, based on libsndfile."""

from __future__ import annotations

import io
from typing import Any

import soundfile
from numpy.typing import NDArray


def audio_file(
    samples: NDArray[Any], rate: int = 24_000, *, kind: str = "WAV", subtype: str | None = "PCM_16"
) -> bytes:
    """Return an audio file with these samples, in the libsndfile format `kind`.

    Args:
        samples: [N] or [N, channels].
        subtype: libsndfile's name of the sample encoding. None selects the default of the format.
    """
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()
