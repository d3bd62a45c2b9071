"""Tests for audio encoding in all formats: same audio, right length and streaming."""

from __future__ import annotations

import gc
import io
import os
import struct
import wave
from itertools import pairwise
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.shared.audio.encoding import AI_COMMENT, FORMATS, UNKNOWN_SIZE, Encoder, read_tags
from tests.support.signals import voice
from tests.support.timeouts import until

FRAME_BYTES = 3840  # Number of bytes of 80 ms of audio.
SOUND = (voice(3.2, 3) * 32767).astype("<i2")
PCM = SOUND.tobytes()

# Maximum milliseconds of audio that an encoder buffers after each 80 ms of input, as in docs/api.md.
HELD_MS = {"pcm": 0, "wav": 0, "flac": 0, "opus": 27, "mp3": 40, "aac": 80}


def encoded(response_format: str, *, piece: int = FRAME_BYTES, **options: Any) -> bytes:
    encoder = Encoder(response_format, **options)
    parts = [encoder.encode_pcm(PCM[start : start + piece]) for start in range(0, len(PCM), piece)]
    return b"".join(parts) + encoder.finish()


def decoded(response_format: str, data: bytes) -> tuple[NDArray[np.float32], int]:
    """Decode a file, and return its samples in [-1, 1] and its sample rate."""
    if response_format == "pcm":
        return (np.frombuffer(data, "<i2") / 32768).astype(np.float32), 24_000
    with av.open(io.BytesIO(data)) as container:
        rate = container.streams.audio[0].codec_context.sample_rate
        parts = [frame.to_ndarray().ravel() for frame in container.decode(audio=0)]
    samples = np.concatenate(parts)
    return (samples / 32768 if samples.dtype == np.int16 else samples).astype(np.float32), rate


def alike(samples: NDArray[np.float32], rate: int, source_rate: int = 24_000) -> float:
    """Return the maximum correlation of samples with the input audio over all shifts.

    For equal audio, the correlation is 1.
    """
    wanted = SOUND / 32768
    step = rate // 8_000
    one, other = samples[:: max(1, step)], wanted[:: source_rate // 8_000]
    size = 2 ** int(np.ceil(np.log2(len(one) + len(other))))
    product = np.fft.irfft(np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size)))
    return float(product.max() / np.sqrt((one**2).sum() * (other**2).sum()))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("response_format", ["pcm", "wav", "flac"])
def test_lossless_formats_preserve_every_bit(response_format: str, whole: bool) -> None:
    samples, rate = decoded(response_format, encoded(response_format, whole=whole))
    assert rate == 24_000
    assert np.array_equal(samples, (SOUND / 32768).astype(np.float32))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("response_format", ["mp3", "opus", "aac"])
def test_lossy_formats_preserve_the_audio(response_format: str, whole: bool) -> None:
    samples, rate = decoded(response_format, encoded(response_format, whole=whole))
    seconds = len(samples) / rate
    assert len(SOUND) / 24_000 <= seconds < len(SOUND) / 24_000 + 0.1
    assert alike(samples, rate) > 0.95
    assert alike(samples[::-1], rate) < 0.7  # Reversed audio shows that the comparison can fail.


@pytest.mark.parametrize("response_format", ["mp3", "opus"])
def test_complete_file_has_the_exact_duration(response_format: str) -> None:
    samples, rate = decoded(response_format, encoded(response_format, whole=True))
    assert len(samples) * 24_000 == len(SOUND) * rate


@pytest.mark.parametrize("response_format", FORMATS)
def test_encoded_audio_is_emitted_as_input_arrives(response_format: str) -> None:
    encoder, out = Encoder(response_format), b""
    for start in range(0, 20 * FRAME_BYTES, FRAME_BYTES):
        out += encoder.encode_pcm(PCM[start : start + FRAME_BYTES])
        try:
            samples, rate = decoded(response_format, out)
        except (av.FFmpegError, ValueError):
            samples, rate = np.zeros(0, np.float32), 24_000
        held_ms = 1000 * ((start + FRAME_BYTES) / 2 / 24_000 - len(samples) / rate)
        assert held_ms <= HELD_MS[response_format] + 0.1, f"after {start // FRAME_BYTES + 1} frames"


@pytest.mark.slow("opus", "aac")
@pytest.mark.parametrize("response_format", FORMATS)
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, len(SOUND) - 1), max_size=6, unique=True))
def test_chunking_does_not_change_the_output(response_format: str, cuts: list[int]) -> None:
    # Ogg streams have a random serial number, so only their samples are compared.
    def bare(data: bytes) -> bytes:
        return decoded(response_format, data)[0].tobytes() if response_format == "opus" else data

    encoder, out = Encoder(response_format), b""
    edges = [0, *sorted(cuts), len(SOUND)]
    for start, end in pairwise(edges):
        out += encoder.encode_pcm(PCM[2 * start : 2 * end])
    assert bare(out + encoder.finish()) == bare(encoded(response_format))


@pytest.mark.parametrize("options", [{"rate": 8_000}, {"speed": 1.3}, {"speed": 0.3, "rate": 8_000}])
def test_chunking_does_not_change_resampled_or_time_stretched_output(options: dict[str, Any]) -> None:
    """The chunks are complete frames, as from the engine.

    Other chunk sizes change the last 50 ms of slow speech, because of FFmpeg's atempo filter.
    """
    wanted = encoded("pcm", **options)
    for piece in (2 * FRAME_BYTES, 16 * FRAME_BYTES, len(PCM)):
        assert encoded("pcm", piece=piece, **options) == wanted


def test_streamed_wav_has_a_plain_header_without_length() -> None:
    data = encoded("wav")
    riff, riff_size, rest = struct.unpack_from("<4sI4s", data)
    assert (riff, riff_size, rest) == (b"RIFF", UNKNOWN_SIZE, b"WAVE")
    assert data[36:40] == b"data"
    assert struct.unpack_from("<I", data, 40) == (UNKNOWN_SIZE,)
    assert data[44:] == PCM


def test_complete_wav_file_is_exact_to_the_byte() -> None:
    data = encoded("wav", whole=True)
    assert struct.unpack_from("<I", data, 4) == (len(data) - 8,)
    assert data[44:] == PCM
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(10**9) == PCM


def test_tags_of_a_complete_wav_file_precede_the_samples() -> None:
    data = encoded("wav", whole=True, tags=TAGS)
    assert data.endswith(PCM)
    assert struct.unpack_from("<I", data, 4) == (len(data) - 8,)
    with soundfile.SoundFile(io.BytesIO(data)) as sound:
        assert sound.comment.startswith(AI_COMMENT)
        assert sound.read(dtype="int16").astype("<i2").tobytes() == PCM


@pytest.mark.parametrize("response_format", ["mp3", "opus", "flac"])
def test_tags_declare_synthetic_speech(response_format: str) -> None:
    with av.open(io.BytesIO(encoded(response_format))) as container:
        assert AI_COMMENT in {*container.metadata.values(), *container.streams.audio[0].metadata.values()}


@pytest.mark.parametrize("response_format", FORMATS)
def test_audio_is_resampled_to_telephone_rate(response_format: str) -> None:
    samples, rate = decoded(response_format, encoded(response_format, rate=8_000))
    if response_format == "pcm":
        rate = 8_000
    assert rate == (48_000 if response_format == "opus" else 8_000)  # Opus always decodes to 48 kHz.
    assert len(SOUND) / 24_000 <= len(samples) / rate < len(SOUND) / 24_000 + 0.25
    assert alike(samples, rate) > 0.9


@pytest.mark.parametrize("speed", [0.25, 0.4, 0.9, 1.3, 2.0, 4.0])
@pytest.mark.parametrize("response_format", ["pcm", "mp3"])
def test_speed_changes_the_length_and_not_the_pitch(response_format: str, speed: float) -> None:
    time = np.arange(3 * 24_000) / 24_000
    tone = (8_000 * np.sin(2 * np.pi * 440 * time)).astype("<i2").tobytes()
    encoder = Encoder(response_format, speed=speed)
    data = b"".join(encoder.encode_pcm(tone[start : start + FRAME_BYTES]) for start in range(0, len(tone), FRAME_BYTES))
    samples, rate = decoded(response_format, data + encoder.finish())
    assert len(samples) / rate == pytest.approx(3 / speed, rel=0.02, abs=0.1)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    assert spectrum.argmax() * rate / len(samples) == pytest.approx(440, abs=6)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("response_format", FORMATS)
def test_empty_audio_is_a_valid_file(response_format: str, whole: bool) -> None:
    data = Encoder(response_format, whole=whole).finish()
    if response_format == "pcm":
        assert data == b""
    elif response_format == "wav":
        assert struct.unpack_from("<I", data, 40) == (0 if whole else UNKNOWN_SIZE,)
    else:
        assert len(decoded(response_format, data)[0]) < 0.2 * 48_000


@pytest.mark.parametrize("response_format", FORMATS)
def test_abandoned_encoder_raises_no_error(response_format: str) -> None:
    for _ in range(20):
        encoder = Encoder(response_format, speed=1.5)
        encoder.encode_pcm(PCM[:FRAME_BYTES])
        del encoder


@pytest.mark.parametrize("options", [{}, {"whole": True}, {"speed": 1.5}, {"rate": 8_000}])
@pytest.mark.parametrize("response_format", ["mp3", "aac", "opus", "flac"])
def test_abandoned_encoder_ends_its_threads_without_garbage_collection(
    response_format: str, options: dict[str, Any]
) -> None:
    before, most = native_threads(), 0
    gc.disable()
    try:
        for _ in range(4):
            encoder = Encoder(response_format, **options)
            encoder.encode_pcm(PCM[: 12 * FRAME_BYTES])
            most = max(most, native_threads())
            del encoder
        until(lambda: native_threads() <= before)  # A thread that has ended may still be listed for a moment.
        assert before < most
    finally:
        gc.enable()


def native_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_only_uncompressed_formats_are_instant() -> None:
    assert [name for name in FORMATS if Encoder(name).is_instant] == ["wav", "pcm"]
    assert not Encoder("pcm", rate=8_000).is_instant


TAGS = {"title": "Ein Gruß, 你好", "model": "demo voice", "seed": "7", "software": "Voicewright"}


@pytest.mark.parametrize("response_format", ["mp3", "opus", "flac", "wav"])
@pytest.mark.parametrize("whole", [False, True])
def test_custom_tags_read_back_equal(response_format: str, whole: bool) -> None:
    tags = read_tags(io.BytesIO(encoded(response_format, whole=whole, tags=TAGS)))
    if response_format == "wav":
        line = f"{AI_COMMENT}; model: demo voice; seed: 7"
        assert (tags["title"], tags["comment"]) == (TAGS["title"], line) if whole else tags == {}
    else:
        assert tags["comment"] == AI_COMMENT
        assert {name: tags[name] for name in TAGS} == TAGS


def test_invalid_audio_file_has_no_tags() -> None:
    assert read_tags(io.BytesIO(b"")) == {}
    assert read_tags(io.BytesIO(b"not a sound at all" * 50)) == {}


@pytest.mark.parametrize(("volume", "peak"), [(0.5, 0.5), (4.0, 0.9)])
def test_volume_changes_the_level_and_limits_peaks(volume: float, peak: float) -> None:
    quiet = (SOUND // 2).astype("<i2")
    encoder = Encoder("pcm", volume=volume)
    heard = np.frombuffer(encoder.encode_pcm(quiet.tobytes()) + encoder.finish(), "<i2")
    assert len(heard) == len(quiet)
    assert np.abs(heard).max() <= round(32768 * min(peak, volume * np.abs(quiet).max() / 32768)) + 1
    rms = [float(np.sqrt(np.square(samples.astype(float)).mean())) for samples in (quiet, heard)]
    assert 0.6 * volume < rms[1] / rms[0] <= 1.01 * volume


@pytest.mark.parametrize("response_format", ["mp3", "opus", "aac"])
def test_bit_rate_determines_the_file_size(response_format: str) -> None:
    low, high = (len(encoded(response_format, bit_rate=bit_rate)) for bit_rate in (24_000, 96_000))
    assert 2.5 < high / low < 5.5
