"""Tests for reference audio: each format is decoded, or refused with one sentence."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, PauseTooLong, ReferenceTooLong, ReferenceTooShort
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.shared.audio.decode_child import Seekable
from runtime.shared.audio.ffmpeg_reader import read_any
from runtime.shared.audio.reference import load_reference, read_reference
from runtime.shared.audio.samples import MAX_CHANNELS
from runtime.shared.audio.wav_reader import is_plain_wav
from tests.support.audio_files import audio_file
from tests.support.signals import voice

LIMITS = Limits()
VOICE = voice(2.0, 1)


def encoded(
    samples: NDArray[np.generic], rate: int = SAMPLE_RATE, kind: str = "WAV", subtype: str | None = None
) -> bytes:
    return audio_file(samples, rate, kind=kind, subtype=subtype)


def float_wav(samples: NDArray[np.floating]) -> bytes:
    return encoded(samples.astype(np.float32), subtype="FLOAT")


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "AIFF"])
def test_mono_reference_at_24_khz_is_returned_bit_for_bit(kind: str) -> None:
    read = read_reference(encoded(VOICE, kind=kind, subtype="PCM_16"), LIMITS)
    assert read.dtype == np.float32
    assert np.array_equal(read, VOICE)  # The samples are exact 16-bit values.


def test_float_samples_of_a_reference_are_returned_bit_for_bit() -> None:
    samples = (VOICE * np.float32(np.pi)).astype(np.float32)  # Some samples are slightly above full scale.
    assert np.array_equal(read_reference(float_wav(samples), LIMITS), samples)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100, 48_000, 96_000, 192_000])
def test_reference_at_another_sample_rate_is_resampled(rate: int) -> None:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate)
    read = read_reference(encoded(tone, rate), LIMITS)
    assert abs(len(read) - 2 * SAMPLE_RATE) <= 2
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(len(read)) / SAMPLE_RATE)
    inside = slice(SAMPLE_RATE // 2, 3 * SAMPLE_RATE // 2)
    assert np.abs(read[inside] - wanted[inside]).max() < 2e-3


def test_length_error_shows_enough_digits_to_distinguish_the_length_from_the_limit() -> None:
    with pytest.raises(ReferenceTooShort, match=r"lasts 0\.99 s; at least 1 s"):
        read_reference(encoded(VOICE[: SAMPLE_RATE - 1]), LIMITS)
    assert "lasts 60.1 s; the limit is 60 s" in str(ReferenceTooLong(seconds=60.01, limit=60.0))
    assert "lasts 60.1 s" in str(ReferenceTooLong(seconds=60.1, limit=60.0))
    assert "lasts 30.000001 s; the limit is 30 s" in str(PauseTooLong(seconds=30.000001, limit=30.0))


@pytest.mark.parametrize("channels", [2, MAX_CHANNELS])
def test_channels_of_a_reference_are_mixed_down(channels: int) -> None:
    parts = np.stack([voice(2.0, seed) for seed in range(channels)], axis=1)
    read = read_reference(encoded(parts, subtype="FLOAT"), LIMITS)
    assert np.abs(read - parts.mean(axis=1)).max() < 1e-6


@pytest.mark.parametrize(("kind", "subtype"), [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")])
def test_lossy_formats_are_accepted(kind: str, subtype: str) -> None:
    read = read_reference(encoded(VOICE, kind=kind, subtype=subtype), LIMITS)
    assert abs(len(read) / SAMPLE_RATE - 2.0) < 0.2
    assert np.abs(read).max() > 0.1


@pytest.mark.parametrize("seconds", [0.0, 0.5, 0.999])
def test_too_short_reference_is_refused(seconds: float) -> None:
    with pytest.raises(ReferenceTooShort):
        read_reference(encoded(VOICE[: int(seconds * SAMPLE_RATE)]), LIMITS)


def test_references_of_exactly_the_limits_are_accepted() -> None:
    assert len(read_reference(encoded(VOICE[:SAMPLE_RATE]), LIMITS)) == SAMPLE_RATE
    assert len(read_reference(encoded(np.tile(VOICE, 30)), LIMITS)) == 60 * SAMPLE_RATE
    with pytest.raises(ReferenceTooLong):
        read_reference(encoded(np.tile(VOICE, 31)), LIMITS)
    with pytest.raises(ReferenceTooShort):  # Empty audio is refused even if the operator sets the limit to 0.
        read_reference(encoded(VOICE[:0]), Limits(min_reference_s=0.0))


def peak_bytes(work: Callable[[], object]) -> int:
    """Run ``work``, which must be refused, and return its peak memory in Python and numpy."""
    tracemalloc.start()
    try:
        with pytest.raises(BadReferenceAudio):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("honest", [True, False])
def test_decompression_bomb_uses_little_memory(honest: bool) -> None:
    """Half an hour of silence is 70 KB of FLAC and 173 MB of decoded samples.

    The header of the file may omit the length.
    """
    bomb = bytearray(encoded(np.zeros(1800 * SAMPLE_RATE, np.int16), kind="FLAC"))
    assert len(bomb) < 2**20
    if not honest:
        bomb[21] &= 0xF0  # STREAMINFO stores the number of samples in 36 bits. The value 0 means unknown.
        bomb[22:26] = bytes(4)
    peak = peak_bytes(lambda: read_reference(bytes(bomb), LIMITS))
    assert peak < (2**20 if honest else 20 * 2**20)


def test_largest_allowed_file_stays_within_memory_bounds() -> None:
    wide = np.zeros((60 * 48_000, MAX_CHANNELS), np.int16)
    wide[::100] = 8000
    data = encoded(wide, 48_000, kind="FLAC")
    del wide
    assert len(read_reference(data, LIMITS)) == 60 * SAMPLE_RATE


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 32767.0])
def test_non_finite_samples_are_refused(value: float) -> None:
    samples = VOICE.copy()
    samples[1000] = value
    with pytest.raises(BadReferenceAudio):
        read_reference(float_wav(samples), LIMITS)


@pytest.mark.parametrize("level", [0.5, -1.0, 0.01])
def test_constant_signal_is_refused_as_silence(level: float) -> None:
    with pytest.raises(BadReferenceAudio, match="constant"):
        read_reference(float_wav(np.full(2 * SAMPLE_RATE, level)), LIMITS)


def test_speech_with_a_dc_offset_is_accepted() -> None:
    assert len(read_reference(float_wav(0.5 * VOICE + 0.2), LIMITS)) == len(VOICE)


@pytest.mark.parametrize("level", [0.0, 1e-4])
def test_silent_reference_is_refused(level: float) -> None:
    with pytest.raises(BadReferenceAudio, match="silent"):
        read_reference(float_wav(np.full(2 * SAMPLE_RATE, level)), LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"This is no sound at all." * 100,
        b"\x89PNG\r\n\x1a\n" + bytes(1000),
        encoded(VOICE)[:30],
        encoded(VOICE, kind="FLAC")[:60],
        encoded(VOICE, kind="OGG", subtype="VORBIS")[:200],
    ],
)
def test_non_audio_data_is_refused(data: bytes) -> None:
    with pytest.raises(BadReferenceAudio):
        read_reference(data, LIMITS)


@pytest.mark.parametrize("rate", [4_000, 7_999, 192_001, 384_000])
def test_sample_rates_out_of_range_are_refused(rate: int) -> None:
    with pytest.raises(BadReferenceAudio, match="sample rate"):
        read_reference(encoded(np.tile(VOICE, 20), rate), LIMITS)


def test_too_many_channels_are_refused() -> None:
    with pytest.raises(BadReferenceAudio, match="channels"):
        read_reference(encoded(np.zeros((SAMPLE_RATE, MAX_CHANNELS + 1)), subtype="PCM_16"), LIMITS)


@pytest.mark.parametrize("size", [0, 2**31, 2**32 - 1])
def test_header_with_a_wrong_length_is_read_or_refused(size: int) -> None:
    """Streaming writers store 0 or 0xFFFFFFFF as the length.

    Either the actual data is read, or the file is refused.
    """
    data = bytearray(encoded(VOICE, subtype="PCM_16"))
    place = data.index(b"data") + 4
    data[place : place + 4] = struct.pack("<I", size)
    try:
        read = read_reference(bytes(data), LIMITS)
    except (BadReferenceAudio, ReferenceTooShort):
        return
    assert np.array_equal(read, VOICE)


def damaged(whole: bytes) -> Iterator[bytes]:
    """Yield copies of a file in which one of the first 64 bytes has one of four values."""
    for place in range(64):
        for value in (0x00, 0x01, 0x7F, 0xFF):
            data = bytearray(whole)
            data[place] = value
            yield bytes(data)


def test_damaged_wav_header_is_decoded_or_refused() -> None:
    for data in damaged(encoded(VOICE[:36_000], subtype="PCM_16")):
        if not is_plain_wav(data):
            continue  # Files that are not plain WAV are decoded by another reader.
        try:
            read = read_reference(data, LIMITS)
        except BadReferenceAudio:
            continue
        assert np.isfinite(read).all()
        assert 0 < len(read) <= 60 * SAMPLE_RATE * 3


@pytest.mark.parametrize(("kind", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("AIFF", "PCM_16")])
def test_damaged_compressed_header_is_decoded_or_refused(kind: str, subtype: str) -> None:
    """The test decodes in this process, because child processes would take too long."""
    for data in damaged(encoded(VOICE[:36_000], kind=kind, subtype=subtype)):
        with contextlib.suppress(BadReferenceAudio):
            read_any(Seekable(data), limit_s=60.0)


def test_files_are_judged_by_content_and_not_by_name(tmp_path: Path) -> None:
    for name in ("voice.wav", "voice.raw", "voice.mp3", "voice"):
        (tmp_path / name).write_bytes(encoded(VOICE, subtype="PCM_16"))
        assert np.array_equal(load_reference(tmp_path / name, LIMITS), VOICE)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.wav", tmp_path):
        with pytest.raises(BadReferenceAudio, match="cannot be opened"):
            load_reference(path, LIMITS)
