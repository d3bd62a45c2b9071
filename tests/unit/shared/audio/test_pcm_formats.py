"""Tests for the raw PCM formats: unchanged PCM, exact G.711 and resampled tones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from runtime.shared.audio.pcm_formats import ENCODINGS, PcmWriter

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import audioop  # Python contains audioop up to 3.12. Later versions need the package audioop-lts.

EVERY = np.arange(-32768, 32768).astype("<i2").tobytes()


def written(encoding: str, rate: int, pcm: bytes, chunk: int = 3840) -> bytes:
    writer = PcmWriter(encoding, rate)
    return (
        b"".join(writer.encode_pcm(pcm[start : start + chunk]) for start in range(0, len(pcm), chunk)) + writer.finish()
    )


def test_native_pcm_format_returns_the_same_bytes() -> None:
    assert written("pcm_s16le", 24_000, EVERY) == EVERY


def test_float_format_returns_the_same_sample_values() -> None:
    floats = np.frombuffer(written("pcm_f32le", 24_000, EVERY), "<f4")
    assert (floats * 32768 == np.frombuffer(EVERY, "<i2")).all()


@pytest.mark.parametrize(("encoding", "law"), [("pcm_mulaw", audioop.lin2ulaw), ("pcm_alaw", audioop.lin2alaw)])
def test_telephone_codecs_are_g711_for_every_sample_value(encoding: str, law: object) -> None:
    assert callable(law)
    assert written(encoding, 24_000, EVERY) == law(EVERY, 2)


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_resampled_tone_keeps_pitch_length_and_level(encoding: str, rate: int) -> None:
    tone = (8000 * np.sin(np.arange(48_000) * 2 * np.pi * 440 / 24_000)).astype("<i2").tobytes()
    data = written(encoding, rate, tone)
    if encoding == "pcm_f32le":
        samples = np.frombuffer(data, "<f4") * 32768
    elif encoding == "pcm_s16le":
        samples = np.frombuffer(data, "<i2").astype(float)
    else:
        law = audioop.ulaw2lin if encoding == "pcm_mulaw" else audioop.alaw2lin
        samples = np.frombuffer(law(data, 2), "<i2").astype(float)
    assert abs(len(samples) - 2 * rate) <= 1
    spectrum = np.abs(np.fft.rfft(samples))
    assert abs(np.argmax(spectrum) * rate / len(samples) - 440) < 1
    middle = samples[rate // 2 : -rate // 2]
    assert abs(np.sqrt(np.mean(middle**2)) * np.sqrt(2) / 8000 - 1) < 0.02


def test_samples_above_full_scale_are_clipped_and_not_wrapped() -> None:
    square = np.repeat(np.tile([32767, -32768], 50), 240).astype("<i2").tobytes()
    samples = np.frombuffer(written("pcm_s16le", 48_000, square), "<i2").reshape(-1)
    wanted = np.repeat(np.tile([1, -1], 50), 480)
    inner = np.abs(np.arange(len(wanted)) % 480 - 240) < 200
    assert (np.sign(samples[: len(wanted)][inner]) == wanted[inner]).all()
