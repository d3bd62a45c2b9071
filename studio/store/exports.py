"""Exports of takes: joined, one file per line, subtitles, or everything in an archive.

Results are temporary files, in memory while they are small. Thread: any; long exports take seconds.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from dataclasses import dataclass
from typing import IO, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.shared.file_names import file_name
from studio.store.audio_files import FORMATS, encoded, joined_tags
from studio.store.programme import Clip, ProgrammePart, Samples, joined, parts_of, silence, subtitles
from studio.store.records import Line
from studio.store.takes import Takes

MAX_CLIPS = 4000
MAX_SILENCE_S = 60.0
LOUDNESS_LUFS = (-40.0, -5.0)
IN_MEMORY = 16 * 2**20  # Bytes kept in memory.


class ClipFields(BaseModel):
    """Take or silence. Consecutive clips with the same `line` are one file and one subtitle."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    take: str | None = None
    silence_s: Annotated[float, Field(ge=0, le=MAX_SILENCE_S)] | None = None
    line: Annotated[int, Field(ge=0, le=10**9)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ClipFields:
        if (self.take is None) == (self.silence_s is None):
            raise ValueError("a clip is either a take or a silence_s")
        return self


def _format(name: str) -> str:
    if name not in FORMATS:
        raise UnsupportedFormat(where="format", known=", ".join(FORMATS), param="format")
    return name


class ExportFields(BaseModel):
    """Request for an export."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    clips: Annotated[list[ClipFields], Field(min_length=1, max_length=MAX_CLIPS)]
    format: Annotated[str, AfterValidator(_format)] = "wav"
    shape: Literal["joined", "files", "srt", "all"] = "joined"
    loudness_lufs: Annotated[float, Field(ge=LOUDNESS_LUFS[0], le=LOUDNESS_LUFS[1])] | None = None
    name: Annotated[Line, Field(max_length=120)] = ""


@dataclass(frozen=True, slots=True)
class Export:
    """Finished temporary file, which is deleted when it is closed."""

    file: IO[bytes]
    size: int
    media_type: str
    name: str


def export(takes: Takes, owner: str, wanted: ExportFields, most_s: float) -> Export:
    """Create an export of the owner's takes.

    Raises:
        NotKept, TakeDamaged: A take is missing or damaged.
        InvalidConfig: The export would be too long, or has no take.
        StorageFailed: The takes cannot be read.
    """
    name = wanted.name or "script"
    clips = _clips(takes, owner, wanted, most_s)
    parts = parts_of(clips)
    if not parts:
        raise InvalidConfig(where="clips", why="there is no take among them", param="clips")
    if wanted.shape == "srt":
        return _whole(subtitles(parts).encode(), "application/x-subrip", file_name(name, "srt"))
    programme = joined(clips, wanted.loudness_lufs)
    if wanted.shape == "joined":
        data = _encoded(wanted.format, programme, parts, name)
        return _whole(data, FORMATS[wanted.format], file_name(name, wanted.format))
    return _archive(wanted, name, programme, parts)


def _clips(takes: Takes, owner: str, wanted: ExportFields, most_s: float) -> list[Clip]:
    records = {clip.take: takes.find(owner, clip.take) for clip in wanted.clips if clip.take is not None}
    seconds = sum(records[clip.take]["seconds"] if clip.take else clip.silence_s or 0.0 for clip in wanted.clips)
    if seconds > most_s:
        raise InvalidConfig(where="clips", why=f"they last {seconds:.0f} s; the limit is {most_s:g} s", param="clips")
    if wanted.shape == "srt":  # Subtitles only need lengths.
        sounds = {name: np.broadcast_to(np.int16(0), record["samples"]) for name, record in records.items()}
    else:
        sounds = {name: np.frombuffer(takes.pcm(owner, name)[1], "<i2") for name in records}
    return [
        silence(clip.silence_s or 0.0, clip.line)
        if clip.take is None
        else Clip(sounds[clip.take], records[clip.take], clip.line)
        for clip in wanted.clips
    ]


def _archive(wanted: ExportFields, name: str, programme: Samples, parts: list[ProgrammePart]) -> Export:
    file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  closed by its reader
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # Audio does not compress.
        if wanted.shape == "all":
            archive.writestr(file_name(name, wanted.format), _encoded(wanted.format, programme, parts, name))
            archive.writestr(file_name(name, "srt"), subtitles(parts))
        digits = max(3, len(str(len(parts))))
        for number, part in enumerate(parts, 1):
            words = f"{number:0{digits}} {part.text}"
            inside = file_name(words, wanted.format, 40)
            sound = programme[part.start : part.end]
            archive.writestr(f"lines/{inside}", _encoded(wanted.format, sound, [part], part.text[:80]))
    size = file.seek(0, 2)
    file.seek(0)
    return Export(file, size, "application/zip", file_name(name, "zip"))


def _encoded(format_: str, samples: Samples, parts: list[ProgrammePart], title: str) -> bytes:
    pcm = samples.astype("<i2", copy=False).tobytes()
    records: list[dict[str, Any]] = [record for part in parts for record in part.records]
    return encoded(format_, pcm, joined_tags(records, title, hashlib.sha256(pcm).hexdigest()))


def _whole(data: bytes, media_type: str, name: str) -> Export:
    file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  closed by its reader
    file.write(data)
    file.seek(0)
    return Export(file, len(data), media_type, name)
