"""Audio that joins recordings and pauses, with equalized loudness, and its subtitles.

Samples are int16, mono, 24 kHz. The audio may last for hours, so it is read and returned in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.audio.encoding import Encoder
from runtime.shared.audio.loudness import gain_to, measure_loudness_of_pieces
from runtime.shared.text.word_times import MAX_CUE_CHARS, TimedWords, cue_ranges, divide_time_by_length, spans_of
from studio.store.records import displayed_text

Samples = NDArray[np.int16]
MAX_TEMPO = 1.15
_MAX_SILENT_SHARE = 0.02  # Fraction of a take's peak below which samples count as silence.
_EDGE_SAMPLES = SAMPLE_RATE // 50  # Number of samples that are kept before and after the speech of a take.
_MAX_LATE = SAMPLE_RATE // 10 - _EDGE_SAMPLES  # Maximum delay in samples of a line that counts as on time.
ReadTake = Callable[[str], Samples]  # Function that returns the samples of the take with this id.


@dataclass(frozen=True, slots=True)
class Clip:
    """Part of the joined audio: one stored recording, or silence.

    Consecutive clips with the same `line` belong to one line of the script.
    """

    samples: int
    record: dict[str, Any] | None = None
    line: int | None = None
    start: int | None = None  # Sample at which the line starts, or None to start directly after the previous line.
    tempo: float = 1.0  # Speed factor. If it is greater than 1, the audio is shortened to `samples`.
    span: tuple[int, int] | None = None  # Range of the take's samples that is used, or None for all samples.
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class AudioPart:
    """One line of a script in the joined audio.

    `records` are the metadata records of the line's recordings. `spans` has the first sample and the end of each
    recording.
    """

    records: tuple[dict[str, Any], ...]
    spans: tuple[tuple[int, int], ...]
    speaker: str = ""

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def end(self) -> int:
        return self.spans[-1][1]

    @property
    def text(self) -> str:
        return " ".join(map(_text, self.records))

    def captions(self) -> Iterator[tuple[int, int, str]]:
        """Yield the first sample, the end sample and the text of each subtitle of the line.

        A line that is too long for one subtitle is split, if possible between sentences. The times of the parts are
        estimated from the lengths of the words.
        """
        if len(self.text) <= MAX_CUE_CHARS:
            yield self.start, self.end, self.text
            return
        words = TimedWords()
        for record, (start, end) in zip(self.records, self.spans, strict=True):
            words.join(divide_time_by_length(spans_of(f"{_text(record)} "), start / SAMPLE_RATE, end / SAMPLE_RATE))
        ranges: list[tuple[int, int]] = []
        for first, last in cue_ranges(words.spans):
            if ranges and len("".join(words.spans[ranges[-1][0] : last]).strip()) <= MAX_CUE_CHARS:
                first = ranges.pop()[0]
            ranges.append((first, last))
        for first, last in ranges:
            start, end = round(words.start[first] * SAMPLE_RATE), round(words.end[last - 1] * SAMPLE_RATE)
            yield start, end, "".join(words.spans[first:last]).strip()


@dataclass(frozen=True, slots=True)
class LateLine:
    """Line of a script that starts `seconds` later than its requested start time."""

    line: int
    seconds: float


def without_edges(clip: Clip, read: ReadTake) -> Clip:
    """Return a clip without the silence before and after the speech of its recording.

    `read` is a function that reads the samples of a recording.
    """
    if clip.record is None:
        return clip
    levels = np.abs(read(clip.record["id"]).astype(np.int32))
    loud = np.flatnonzero(levels > _MAX_SILENT_SHARE * levels.max(initial=1))
    if not loud.size:
        return clip
    start, end = max(int(loud[0]) - _EDGE_SAMPLES, 0), min(int(loud[-1]) + _EDGE_SAMPLES, levels.size)
    return replace(clip, samples=end - start, span=(start, end))


def place_clips(clips: Iterable[Clip], length: int | None) -> tuple[list[Clip], list[LateLine]]:
    """Place clips at the start times of their subtitles.

    Clips with the same start time form a cue, such as a question and its answer. A cue that would overlap the next cue
    is sped up by a factor of up to `MAX_TEMPO`. Silence is added at the end until the audio has `length` samples. Every
    line must have a start time, and the start times must not decrease.

    Returns:
        The clips, including clips of silence, and the lines that start late.
    """
    lines = [_without_end_silence(list(group)) for _, group in groupby(clips, key=lambda clip: clip.line)]
    cues = [list(chain.from_iterable(group)) for _, group in groupby(lines, key=lambda line: line[0].start)]
    starts = [cue[0].start or 0 for cue in cues]
    placed: list[Clip] = []
    late: list[LateLine] = []
    at = 0
    for cue, start, following in zip(cues, starts, [*starts[1:], length], strict=True):
        if start > at:
            placed.append(Clip(start - at))
            at = start
        elif at - start > _MAX_LATE:
            late.append(LateLine(cue[0].line or 0, (at - start) / SAMPLE_RATE))
        samples = sum(clip.samples for clip in cue)
        tempo = 1.0 if following is None else min(max(samples / max(following - at, 1), 1.0), MAX_TEMPO)
        placed += (replace(clip, samples=int(clip.samples / tempo), tempo=tempo) for clip in cue)
        at += sum(int(clip.samples / tempo) for clip in cue)
    if length is not None and at < length:
        placed.append(Clip(length - at))
    return placed, late


def _without_end_silence(line: list[Clip]) -> list[Clip]:
    """Return a line without the pauses after its last take."""
    end = max((number for number, clip in enumerate(line, 1) if clip.record is not None), default=1)
    return line[:end]


def silence(seconds: float, line: int | None = None) -> Clip:
    return Clip(round(seconds * SAMPLE_RATE), None, line)


def parts_of(clips: Iterable[Clip]) -> list[AudioPart]:
    """Group clips by script line, and return the lines with their positions in samples."""
    parts: list[AudioPart] = []
    for _, group in groupby(_placed(clips), key=lambda item: item[0]):
        takes = [(start, clip) for _, start, clip in group if clip.record is not None]
        if takes:
            records = tuple(clip.record for _, clip in takes if clip.record is not None)
            spans = tuple((start, start + clip.samples) for start, clip in takes)
            parts.append(AudioPart(records, spans, takes[0][1].speaker))
    return parts


def join_clips(clips: list[Clip], read: ReadTake, loudness_lufs: float | None) -> Iterator[Samples]:
    """Yield the samples of each clip, with equal loudness of all voices if requested.

    All recordings of a voice get the same gain, so whispered lines stay quieter than the others. The caller must
    normalize the loudness of the whole result.

    Args:
        clips: Clips in the order of the audio.
        read: Function that reads the samples of a recording.
        loudness_lufs: Target loudness in LUFS, or None to leave the samples unchanged.
    """
    gains = {} if loudness_lufs is None else _gains(clips, read, loudness_lufs)
    for clip in clips:
        if clip.record is None:
            yield np.zeros(clip.samples, np.int16)
        else:
            samples, gain_db = read(clip.record["id"]), gains.get(_voice(clip.record), 0.0)
            if clip.span is not None:
                samples = samples[slice(*clip.span)]
            if clip.tempo != 1.0:
                samples = _shortened(samples, clip.tempo, clip.samples)
            yield np.round(samples * 10 ** (gain_db / 20)).astype(np.int16) if gain_db else samples


def _shortened(samples: Samples, tempo: float, length: int) -> Samples:
    """Speed up speech to exactly `length` samples at the same pitch."""
    encoder = Encoder("pcm", speed=tempo)
    faster = np.frombuffer(encoder.encode_pcm(samples.astype("<i2").tobytes()) + encoder.finish(), "<i2")[:length]
    return np.pad(faster, (0, length - len(faster)))


def _gains(clips: list[Clip], read: ReadTake, loudness_lufs: float) -> dict[object, float]:
    """Return the gain of each voice in dB, which is at most 0, so that no sample overflows."""
    takes: dict[object, list[str]] = {}
    for clip in clips:
        if clip.record is not None:
            takes.setdefault(_voice(clip.record), []).append(clip.record["id"])
    gains = {voice: gain_to(loudness_lufs, measure_loudness_of_pieces(map(read, ids))) for voice, ids in takes.items()}
    loudest = max(gains.values(), default=0.0)
    return {voice: gain - loudest for voice, gain in gains.items()}


def subtitles(parts: Sequence[AudioPart]) -> str:
    """Return the lines of the joined audio as subtitles in SRT format.

    If there are several speakers, the first subtitle of each line contains the name of the speaker.
    """
    has_speakers = len({part.speaker for part in parts}) > 1
    captions: list[str] = []
    for part in parts:
        prefix = f"{part.speaker}: " if has_speakers and part.speaker else ""
        for start, end, text in part.captions():
            words = f"{prefix}{text}".replace("-->", "->")
            captions.append(f"{len(captions) + 1}\n{_time(start)} --> {_time(end)}\n{words}\n")
            prefix = ""
    return "\n".join(captions)


def _text(record: dict[str, Any]) -> str:
    return " ".join(displayed_text(record).split())


def _placed(clips: Iterable[Clip]) -> Iterator[tuple[object, int, Clip]]:
    """Yield each clip with a key of its line and its first sample."""
    at = 0
    for number, clip in enumerate(clips):
        yield ("line", clip.line) if clip.line is not None else ("clip", number), at, clip
        at += clip.samples


def _voice(record: dict[str, Any]) -> tuple[object, ...]:
    """Return a key that is equal for takes with the same voice."""
    model = record.get("model")
    described = record["config"].get("instructions") if record.get("mode") == "voice_design" else None
    named = model.get("id") if isinstance(model, dict) else model
    return record.get("mode"), record.get("voice"), record.get("reference"), named, described


def _time(sample: int) -> str:
    ms = round(1000 * sample / SAMPLE_RATE)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
