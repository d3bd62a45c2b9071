"""Tests for the decoder of untrusted audio."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, ReferenceTooLong
from runtime.settings import Limits
from runtime.shared.audio import decoding
from runtime.shared.audio.decode_child import ANSWER_BYTES, Seekable
from runtime.shared.audio.decoding import _decode_in_child, decode
from runtime.shared.audio.ffmpeg_reader import read_any
from runtime.shared.audio.reference import read_reference
from runtime.shared.audio.samples import DecodedAudio
from runtime.shared.audio.wav_reader import is_plain_wav, read_wav
from runtime.shared.child import PACKAGE_ROOT, POLL_INTERVAL_S, _kill_after
from tests.support.audio_files import audio_file
from tests.support.examples import examples
from tests.support.signals import voice

VOICE = voice(1.5, 1)
RATE = 24_000


def encoded(samples: NDArray[np.generic], kind: str, subtype: str | None = None, rate: int = RATE) -> bytes:
    return audio_file(samples, rate, kind=kind, subtype=subtype)


def bomb(seconds: int, kind: str, subtype: str) -> bytes:
    """Return an audio file of `seconds` seconds of silence."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", RATE, 1, subtype, format=kind) as sound:
        for _ in range(seconds):
            sound.write(np.zeros(RATE, np.int16))
    return file.getvalue()


def wav(body: bytes, tag: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16, tail: bytes = b"") -> bytes:
    """Return a WAV file with these header fields."""
    align = channels * bits // 8
    head = struct.pack("<HHIIHH", tag, channels, rate, (rate * align) & 0xFFFFFFFF, align & 0xFFFF, bits) + tail
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


# --- Tests of WAV files, which are decoded without a child process.


@pytest.mark.parametrize("kind", ["WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_plain_wav_decodes_like_libsndfile(kind: str, subtype: str, channels: int) -> None:
    samples = np.stack([voice(1.2, seed) for seed in range(channels)], axis=1)
    data = encoded(samples, kind, subtype, 16_000)
    assert is_plain_wav(data)
    wanted, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    read = read_wav(data, limit_s=60)
    assert read.rate == rate
    if channels == 1:
        assert np.array_equal(read.samples, wanted[:, 0])
    else:
        assert np.abs(read.samples - wanted.mean(axis=1)).max() < 1e-6


def test_extra_wav_chunks_are_skipped() -> None:
    data = encoded(VOICE, "WAV", "PCM_16")
    place = data.index(b"data")
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    assert np.array_equal(read_wav(data[:place] + odd + data[place:] + odd, limit_s=60).samples, VOICE)


def test_wav_with_too_many_chunks_is_refused() -> None:
    data = encoded(VOICE, "WAV", "PCM_16")
    place = data.index(b"data")
    start = time.thread_time()
    with pytest.raises(BadReferenceAudio, match="damaged"):
        read_wav(data[:place] + b"junk\0\0\0\0" * 500_000 + data[place:], limit_s=60)
    assert time.thread_time() - start < 0.1


BODY = (np.clip(VOICE, -1, 0.999) * 32768).astype("<i2").tobytes()
EXTENSIBLE_TAIL = struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")
MALFORMED = {
    "no channels": wav(BODY, channels=0),
    "too many channels": wav(BODY, channels=9),
    "65535 channels": wav(BODY, channels=65535),
    "no rate": wav(BODY, rate=0),
    "rate of 4 GHz": wav(BODY, rate=0xFFFFFFFF),
    "no bits": wav(BODY, bits=0),
    "65528 bits": wav(BODY, bits=65528),
    "16-bit floats": wav(BODY, tag=3, bits=16),
    "unknown tag": wav(BODY, tag=0x1234),
    "no samples": wav(b""),
    "half a sample": wav(b"\x01"),
    "a short format": b"RIFF\x20\0\0\0WAVEfmt \x08\0\0\0" + bytes(8) + b"data\x08\0\0\0" + bytes(8),
    "samples before the format": b"RIFF\x20\0\0\0WAVEdata\x08\0\0\0" + bytes(8),
    "no chunks": b"RIFF\x04\0\0\0WAVE",
    "a chunk of 4 GB": wav(BODY)[:12] + b"LIST\xff\xff\xff\xff" + wav(BODY)[12:],
    "an unknown subformat": wav(BODY, tag=0xFFFE, tail=EXTENSIBLE_TAIL[:-1] + b"\x70"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_wav_is_refused(name: str) -> None:
    with pytest.raises(BadReferenceAudio):
        read_reference(MALFORMED[name], Limits())


def test_each_malformed_file_has_exactly_one_fault() -> None:
    assert np.array_equal(read_reference(wav(BODY), Limits()), VOICE)
    assert np.array_equal(read_reference(wav(BODY, tag=0xFFFE, tail=EXTENSIBLE_TAIL), Limits()), VOICE)


@settings(max_examples=examples(400), deadline=None)
@given(st.binary(max_size=200), st.integers(0, 60), st.integers(0, 40))
def test_any_wav_is_decoded_or_refused(rubbish: bytes, place: int, gone: int) -> None:
    whole = wav(BODY[:4000])
    data = whole[:place] + rubbish + whole[place + gone :]
    try:
        sound = read_wav(data, limit_s=1.0)
    except BadReferenceAudio:
        return
    assert len(sound.samples) <= 1.1 * sound.rate


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 1e300])
def test_non_finite_samples_are_refused(bits: int, value: float) -> None:
    with np.errstate(over="ignore"):
        samples = VOICE.astype(f"<f{bits // 8}")
        samples[100] = value
    with pytest.raises(BadReferenceAudio):
        read_reference(wav(samples.tobytes(), tag=3, bits=bits), Limits())


def test_overlong_wav_is_refused_before_conversion() -> None:
    with pytest.raises(ReferenceTooLong):
        read_wav(wav(bytes(RATE * 2 * 3), rate=RATE), limit_s=2.8)


# --- Tests of other formats, which are decoded in a child process.


@pytest.mark.parametrize(
    ("kind", "subtype"), [("FLAC", "PCM_16"), ("AIFF", "PCM_16"), ("WAV", "ULAW"), ("RF64", "PCM_16")]
)
def test_formats_other_than_wav_are_decoded_in_a_child_process(
    kind: str, subtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **named: started.append(named) or popen(*given, **named))
    data = encoded(VOICE, kind, subtype)
    wanted, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    assert np.array_equal(decode(data, limit_s=60).samples, wanted)
    assert len(started) == 1
    decode(encoded(VOICE, "WAV", "PCM_16"), limit_s=60)
    assert len(started) == 1


@pytest.mark.slow("MP3-MPEG_LAYER_III", "OGG-OPUS", "OGG-VORBIS")
@pytest.mark.parametrize(
    ("kind", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]
)
def test_decompression_bomb_costs_little_cpu_time(kind: str, subtype: str) -> None:
    """The file is three minutes of silence in a few kilobytes."""
    data = bomb(180, kind, subtype)
    start = sum(os.times()[:4])  # Processor time, including that of child processes.
    with pytest.raises(ReferenceTooLong):
        decode(data, limit_s=60)
    assert sum(os.times()[:4]) - start < 8


# --- Tests of M4A files.


def m4a(seconds: float = 1.5, codec: str = "aac", rate: int = 44_100, layout: str = "mono") -> bytes:
    """Return a recording in M4A, the format of phones."""
    file = io.BytesIO()
    with av.open(file, "w", format="ipod") as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(voice(seconds, 1)[None, :], format="flt", layout="mono")
        frame.sample_rate = RATE
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return file.getvalue()


@pytest.mark.parametrize(
    ("codec", "rate", "layout"), [("aac", 44_100, "mono"), ("aac", 48_000, "stereo"), ("alac", 24_000, "mono")]
)
def test_phone_recordings_are_decoded(codec: str, rate: int, layout: str) -> None:
    sound = decode(m4a(1.5, codec, rate, layout), limit_s=60)
    assert sound.rate == rate
    assert sound.seconds == pytest.approx(1.5, abs=0.1)
    if rate == RATE:  # ALAC is lossless.
        assert np.abs(sound.samples[: len(VOICE)] - VOICE).max() < 1e-4
    else:
        assert np.sqrt((sound.samples**2).mean()) == pytest.approx(np.sqrt((VOICE**2).mean()), rel=0.35)


def test_overlong_or_damaged_m4a_is_refused() -> None:
    whole = m4a()
    with pytest.raises(ReferenceTooLong):
        decode(whole, limit_s=1.0)
    for data in (whole[:400], whole[:12] + bytes(400)):
        with pytest.raises(BadReferenceAudio, match="M4A"):
            decode(data, limit_s=60)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_any_m4a_is_decoded_or_refused(data: st.DataObject) -> None:
    """The decoder runs in this process.

    Any result except a recording or a refusal is a failure.
    """
    file = bytearray(M4A)
    for place in data.draw(st.lists(st.integers(8, len(file) - 1), max_size=8)):
        file[place] = data.draw(st.integers(0, 255))
    gone = data.draw(st.integers(0, len(file)))
    try:
        sound = read_any(Seekable(bytes(file[: len(file) - gone])), limit_s=1.0)
    except BadReferenceAudio:
        return
    assert len(sound.samples) <= 1.1 * sound.rate


M4A = m4a(0.2)


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdin.buffer.read(); sys.exit(1)",
        "import ctypes; ctypes.string_at(0)",
        "raise SystemExit",
        "print('no JSON')",
        "print('[1]')",
        'print(\'{"rate": "x"}\')',
        "print('{\"rate\": 24000}\\nabc', end='')",
        'print(\'{"code": "invalid_ref_audio", "facts": {}}\')',
    ],
)
def test_crash_or_invalid_output_of_the_decoder_is_a_refusal(code: str) -> None:
    with pytest.raises(BadReferenceAudio, match="the decoder crashed"):
        _decode_in_child(bytes(10**6), 60.0, child(code))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit a process's time")
def test_decoder_cpu_timeout_is_distinguished_from_a_crash() -> None:
    code = "from runtime.shared.system import confine; confine(2**30, 1)\nwhile True: pass"
    with pytest.raises(BadReferenceAudio, match="takes longer than"):
        _decode_in_child(b"", 60.0, child(code))


def test_hanging_decoder_is_killed() -> None:
    # Without the timeout, the decoder would wait for an hour.
    with pytest.raises(BadReferenceAudio, match="takes longer than"):
        _decode_in_child(bytes(10**6), 60.0, child("import time; time.sleep(3600)"), timeout_s=0.3)


async def test_suspended_machine_does_not_time_out_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll takes an hour, as on a suspended machine.

    The timeout counts polls instead of clock time.
    """
    polls, killed = [], []

    async def sleep(seconds: float) -> None:
        polls.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await _kill_after(lambda: killed.append(len(polls)), 10.0)
    assert killed == [10 / POLL_INTERVAL_S]


def test_decoder_with_endless_output_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "ANSWER_BYTES", 10**6)
    with pytest.raises(BadReferenceAudio):
        _decode_in_child(b"", 60.0, child("while True: print('x' * 10**6)"))


def test_decoder_has_little_memory_no_files_and_no_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from runtime.shared.audio import decode_child
decode_child.confine(decode_child.MEMORY_BYTES, decode_child.CPU_S)
import runtime.shared.audio.ffmpeg_reader
assert "torch" not in sys.modules
try:
    bytearray({ANSWER_BYTES * 20})
except MemoryError:
    print("small", end=" ")
try:
    open(sys.argv[1], "w").write("x" * 10**6)
except OSError:
    print("closed", end=" ")
import resource
print(resource.getrlimit(resource.RLIMIT_CPU)[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], cwd=PACKAGE_ROOT, capture_output=True, text=True
    )
    assert done.stdout.split() == ["small", "closed", "5"], done.stderr


def test_at_most_two_decoders_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def count(*_: object) -> DecodedAudio:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return DecodedAudio(VOICE, RATE)

    monkeypatch.setattr(decoding, "_decode_in_child", count)
    with ThreadPoolExecutor(100) as pool:
        list(pool.map(lambda _: decode(b"fLaC", limit_s=60), range(100)))
    assert most == 2


def test_many_bombs_at_once_use_bounded_memory() -> None:
    """Eight threads decode files with half an hour of silence.

    The memory of this process must not grow.
    """
    data = bomb(1800, "FLAC", "PCM_16")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def refuse(_: int) -> bool:
        with pytest.raises(ReferenceTooLong):
            decode(data, limit_s=60)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(refuse, range(8)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024  # The unit of ru_maxrss is KiB.
