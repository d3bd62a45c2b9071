"""Tests for audio decoding in all common formats, compared with the ffmpeg program."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from runtime.shared.audio.ffmpeg_reader import read_any
from tests.support.audio_files import audio_file
from tests.support.signals import voice

pytestmark = pytest.mark.slow

FFMPEG = shutil.which("ffmpeg")
SECONDS = 1.3

ONE_TO_EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)
STEREO = (1, 2)
SPEAKERS = (1, 2, 6, 8)  # Channel counts that encoders with only the usual speaker layouts accept.
# The columns are the muxer, the encoder, the sample rate, and the channel counts that the encoder accepts.
KINDS = [
    ("wav", "pcm_s24le", 48_000, ONE_TO_EIGHT),
    ("wav", "pcm_alaw", 8_000, STEREO),
    ("wav", "adpcm_ima_wav", 48_000, STEREO),
    ("w64", "pcm_s32le", 48_000, ONE_TO_EIGHT),
    ("aiff", "pcm_s16be", 44_100, ONE_TO_EIGHT),
    ("au", "pcm_f64be", 48_000, ONE_TO_EIGHT),
    ("caf", "pcm_s16le", 48_000, STEREO),
    ("caf", "alac", 48_000, (1, 2, 6)),
    ("flac", "flac", 48_000, ONE_TO_EIGHT),
    ("ogg", "flac", 48_000, ONE_TO_EIGHT),
    ("ogg", "libvorbis", 48_000, ONE_TO_EIGHT),
    ("ogg", "libopus", 48_000, SPEAKERS),
    ("ogg", "libspeex", 16_000, STEREO),
    ("webm", "libopus", 48_000, SPEAKERS),
    ("webm", "libvorbis", 44_100, STEREO),
    ("matroska", "aac", 48_000, ONE_TO_EIGHT),
    ("ipod", "aac", 48_000, ONE_TO_EIGHT),
    ("ipod", "alac", 48_000, (1, 2, 6)),
    ("mp4", "libmp3lame", 44_100, STEREO),
    ("mp4", "libopus", 48_000, SPEAKERS),
    ("mov", "pcm_s16le", 48_000, ONE_TO_EIGHT),
    ("adts", "aac", 48_000, ONE_TO_EIGHT),
    ("latm", "aac", 48_000, STEREO),
    ("mp3", "libmp3lame", 44_100, STEREO),
    ("mp2", "mp2", 48_000, STEREO),
    ("ac3", "ac3", 48_000, ONE_TO_EIGHT[:6]),
    ("eac3", "eac3", 48_000, ONE_TO_EIGHT[:6]),
    ("dts", "dca", 48_000, (1, 2, 6)),
    ("asf", "wmav1", 44_100, STEREO),
    ("asf", "wmav2", 44_100, STEREO),
    ("wv", "wavpack", 48_000, ONE_TO_EIGHT),
    ("tta", "tta", 48_000, STEREO),
    ("mpegts", "mp2", 48_000, STEREO),
    ("mpegts", "aac", 48_000, ONE_TO_EIGHT),
    ("avi", "pcm_s16le", 48_000, STEREO),
    ("flv", "nellymoser", 8_000, (1,)),
    ("nut", "flac", 48_000, STEREO),
    ("voc", "pcm_u8", 22_050, STEREO),
]


def recording(channels: int, rate: int) -> bytes:
    """Return a WAV file with the same voice in all channels, at a different level in each."""
    samples = voice(SECONDS, 1, rate)
    levels = np.linspace(1.0, 0.5, channels, dtype=np.float32)
    return audio_file(samples[:, None] * levels, rate, subtype="FLOAT")


def ffmpeg(*arguments: str, given: bytes) -> bytes:
    assert FFMPEG is not None
    command = [FFMPEG, "-v", "error", "-nostdin", "-y", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=60).stdout


def similarity(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the normalised correlation of two signals at their best alignment."""
    size = 2 * max(len(one), len(other))
    products = np.fft.irfft(np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size)))
    return float(products.max() / (np.linalg.norm(one) * np.linalg.norm(other)))


@pytest.mark.skipif(FFMPEG is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize(("container", "codec", "rate", "channels"), KINDS)
def test_decoded_recordings_equal_the_output_of_ffmpeg(
    container: str, codec: str, rate: int, channels: tuple[int, ...], tmp_path: Path
) -> None:
    for count in channels:
        path = tmp_path / str(count)
        encode = ["-c:a", codec, "-strict", "-2", "-f", container, str(path)]
        ffmpeg("-f", "wav", "-i", "pipe:", *encode, given=recording(count, rate))
        data = path.read_bytes()
        raw = ffmpeg("-i", str(path), "-f", "f32le", "-ar", str(rate), "pipe:", given=b"")
        expected = np.frombuffer(raw, np.float32).reshape(-1, count).mean(axis=1)
        found = read_any(io.BytesIO(data), limit_s=60)
        samples = found.samples if found.rate == rate else soxr.resample(found.samples, found.rate, rate)
        assert len(samples) == pytest.approx(len(expected), abs=0.06 * rate), count
        assert similarity(samples, expected) > 0.99, count
