"""Streaming encoder from s16le mono at 24 kHz to the response formats, based on PyAV.

Each encoded frame is sent as soon as the codec has completed it. docs/api.md lists the delays of the formats.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import IO, BinaryIO, cast

import av
import av.audio.stream
import av.container
import av.filter
import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.audio.book_container import Book, mp4_tags, write_book

AI_COMMENT = "AI-generated speech"  # Value of the tag "comment" in containers that support tags.
SPEEDS = (0.25, 4.0)
VOLUME_RANGE = (0.05, 4.0)  # Minimum and maximum factor of the volume. Above 1, a limiter keeps peaks below -1 dBFS.
BIT_RATE_RANGE = (16_000, 160_000)  # Minimum and maximum bit rate in bit/s.
# RIFF chunk id of each supported tag.
TAGS_IN_WAV = {"title": "INAM", "comment": "ICMT", "software": "ISFT", "date": "ICRD"}
DATA_CHUNK_OFFSET = 36  # Offset of the data chunk in the 44-byte header of a WAV file.
UNKNOWN_SIZE = 0xFFFFFFFF  # Value of the length field in a WAV file whose length is unknown.

_BYTES_PER_SAMPLE = 2
_MIN_STEP_TEMPO = 0.5  # Minimum tempo of one atempo filter of FFmpeg. Slower speech needs two filters.


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Codec, container and options of one response format.

    If the codec is None, the samples are sent without encoding.
    """

    media_type: str
    codec: str | None = None
    container: str = ""
    samples: str = "s16"  # Sample format of the codec.
    bit_rate: int | None = None
    frame_ms: int | None = None  # Duration of a frame in ms, or None for the default of the codec.
    codec_options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    # Additional container options for streams whose length is unknown.
    live_options: dict[str, str] = field(default_factory=dict)
    # False if the container drops non-standard tags. Their values are then added to the tag "comment".
    has_own_tags: bool = True


# Supported formats, with options that avoid delays. By default, Ogg collects one second of Opus per page, and FLAC has
# frames of 0.1 s and a padding block of 8 KiB.
FORMATS: dict[str, Format] = {
    "mp3": Format(
        media_type="audio/mpeg",
        codec="libmp3lame",
        container="mp3",
        samples="s16p",
        bit_rate=64_000,
        codec_options={"reservoir": "0"},
        live_options={"write_xing": "0"},
    ),
    "opus": Format(
        media_type="audio/ogg",
        codec="libopus",
        container="ogg",
        bit_rate=48_000,
        live_options={"page_duration": "20000"},
    ),
    "aac": Format(media_type="audio/aac", codec="aac", container="adts", samples="fltp", bit_rate=64_000),
    "flac": Format(
        media_type="audio/flac",
        codec="flac",
        container="flac",
        frame_ms=40,
        container_options={"metadata_header_padding": "0"},
    ),
    "wav": Format(media_type="audio/wav"),
    "pcm": Format(media_type="audio/pcm"),
}
# Audiobook format. It is not available for responses, because it needs the complete file.
M4B = Format(
    media_type="audio/mp4",
    codec="aac",
    container="mp4",
    samples="fltp",
    bit_rate=64_000,
    container_options={"brand": "M4B "},
    has_own_tags=False,
)


class Encoder:
    """Encoder of one audio stream to a response format.

    The encoded file is the concatenation of the results of `encode_pcm` and `finish`. If `whole` is True, the header
    has the exact length. Then only `finish` returns bytes.

    Thread: any. One thread at a time uses the encoder.

    Raises:
        KeyError: The format is neither in ``FORMATS`` nor ``m4b``.
    """

    def __init__(
        self,
        response_format: str,
        *,
        rate: int = SAMPLE_RATE,
        speed: float = 1.0,
        volume: float = 1.0,
        bit_rate: int | None = None,
        whole: bool = False,
        file: IO[bytes] | None = None,
        tags: Mapping[str, str] | None = None,
        book: Book | None = None,
    ) -> None:
        """Create an encoder for one response format.

        Args:
            response_format: Key of ``FORMATS``, or ``m4b``.
            rate: Sample rate of the output in Hz.
            speed: Factor for the speed of the audio.
            volume: Factor for the samples. If it is above 1, a limiter reduces the peaks.
            bit_rate: Bit rate of the codec in bit/s, or None for the format's default.
            whole: True to encode a complete file with the exact length in its header.
            file: Empty seekable file that receives the encoded bytes. `encode_pcm` and `finish` then return no bytes.
            tags: Metadata of the file, in addition to a comment about AI-generated speech. WAV supports title, comment,
                software and date. Other tags are appended to the comment. Without tags, a WAV has no metadata.
            book: Chapters and cover of an MP3 or M4B file.
        """
        form = M4B if response_format == "m4b" else FORMATS[response_format]
        if bit_rate is not None:
            form = replace(form, bit_rate=bit_rate)
        self.media_type = form.media_type
        is_reshaped = (rate, speed, volume) != (SAMPLE_RATE, 1.0, 1.0)
        self._reshaper = _Reshaper(rate, speed, volume) if is_reshaped else None
        self._writer: _Coded | _Wav | _Plain
        self._held = io.BytesIO() if whole and file is None else None
        out = self._held if file is None else file
        commented = {"comment": AI_COMMENT, **(tags or {})}
        if form.codec is not None:
            self._writer = _Coded(form, form.codec, rate, out, commented, book)
        elif response_format == "wav":
            self._writer = _Wav(rate, out, commented if tags else {})
        else:
            self._writer = _Plain(out)

    @property
    def is_instant(self) -> bool:
        """True if `encode_pcm` and `finish` take only microseconds.

        Otherwise, a call takes up to a millisecond per 80 ms of audio.
        """
        return self._reshaper is None and not isinstance(self._writer, _Coded)

    def encode_pcm(self, pcm: bytes) -> bytes:
        """Encode s16le samples at 24 kHz and return the encoded bytes that are ready, or ``b""``."""
        if self._reshaper is not None:
            pcm = self._reshaper.encode_pcm(pcm)
        return self._writer.encode_pcm(pcm) if pcm else b""

    def finish(self) -> bytes:
        """End the encoded file and return its last bytes.

        The encoder cannot be used after this call.
        """
        rest = b"" if self._reshaper is None else self._reshaper.finish()
        data = (self._writer.encode_pcm(rest) if rest else b"") + self._writer.finish()
        return data if self._held is None else self._held.getvalue()


class _Plain:
    def __init__(self, out: IO[bytes] | None) -> None:
        self._out = out

    def encode_pcm(self, pcm: bytes) -> bytes:
        if self._out is None:
            return pcm
        self._out.write(pcm)
        return b""

    def finish(self) -> bytes:
        return b""


class _Wav:
    """Encoder of WAV with a 44-byte header, or with tags before the samples.

    Simple clients expect the 44-byte header. There are no chunks after the samples because simple clients play all
    bytes after the header.
    """

    def __init__(self, rate: int, out: IO[bytes] | None, tags: Mapping[str, str]) -> None:
        self._rate = rate
        self._out = out
        self._info = _riff("LIST", b"INFO" + b"".join(_riff(*tag) for tag in _wav_tags(tags))) if tags else b""
        self._begun = False
        if out is not None:
            out.write(self._whole_header(0))

    def encode_pcm(self, pcm: bytes) -> bytes:
        if self._out is not None:
            self._out.write(pcm)
            return b""
        head = b"" if self._begun else wav_header(self._rate)
        self._begun = True
        return head + pcm

    def finish(self) -> bytes:
        if self._out is None:
            return b"" if self._begun else wav_header(self._rate)
        size = self._out.tell() - len(self._whole_header(0))
        self._out.seek(0)
        self._out.write(self._whole_header(size))
        return b""

    def _whole_header(self, size: int) -> bytes:
        """Return the WAV header for `size` bytes of samples, including the tags."""
        head = wav_header(self._rate, sizes=(36 + size + len(self._info), size))
        return head[:DATA_CHUNK_OFFSET] + self._info + head[DATA_CHUNK_OFFSET:]


class _Coded:
    """Encoder that uses a codec and a container.

    The encoder may be discarded before `finish` is called.
    """

    def __init__(
        self,
        form: Format,
        codec: str,
        rate: int,
        out: IO[bytes] | None,
        tags: Mapping[str, str],
        book: Book | None,
    ) -> None:
        self._rate = rate
        self._samples = form.samples
        is_complete = out is not None
        # If the output is a file, the container writes the lengths into the header at the end.
        self._out: IO[bytes] | _Pipe = _Pipe() if out is None else out
        options = {"flush_packets": "1", **form.container_options, **({} if is_complete else form.live_options)}
        self._container = av.container.open(self._out, "w", format=form.container, options=options)
        self._container.metadata.update(tags if form.has_own_tags else mp4_tags(tags))
        # If no client is waiting for the audio, the default frame length of the codec is used, because it gives smaller
        # files.
        frame = {} if is_complete or form.frame_ms is None else {"frame_size": str(rate * form.frame_ms // 1000)}
        stream = self._container.add_stream(codec, rate=rate, options={**form.codec_options, **frame}, layout="mono")
        self._stream = cast(av.audio.stream.AudioStream, stream)
        self._stream.format = form.samples
        if form.bit_rate is not None:
            self._stream.bit_rate = form.bit_rate
        if book is not None:
            write_book(self._container, book)
        self._made = 0

    def __del__(self) -> None:
        # The container is closed here, because it and the stream reference each other, and the codec's threads run
        # until it is closed. There is no method `close`, because a worker thread may still run `encode_pcm` when the
        # response is aborted.
        container = getattr(self, "_container", None)  # The attribute is missing if `__init__` has failed.
        if container is not None:
            with contextlib.suppress(av.FFmpegError):
                container.close()

    def encode_pcm(self, pcm: bytes) -> bytes:
        frame = _frame(pcm, self._samples, self._rate, self._made)
        self._made += frame.samples
        self._container.mux(self._stream.encode(frame))
        return self._taken()

    def finish(self) -> bytes:
        if not self._made:  # Without any samples, the codec would write a file that cannot be read.
            self.encode_pcm(bytes(_BYTES_PER_SAMPLE))
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._taken()

    def _taken(self) -> bytes:
        return self._out.pop_bytes() if isinstance(self._out, _Pipe) else b""


class _Reshaper:
    """Filter that changes the tempo (FFmpeg's atempo), the volume and the sample rate."""

    def __init__(self, rate: int, speed: float, volume: float) -> None:
        self._graph = av.filter.Graph()
        nodes = [
            self._graph.add_abuffer(
                sample_rate=SAMPLE_RATE, format="s16", layout="mono", time_base=Fraction(1, SAMPLE_RATE)
            ),
            *(self._graph.add("atempo", f"{step:.6f}") for step in _tempo_steps(speed)),
            *(self._graph.add(name, arguments) for name, arguments in _volume_filters(volume)),
            self._graph.add("aresample", str(rate)),
            self._graph.add("aformat", "sample_fmts=s16:channel_layouts=mono"),
            self._graph.add("abuffersink"),
        ]
        self._graph.link_nodes(*nodes).configure()
        self._fed = 0

    def encode_pcm(self, pcm: bytes) -> bytes:
        if not pcm:
            return b""
        frame = _frame(pcm, "s16", SAMPLE_RATE, self._fed)
        self._fed += frame.samples
        self._graph.push(frame)
        return b"".join(self._pulled())

    def finish(self) -> bytes:
        if not self._fed:
            return b""
        self._graph.push(None)
        return b"".join(self._pulled())

    def _pulled(self) -> Iterator[bytes]:
        while True:
            try:
                frame = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            yield cast(av.AudioFrame, frame).to_ndarray().tobytes()


class _Pipe(io.RawIOBase):
    """Output buffer of a container, which cannot seek."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # PyAV writes only bytes.
        self._held += data
        return len(data)

    def pop_bytes(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken


def wav_header(
    rate: int,
    *,
    code: int = 1,
    width: int = _BYTES_PER_SAMPLE,
    sizes: tuple[int, int] = (UNKNOWN_SIZE, UNKNOWN_SIZE),
) -> bytes:
    """Return the 44-byte WAV header of mono samples.

    Args:
        rate: Sample rate in Hz.
        code: Format code of RIFF.
        width: Number of bytes per sample.
        sizes: Sizes of the file and of the samples in bytes.
    """
    format_ = struct.pack("<IHHIIHH", 16, code, 1, rate, rate * width, width, 8 * width)
    riff, data = (struct.pack("<I", size) for size in sizes)
    return b"RIFF" + riff + b"WAVEfmt " + format_ + b"data" + data


def read_tags(file: str | BinaryIO) -> dict[str, str]:
    """Return the metadata tags of an audio file with lower-case names.

    Returns:
        Tags by name, or an empty dictionary if the file has no metadata or is not audio.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with av.open(file, metadata_errors="replace") as container:
            streams = [dict(stream.metadata) for stream in container.streams.audio]
            found = {name: value for tags in (*streams, container.metadata) for name, value in tags.items()}
    except (av.InvalidDataError, av.EOFError):
        return {}
    return {name.lower(): value for name, value in found.items()}


def _wav_tags(tags: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    others = [f"{name}: {value}" for name, value in tags.items() if name not in TAGS_IN_WAV]
    for name, value in tags.items():
        if name in TAGS_IN_WAV:
            text = "; ".join([value, *others]) if name == "comment" else value
            yield TAGS_IN_WAV[name], text.encode() + b"\0"


def _riff(name: str, content: bytes) -> bytes:
    """Return a RIFF chunk: name, length, content, and a padding byte for odd lengths."""
    return name.encode() + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def _frame(pcm: bytes, samples: str, rate: int, first_sample: int) -> av.AudioFrame:
    """Convert s16le samples to an FFmpeg frame.

    For mono audio, planar and interleaved layouts are the same.
    """
    values: NDArray[np.int16] | NDArray[np.float32] = np.frombuffer(pcm, "<i2")[None]
    if samples == "fltp":
        values = values.astype(np.float32) / np.float32(32768)
    frame = av.AudioFrame.from_ndarray(values, format=samples, layout="mono")
    frame.sample_rate = rate
    frame.time_base = Fraction(1, rate)
    frame.pts = first_sample
    return frame


def _volume_filters(volume: float) -> Iterator[tuple[str, str]]:
    if volume != 1.0:
        yield "volume", f"volume={volume:.6f}:precision=double"
    if volume > 1.0:
        yield "alimiter", "limit=0.89:level=0:latency=1"


def _tempo_steps(speed: float) -> Iterator[float]:
    while speed < _MIN_STEP_TEMPO:
        yield _MIN_STEP_TEMPO
        speed /= _MIN_STEP_TEMPO
    if speed != 1.0:
        yield speed
