"""Conversion of audio to files."""

from __future__ import annotations

import io
import wave

from voicewright.wire import SAMPLE_RATE


def wav(pcm: bytes) -> bytes:
    """Return a WAV file of mono s16le audio at `SAMPLE_RATE`."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "not compressed"))
        out.writeframes(pcm)
    return file.getvalue()
