"""Conversion of PCM audio to WAV files."""

from __future__ import annotations

import io
import wave

from voicewright.wire import SAMPLE_RATE


def wav(pcm: bytes) -> bytes:
    """Return PCM audio (mono, s16le, at `SAMPLE_RATE`) as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "not compressed"))
        out.writeframes(pcm)
    return file.getvalue()
