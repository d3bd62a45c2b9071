"""Programme of takes and silences: joined audio with normalized loudness, and subtitles.

Samples are int16, mono, 24 kHz throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.loudness import gain_to, levelled
from studio.store.records import words_read

Samples = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Clip:
    """Take with its audio, or silence without a record. Consecutive clips of one `line` belong together.

    Shapes: samples [N].
    """

    samples: Samples
    record: dict[str, Any] | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ProgrammePart:
    """Line of the programme, from the first sample of its first take to the last sample of its last."""

    start: int
    end: int
    records: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        return " ".join(" ".join(words_read(record).split()) for record in self.records)


def silence(seconds: float, line: int | None = None) -> Clip:
    return Clip(np.zeros(round(seconds * SAMPLE_RATE), np.int16), None, line)


def parts_of(clips: Iterable[Clip]) -> list[ProgrammePart]:
    """Return the lines with their positions in the programme."""
    parts: list[ProgrammePart] = []
    for _, group in groupby(_placed(clips), key=lambda item: item[0]):
        takes = [(start, clip) for _, start, clip in group if clip.record is not None]
        if takes:
            last, clip = takes[-1]
            records = tuple(clip.record for _, clip in takes if clip.record is not None)
            parts.append(ProgrammePart(takes[0][0], last + len(clip.samples), records))
    return parts


def joined(clips: list[Clip], loudness_lufs: float | None) -> Samples:
    """Return the joined audio; without a loudness, samples are unchanged.

    With a loudness, each voice is normalized first and then the whole, so that speakers match and a voice's whispered
    lines stay quieter. Peaks are limited to -1 dBTP.
    """
    if loudness_lufs is None:
        return np.concatenate([np.zeros(0, np.int16), *(clip.samples for clip in clips)])
    gains: dict[object, float] = {}
    for voice in dict.fromkeys(_voice(clip) for clip in clips if clip.record is not None):
        spoken = np.concatenate([clip.samples for clip in clips if clip.record is not None and _voice(clip) == voice])
        gains[voice] = gain_to(loudness_lufs, spoken)
    # Scale relative to the loudest voice, so that no sample overflows before the limiter.
    loudest = max(gains.values(), default=0.0)
    matched = [_scaled(clip, gains[_voice(clip)] - loudest) if clip.record is not None else clip for clip in clips]
    return levelled(joined(matched, None), loudness_lufs)


def subtitles(parts: Iterable[ProgrammePart]) -> str:
    """Return the lines as SRT."""
    cues = [
        f"{number}\n{_time(part.start)} --> {_time(part.end)}\n{part.text.replace('-->', '->')}\n"
        for number, part in enumerate(parts, 1)
    ]
    return "\n".join(cues)


def _placed(clips: Iterable[Clip]) -> Iterator[tuple[object, int, Clip]]:
    """Yield each clip with its line and first sample. A clip without a line counts as its own line."""
    at = 0
    for number, clip in enumerate(clips):
        yield ("line", clip.line) if clip.line is not None else ("clip", number), at, clip
        at += len(clip.samples)


def _voice(clip: Clip) -> tuple[object, ...]:
    """Return a key that is equal for takes in the same voice."""
    record = clip.record or {}
    model = record.get("model")
    described = record["config"].get("instructions") if record.get("mode") == "voice_design" else None
    named = model.get("id") if isinstance(model, dict) else model
    return record.get("mode"), record.get("voice"), record.get("reference"), named, described


def _scaled(clip: Clip, gain_db: float) -> Clip:
    """Attenuate samples by a gain."""
    values = np.round(clip.samples * 10 ** (min(gain_db, 0.0) / 20)).astype(np.int16)
    return Clip(values, clip.record, clip.line)


def _time(sample: int) -> str:
    ms = round(1000 * sample / SAMPLE_RATE)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
