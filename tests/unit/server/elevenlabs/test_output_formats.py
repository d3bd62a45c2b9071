"""Tests for ElevenLabs' output formats: the audio has the right duration in each of them."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
import soundfile

from runtime.server.elevenlabs.output_formats import DEFAULT, OUTPUT_FORMATS, OutputFormat
from runtime.shared.audio.pcm_formats import AudioWriter

SECONDS = 1.0
TONE = (8000 * np.sin(np.arange(24_000) * 2 * np.pi * 220 / 24_000)).astype("<i2").tobytes()


def written(writer: AudioWriter) -> bytes:
    pieces = (TONE[start : start + 3840] for start in range(0, len(TONE), 3840))
    return b"".join(map(writer.encode_pcm, pieces)) + writer.finish()


def seconds(form: OutputFormat, data: bytes) -> float:
    if form.codec in {"pcm", "ulaw", "alaw"}:
        return len(data) / (2 if form.codec == "pcm" else 1) / form.rate
    if form.codec == "wav":
        return float(soundfile.info(io.BytesIO(data)).duration)
    with av.open(io.BytesIO(data)) as file:
        assert file.streams.audio[0].codec_context.sample_rate == form.rate
        return sum(frame.samples for frame in file.decode(audio=0)) / form.rate


def test_default_elevenlabs_format_is_in_the_list() -> None:
    assert DEFAULT in OUTPUT_FORMATS
    assert len(OUTPUT_FORMATS) == 28
    assert all(form.name == name for name, form in OUTPUT_FORMATS.items())


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_every_elevenlabs_format_keeps_the_duration(name: str) -> None:
    form = OUTPUT_FORMATS[name]
    assert form.media_type.startswith("audio/")
    assert seconds(form, written(form.writer(whole=True))) == pytest.approx(SECONDS, abs=0.12)


@pytest.mark.parametrize("name", ["pcm_24000", "pcm_8000", "ulaw_8000", "mp3_22050_32", "wav_16000"])
def test_every_elevenlabs_format_supports_speed(name: str) -> None:
    form = OUTPUT_FORMATS[name]
    assert seconds(form, written(form.writer(1.25, whole=True))) == pytest.approx(SECONDS / 1.25, abs=0.12)


def test_native_pcm_is_passed_unchanged() -> None:
    assert written(OUTPUT_FORMATS["pcm_24000"].writer()) == TONE
