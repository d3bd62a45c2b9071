"""Tests for the FFmpeg reader: formats, damaged files and limits.

tests/corpus/test_audio.py compares the reader with the ffmpeg program.
"""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, ReferenceTooLong
from runtime.settings import Limits
from runtime.shared.audio import ffmpeg_reader
from runtime.shared.audio.decoding import decode
from runtime.shared.audio.ffmpeg_reader import read_any
from runtime.shared.audio.reference import read_reference
from runtime.shared.audio.wav_reader import read_wav
from tests.support.audio_files import audio_file
from tests.support.signals import voice

RATE = 48_000


def encoded(
    container: str,
    codec: str,
    *,
    seconds: float = 1.5,
    rate: int = RATE,
    layout: str = "mono",
    tags: dict[str, str] | None = None,
    encoding: str = "utf-8",
) -> bytes:
    """Return a file encoded by PyAV, with the same voice in every channel."""
    file = io.BytesIO()
    with av.open(file, "w", format=container, metadata_encoding=encoding) as out:
        out.metadata.update(tags or {})
        stream = out.add_stream(codec, rate=rate, layout=layout)
        stream.bit_rate = 12_200 if rate == 8_000 else 128_000
        channels = stream.codec_context.layout.nb_channels
        samples = np.repeat(voice(seconds, 1, rate)[:, None], channels, axis=1).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="flt", layout=layout)
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
        to_codec = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        for piece in (*to_codec.resample(frame), *to_codec.resample(None)):
            out.mux(stream.encode(piece))
        out.mux(stream.encode(None))
    return file.getvalue()


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        ("webm", "libopus"),  # Format of MediaRecorder in Chrome, Edge and Firefox.
        ("mp4", "aac"),  # Format of MediaRecorder in Safari.
        ("adts", "aac"),
        ("matroska", "flac"),
        ("ogg", "flac"),
        ("asf", "wmav2"),
        ("caf", "pcm_s16be"),
        ("au", "pcm_s16be"),
        ("mpegts", "ac3"),
        ("wav", "adpcm_ms"),
    ],
)
def test_recorder_and_browser_formats_are_decoded(container: str, codec: str) -> None:
    sound = read_any(io.BytesIO(encoded(container, codec)), limit_s=60)
    assert sound.rate == RATE
    assert sound.seconds == pytest.approx(1.5, abs=0.1)
    assert np.sqrt((sound.samples**2).mean()) == pytest.approx(np.sqrt((voice(1.5, 1, RATE) ** 2).mean()), rel=0.2)


@pytest.mark.parametrize("container", ["amr", "3gp"])
def test_telephone_formats_are_decoded(container: str) -> None:
    sound = read_any(io.BytesIO(encoded(container, "libopencore_amrnb", rate=8_000)), limit_s=60)
    assert sound.rate == 8_000
    assert sound.seconds == pytest.approx(1.5, abs=0.1)


def test_individually_listed_channels_are_mixed_down() -> None:
    """PyAV would free such a channel list twice and crash the process."""
    sound = decode(encoded("aiff", "pcm_s16be", layout="7.1"), limit_s=60)
    assert np.abs(sound.samples - voice(1.5, 1, RATE)).max() < 1e-4


@pytest.mark.parametrize("layout", ["stereo", "5.1", "7.1", "octagonal"])
def test_aac_channels_are_mixed_down(layout: str) -> None:
    # Regression test: eight channels crashed the decoder process.
    sound = decode(encoded("ipod", "aac", layout=layout), limit_s=60)
    assert sound.seconds == pytest.approx(1.5, abs=0.1)
    assert np.abs(sound.samples).max() > 0.2


def test_tags_that_are_not_utf_8_are_ignored() -> None:
    data = encoded("mp3", "libmp3lame", tags={"title": "Ma voix enregistrée"}).replace("é".encode(), b"\xe9 ")
    assert b"enregistr\xe9" in data
    assert read_any(io.BytesIO(data), limit_s=60).seconds == pytest.approx(1.5, abs=0.1)


def test_cover_image_is_not_audio() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as out:
        picture = out.add_stream("mjpeg", rate=1)
        picture.width = picture.height = 16
        picture.pix_fmt = "yuvj420p"
        out.mux(picture.encode(av.VideoFrame(16, 16, "yuvj420p")))
        out.mux(picture.encode(None))
    with pytest.raises(BadReferenceAudio, match="not a readable audio file"):
        read_any(io.BytesIO(file.getvalue()), limit_s=60)


@pytest.mark.parametrize("is_open", [False, True])
def test_playlist_opens_no_other_file(is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.flac").write_bytes(encoded("flac", "flac"))
    playlist = io.BytesIO(b"ffconcat version 1.0\nfile other.flac\n")
    if is_open:  # Without the protocol list, FFmpeg opens the other file.
        monkeypatch.delitem(ffmpeg_reader.OPTIONS, "protocol_whitelist")
        assert read_any(playlist, limit_s=60).seconds == pytest.approx(1.5, abs=0.1)
        return
    with pytest.raises(BadReferenceAudio):
        read_any(playlist, limit_s=60)


# --- Tests of damaged files and of limits.


@pytest.mark.parametrize(("container", "codec"), [("flac", "flac"), ("webm", "libopus"), ("mp3", "libmp3lame")])
def test_truncated_file_is_judged_by_its_available_part(container: str, codec: str) -> None:
    data = encoded(container, codec, seconds=4.0)
    with pytest.raises(ReferenceTooLong, match="limit is 3 s"):
        read_any(io.BytesIO(data), limit_s=3.0)
    part = read_any(io.BytesIO(data[: len(data) // 2]), limit_s=3.0)
    assert part.seconds == pytest.approx(2.0, abs=0.5)


def test_overlong_recording_error_contains_its_length() -> None:
    with pytest.raises(ReferenceTooLong, match=r"lasts 4\.0 s"):
        read_any(io.BytesIO(encoded("flac", "flac", seconds=4.0)), limit_s=1.0)


def test_damage_in_the_middle_loses_only_the_damaged_part() -> None:
    data = bytearray(encoded("mp3", "libmp3lame", seconds=3.0))
    data[len(data) // 2 : len(data) // 2 + 300] = bytes(300)
    assert read_any(io.BytesIO(data), limit_s=60).seconds == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000])
@pytest.mark.parametrize(("container", "codec"), [("flac", "flac"), ("adts", "aac"), ("mp3", "libmp3lame")])
def test_recording_of_exactly_the_limit_is_accepted_at_every_rate(container: str, codec: str, rate: int) -> None:
    """Resampling may add a sample, and codecs add some milliseconds of silence."""
    limits = Limits(max_reference_s=7.0)
    samples = read_reference(encoded(container, codec, seconds=7.0, rate=rate), limits)
    assert len(samples) == 7 * 24_000


# --- Tests of channels that cancel each other out.


def wav(channels: NDArray[np.float32]) -> bytes:
    return audio_file(channels.T, RATE, subtype="FLOAT")


VOICE = voice(1.5, 1, RATE)
OTHER = voice(1.5, 2, RATE)


@pytest.mark.parametrize("share", [1.0, 0.9, -0.5, 0.5, 0.0])
def test_phase_inverted_stereo_is_audible(share: float) -> None:
    data = wav(np.stack([VOICE, -share * VOICE]))
    for sound in (read_wav(data, limit_s=60), read_any(io.BytesIO(data), limit_s=60)):
        expected = VOICE if share > 0.6 else (VOICE - share * VOICE) / 2
        assert np.abs(sound.samples - expected).max() < 1e-6


def test_louder_of_two_cancelling_channel_pairs_is_used() -> None:
    data = wav(np.stack([0.1 * OTHER, -0.1 * OTHER, VOICE, -VOICE]))
    assert np.array_equal(read_any(io.BytesIO(data), limit_s=60).samples, VOICE)


def test_different_channels_are_averaged_like_the_reference() -> None:
    sound = read_wav(wav(np.stack([VOICE, OTHER, *np.zeros((6, len(VOICE)), np.float32)])), limit_s=60)
    assert np.abs(sound.samples - (VOICE + OTHER) / 8).max() < 1e-6
