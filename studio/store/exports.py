"""Exports of recordings: one audio file, several files, subtitles, or a zip archive.

Small exports are temporary files in memory. Exports of several hours are written to the store's folder, so only the
disk limits their size. Thread: any. Long exports take minutes.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.request import SAMPLE_RATE
from runtime.shared.audio.book_container import MAX_COVER_BYTES, Book, BookChapter, read_cover
from runtime.shared.audio.encoding import BIT_RATE_RANGE
from runtime.shared.audio.loudness import LOUDNESS_RANGE_LUFS, normalize_loudness_in_pieces
from runtime.shared.file_names import file_name
from runtime.shared.files import storing
from studio.errors import StoreFull
from studio.store.audio_files import EXPORT_FORMATS, encode_into, joined_tags
from studio.store.joined_audio import (
    AudioPart,
    Clip,
    ReadTake,
    Samples,
    join_clips,
    parts_of,
    place_clips,
    silence,
    subtitles,
    without_edges,
)
from studio.store.records import MAX_SCRIPT_LINES, Fields, Line
from studio.store.takes import Takes

# Maximum number of clips. It is enough for scripts in which each line has a pause and half of the lines have two takes.
MAX_CLIPS = 5 * MAX_SCRIPT_LINES // 2
MAX_CHAPTERS = 1000
BOOK_FORMATS = ("m4b", "mp3")  # Formats with chapters and a cover.
LOSSY_FORMATS = ("m4b", "mp3", "opus")  # Formats with a bit rate.
MAX_SILENCE_S = 60.0
MAX_TIME_S = 86_400.0
MAX_OVERRUN_S = 0.1  # Maximum excess in seconds over the requested length that is not reported.
MAX_NAMED_LINES = 400  # Maximum number of lines listed in a note.
MAX_MEMORY_BYTES = 16 * 2**20  # Maximum size in bytes of a file in memory. Larger files are on disk.
PIECE_SAMPLES = 60 * SAMPLE_RATE  # Number of samples in one encoding step.
MAX_WAV_BYTES = 2**32 - 2**20  # Maximum size in bytes of a WAV file, which has a 32-bit length field.
MIB = 2**20


class ClipFields(Fields):
    """Request fields for a clip of an export: one stored recording or one silence.

    Consecutive clips with the same `line` form one file. They also form one subtitle, or several if the text is long.
    """

    take: str | None = None
    silence_s: Annotated[float, Field(ge=0, le=MAX_SILENCE_S)] | None = None
    line: Annotated[int, Field(ge=0, le=10**9)] | None = None
    # Start time of a line in seconds, set only for its first clip.
    starts_s: Annotated[float, Field(ge=0, le=MAX_TIME_S)] | None = None
    speaker: Annotated[Line, Field(max_length=120)] = ""  # Name of the speaker in the subtitles.

    @model_validator(mode="after")
    def _one_of_both(self) -> ClipFields:
        if (self.take is None) == (self.silence_s is None):
            raise ValueError("a clip is either a take or a silence_s")
        return self


class ChapterFields(Fields):
    """Request fields for a chapter of an export: its title and the index of its first clip."""

    title: Annotated[Line, Field(max_length=120)] = ""
    first_clip: Annotated[int, Field(ge=0)]


def _format(name: str) -> str:
    if name not in EXPORT_FORMATS:
        raise UnsupportedFormat(where="format", known=", ".join(EXPORT_FORMATS), param="format")
    return name


def _cover(image: str) -> str:
    if read_cover(image) is None:
        raise ValueError(f"it must be a data URL of a JPEG or PNG file of at most {MAX_COVER_BYTES // 1024} KB")
    return image


class ExportFields(Fields):
    """Request for an export, with all fields validated."""

    clips: Annotated[list[ClipFields], Field(min_length=1, max_length=MAX_CLIPS)]
    format: Annotated[str, AfterValidator(_format)] = "wav"
    bit_rate: Annotated[int, Field(ge=BIT_RATE_RANGE[0], le=BIT_RATE_RANGE[1])] | None = None
    shape: Literal["joined", "files", "chapters", "srt", "all"] = "joined"
    loudness_lufs: Annotated[float, Field(ge=LOUDNESS_RANGE_LUFS[0], le=LOUDNESS_RANGE_LUFS[1])] | None = None
    name: Annotated[Line, Field(max_length=120)] = ""
    author: Annotated[Line, Field(max_length=200)] = ""
    cover: Annotated[str, AfterValidator(_cover)] | None = Field(None, repr=False)
    length_s: Annotated[float, Field(gt=0, le=MAX_TIME_S)] | None = None
    chapters: list[ChapterFields] = Field(default_factory=list, max_length=MAX_CHAPTERS, validate_default=True)

    @field_validator("bit_rate")
    @classmethod
    def _of_lossy_format(cls, rate: int | None, info: ValidationInfo) -> int | None:
        if rate is not None and info.data.get("format") not in LOSSY_FORMATS:
            raise ValueError("only mp3, opus and m4b have one")
        return rate

    @field_validator("chapters")
    @classmethod
    def _in_order(cls, chapters: list[ChapterFields], info: ValidationInfo) -> list[ChapterFields]:
        firsts = [chapter.first_clip for chapter in chapters]
        if any(later <= earlier for earlier, later in pairwise([*firsts, len(info.data.get("clips", ()))])):
            raise ValueError("each must begin after the one before it, at one of the clips")
        if not firsts and info.data.get("shape") == "chapters":
            raise ValueError("the shape chapters needs at least one")
        return chapters


@dataclass(frozen=True, slots=True)
class Export:
    """Result of an export, in a temporary file that is deleted when it is closed."""

    file: IO[bytes]
    size: int
    media_type: str
    name: str
    notes: tuple[str, ...] = ()


def export(takes: Takes, owner: str, wanted: ExportFields, folder: Path, max_s: float | None) -> Export:
    """Create an export (an audio file, a zip archive or subtitles) of an owner's recordings.

    Args:
        takes: Storage of recordings.
        owner: Owner of the recordings.
        wanted: Validated request.
        folder: Folder for temporary files.
        max_s: Maximum duration in seconds, or None if it is unlimited.

    Raises:
        NotKept, TakeDamaged: A recording does not exist or is damaged.
        InvalidConfig: The export would be too long, or contains no recording.
        StoreFull: The disk has too little space.
        StorageFailed: The recordings cannot be read, or writing to the disk failed.
    """
    name = wanted.name or "script"
    read_take = _reader(takes, owner)
    with storing("The export", "takes"):
        clips, notes = _timed(_clips(takes, owner, wanted), wanted, read_take)
    parts = parts_of(clips)
    if not parts:
        raise InvalidConfig(where="clips", why="they contain no take", param="clips")
    samples = sum(clip.samples for clip in clips)
    _check_length(samples, wanted, max_s)
    with storing("The export", "takes"):
        if wanted.shape == "srt":
            file = _temporary(folder)
            file.write(subtitles(parts).encode())
            return _finished(file, "application/x-subrip", file_name(name, "srt"), notes)
        _check_disk(samples, wanted, folder)
        joined = _stored(join_clips(clips, read_take, wanted.loudness_lufs), folder)
        if wanted.loudness_lufs is not None:
            joined = _stored(normalize_loudness_in_pieces(joined, wanted.loudness_lufs), folder)
        chapters = _chapters(wanted, clips, name)
        audio = _Audio(wanted, name, joined, parts, chapters, folder)
        if wanted.shape == "joined":
            media_type = EXPORT_FORMATS[wanted.format]
            return _finished(audio.file(0, samples, name), media_type, file_name(name, wanted.format), notes)
        return _finished(_archive(wanted, name, audio, folder), "application/zip", file_name(name, "zip"), notes)


def _clips(takes: Takes, owner: str, wanted: ExportFields) -> list[Clip]:
    records = {clip.take: takes.find(owner, clip.take) for clip in wanted.clips if clip.take is not None}
    return [
        silence(clip.silence_s or 0.0, clip.line)
        if clip.take is None
        else Clip(
            records[clip.take]["samples"], records[clip.take], clip.line, _sample(clip.starts_s), speaker=clip.speaker
        )
        for clip in wanted.clips
    ]


def _sample(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SAMPLE_RATE)


def _timed(clips: list[Clip], wanted: ExportFields, read_take: ReadTake) -> tuple[list[Clip], tuple[str, ...]]:
    """If the request has start times, place the clips at the start times of their lines.

    Also return notes about lines that do not fit.

    Raises:
        InvalidConfig: Some lines have no start time, or the start times decrease.
    """
    if all(clip.start is None for clip in clips):
        return clips, ()
    spoken = [clip for clip in clips if clip.line is not None]
    starts = [next(group).start for _, group in groupby(spoken, key=lambda clip: clip.line)]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or known != sorted(known) or wanted.chapters:
        why = "with starts_s, every line needs one, in ascending order, and chapters are not allowed"
        raise InvalidConfig(where="clips", why=why, param="clips")
    spoken = [without_edges(clip, read_take) for clip in spoken]
    placed, late = place_clips(spoken, _sample(wanted.length_s))
    notes = []
    if late:
        named = [f"{each.line} by {each.seconds:.1f} s" for each in late[:MAX_NAMED_LINES]]
        more = ["..."] if len(late) > MAX_NAMED_LINES else []
        reason = "because the ones before are too long"
        notes.append(f"{len(late)} lines begin late, {reason}: {', '.join(named + more)}.")
    seconds = sum(clip.samples for clip in placed) / SAMPLE_RATE
    if wanted.length_s is not None and seconds - wanted.length_s > MAX_OVERRUN_S:
        notes.append(f"The audio ends {seconds - wanted.length_s:.1f} s after the given length.")
    return placed, tuple(notes)


def _reader(takes: Takes, owner: str) -> ReadTake:
    return lambda take_id: np.frombuffer(takes.pcm(owner, take_id)[1], "<i2")


def _check_length(samples: int, wanted: ExportFields, max_s: float | None) -> None:
    seconds = samples / SAMPLE_RATE
    if max_s is not None and seconds > max_s:
        raise InvalidConfig(where="clips", why=f"they last {seconds:.0f} s; the limit is {max_s:g} s", param="clips")
    if wanted.format == "wav" and 2 * samples > MAX_WAV_BYTES:
        raise InvalidConfig(
            where="format", why="a WAV file can have at most 24 hours; choose another format", param="format"
        )


def _check_disk(samples: int, wanted: ExportFields, folder: Path) -> None:
    """Raise StoreFull if the disk has too little space for the temporary files of an export.

    The joined audio is stored before and after its loudness is normalized.
    """
    copies = 2 + (wanted.loudness_lufs is not None) + 2 * (wanted.shape == "all")
    needed, free = 2 * samples * copies, shutil.disk_usage(folder).free
    if needed > free:
        why = f"it needs up to {needed // MIB} MB of the disk, which has {free // MIB} MB left"
        raise StoreFull(what="The export", why=why)


def _stored(pieces: Iterable[Samples], folder: Path) -> Samples:
    """Write samples to a temporary file, and return them as a memory-mapped array."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for piece in pieces:
            file.write(piece.astype("<i2", copy=False).tobytes())
        file.flush()
        return np.memmap(file, "<i2", mode="r")


def _chapters(wanted: ExportFields, clips: list[Clip], name: str) -> list[tuple[str, int, int]]:
    """Return the title, the first sample and the end sample of each chapter."""
    starts = [0, *accumulate(clip.samples for clip in clips)]
    begins = [(chapter.title or name, starts[chapter.first_clip]) for chapter in wanted.chapters]
    if begins and begins[0][1] > 0:
        begins.insert(0, (name, 0))
    ends = [start for _, start in begins[1:]] + starts[-1:]
    return [(title, start, end) for (title, start), end in zip(begins, ends, strict=False)]


@dataclass(frozen=True, slots=True)
class _Audio:
    """Joined audio of all clips, sections of which are encoded as files."""

    wanted: ExportFields
    name: str
    samples: Samples
    parts: list[AudioPart]
    chapters: list[tuple[str, int, int]]
    folder: Path

    def file(self, start: int, end: int, title: str, chapter: int | None = None) -> IO[bytes]:
        """Encode the samples from `start` to `end` as an audio file, and add metadata tags.

        If the file is a chapter, `chapter` is its number. It is stored as a tag because players otherwise sort by
        title.
        """
        within = [part for part in self.parts if start <= part.start < end]
        records: list[dict[str, Any]] = [record for part in within for record in part.records]
        digest = hashlib.sha256()
        for piece in self._pieces(start, end):
            digest.update(piece)
        tags = joined_tags(records, title, digest.hexdigest()) | self._book_tags()
        if chapter is not None:
            tags |= {"album": self.name, "track": f"{chapter}/{len(self.chapters)}"}
        file = _temporary(self.folder)
        wanted = self.wanted
        encode_into(file, wanted.format, self._pieces(start, end), tags, self._book(start, end), wanted.bit_rate)
        return file

    def _book_tags(self) -> dict[str, str]:
        """Return the tags that mark a file as an audiobook (empty for other files)."""
        author = {"artist": self.wanted.author, "album_artist": self.wanted.author} if self.wanted.author else {}
        if self.wanted.format != "m4b" and not author:
            return {}
        return {"album": self.name, "genre": "Audiobook", **author}

    def _book(self, start: int, end: int) -> Book | None:
        """Return the cover and the chapters of a section, or None if the format has no chapters."""
        if self.wanted.format not in BOOK_FORMATS:
            return None
        chapters = [
            BookChapter(title, (max(first, start) - start) / SAMPLE_RATE, (min(last, end) - start) / SAMPLE_RATE)
            for title, first, last in self.chapters
            if first < end and start < last
        ]
        return Book(chapters, None if self.wanted.cover is None else read_cover(self.wanted.cover))

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        return (self.samples[at : min(at + PIECE_SAMPLES, end)].tobytes() for at in range(start, end, PIECE_SAMPLES))


def _archive(wanted: ExportFields, name: str, audio: _Audio, folder: Path) -> IO[bytes]:
    file = _temporary(folder)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # Compression would not make audio smaller.

        def add(path: str, start: int, end: int, title: str, chapter: int | None = None) -> None:
            with audio.file(start, end, title, chapter) as content:
                size = content.seek(0, 2)
                content.seek(0)
                dated = zipfile.ZipInfo(path, time.localtime()[:6])
                with archive.open(dated, "w", force_zip64=size >= 2**31) as entry:
                    shutil.copyfileobj(content, entry)

        if wanted.shape == "all":
            add(file_name(name, wanted.format), 0, len(audio.samples), name)
            archive.writestr(file_name(name, "srt"), subtitles(audio.parts))
        if wanted.shape in {"all", "chapters"}:
            digits = max(2, len(str(len(audio.chapters))))
            for number, (title, start, end) in enumerate(audio.chapters, 1):
                inside = file_name(f"{number:0{digits}} {title}", wanted.format, 60)
                add(f"chapters/{inside}", start, end, title, number)
        if wanted.shape in {"all", "files"}:
            digits = max(3, len(str(len(audio.parts))))
            for number, part in enumerate(audio.parts, 1):
                inside = file_name(f"{number:0{digits}} {part.text}", wanted.format, 40)
                add(f"lines/{inside}", part.start, part.end, part.text[:80])
    return file


def _temporary(folder: Path) -> IO[bytes]:
    file: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115  the reader closes it
    return file


def _finished(file: IO[bytes], media_type: str, name: str, notes: tuple[str, ...]) -> Export:
    size = file.seek(0, 2)
    file.seek(0)
    return Export(file, size, media_type, name, notes)
