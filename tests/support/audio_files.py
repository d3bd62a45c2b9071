"""Audio files in memory, written by libsndfile."""

from __future__ import annotations

import io
from typing import Any

import soundfile
from numpy.typing import NDArray


def audio_file(
    samples: NDArray[Any], rate: int = 24_000, *, kind: str = "WAV", subtype: str | None = "PCM_16"
) -> bytes:
    """Return a file of the format that libsndfile calls `kind`.

    Args:
        samples: [N] or [N, channels].
        subtype: of the samples; None: the format's usual one.
    """
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()
