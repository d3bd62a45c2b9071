"""Programme of takes and silences: joined audio with normalized loudness, and subtitles.

Samples are int16, mono, 24 kHz throughout. A programme may last for hours, so its audio is read and returned in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.loudness import gain_to, integrated_of
from studio.store.records import words_read

Samples = NDArray[np.int16]
ReadTake = Callable[[str], Samples]  # Returns the samples of a take by its id.


@dataclass(frozen=True, slots=True)
class Clip:
    """Take, or silence without a record. Consecutive clips of one `line` belong together."""

    samples: int
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
    return Clip(round(seconds * SAMPLE_RATE), None, line)


def parts_of(clips: Iterable[Clip]) -> list[ProgrammePart]:
    """Return the lines with their positions in the programme."""
    parts: list[ProgrammePart] = []
    for _, group in groupby(_placed(clips), key=lambda item: item[0]):
        takes = [(start, clip) for _, start, clip in group if clip.record is not None]
        if takes:
            last, clip = takes[-1]
            records = tuple(clip.record for _, clip in takes if clip.record is not None)
            parts.append(ProgrammePart(takes[0][0], last + clip.samples, records))
    return parts


def joined(clips: list[Clip], read: ReadTake, loudness_lufs: float | None) -> Iterator[Samples]:
    """Yield the audio of each clip; without a loudness, samples are unchanged.

    With a loudness, each voice is scaled to match the others, so that a voice's whispered lines stay quieter. The whole
    is to be normalized afterwards.
    """
    gains = {} if loudness_lufs is None else _gains(clips, read, loudness_lufs)
    for clip in clips:
        if clip.record is None:
            yield np.zeros(clip.samples, np.int16)
        else:
            samples, gain_db = read(clip.record["id"]), gains.get(_voice(clip.record), 0.0)
            yield np.round(samples * 10 ** (gain_db / 20)).astype(np.int16) if gain_db else samples


def _gains(clips: list[Clip], read: ReadTake, loudness_lufs: float) -> dict[object, float]:
    """Return the gain of each voice in dB, at most 0, so that no sample overflows before the limiter."""
    takes: dict[object, list[str]] = {}
    for clip in clips:
        if clip.record is not None:
            takes.setdefault(_voice(clip.record), []).append(clip.record["id"])
    gains = {voice: gain_to(loudness_lufs, integrated_of(map(read, ids))) for voice, ids in takes.items()}
    loudest = max(gains.values(), default=0.0)
    return {voice: gain - loudest for voice, gain in gains.items()}


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
        at += clip.samples


def _voice(record: dict[str, Any]) -> tuple[object, ...]:
    """Return a key that is equal for takes in the same voice."""
    model = record.get("model")
    described = record["config"].get("instructions") if record.get("mode") == "voice_design" else None
    named = model.get("id") if isinstance(model, dict) else model
    return record.get("mode"), record.get("voice"), record.get("reference"), named, described


def _time(sample: int) -> str:
    ms = round(1000 * sample / SAMPLE_RATE)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
