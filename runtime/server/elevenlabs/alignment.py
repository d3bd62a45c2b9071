"""Character times in ElevenLabs' two formats, estimated from word times (`WordTimes`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.shared.text.word_times import TimedWords

Character = tuple[str, float, float]  # A character with its start and end time in seconds.


def socket_alignment(times: TimedWords, speed: float, *, is_relative: bool) -> dict[str, Any] | None:
    """Return character times in milliseconds, in the format of ElevenLabs' WebSocket messages.

    The result is None if `times` is empty.

    Args:
        times: Estimated times of words.
        speed: Factor for the speed of the audio.
        is_relative: True if the times start at the first character.
    """
    edges = [(name, round(start * 1000), round(end * 1000)) for name, start, end in _characters(times, speed)]
    if not edges:
        return None
    origin = edges[0][1] if is_relative else 0
    return {
        "chars": [name for name, _, _ in edges],
        "charStartTimesMs": [start - origin for _, start, _ in edges],
        "charDurationsMs": [end - start for _, start, end in edges],
        "estimated": True,
    }


def file_alignment(times: TimedWords, speed: float) -> dict[str, Any] | None:
    """Return character times in seconds, in the format of ElevenLabs' HTTP responses.

    The times start at the beginning of the audio. The result is None if `times` is empty.
    """
    characters = list(_characters(times, speed))
    if not characters:
        return None
    return {
        "characters": [name for name, _, _ in characters],
        "character_start_times_seconds": [round(start, 3) for _, start, _ in characters],
        "character_end_times_seconds": [round(end, 3) for _, _, end in characters],
        "estimated": True,
    }


def _characters(times: TimedWords, speed: float) -> Iterator[Character]:
    """Yield all characters, each with an equal share of its word's duration."""
    for span, start, end in zip(times.spans, times.start, times.end, strict=True):
        share = (end - start) / len(span)
        for index, name in enumerate(span):
            yield (
                " " if name.isspace() else name,
                (start + index * share) / speed,
                (start + (index + 1) * share) / speed,
            )
