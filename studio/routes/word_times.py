"""Route `studio/takes/{id}/words`, which returns the word times of a recording.

The format is JSON or WebVTT.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from runtime.errors import UnsupportedFormat
from runtime.shared.file_names import file_name
from runtime.shared.text.word_times import TimedWords, cue_ranges, divide_time_by_length, spans_of
from studio.aligning.fitting import map_to_displayed_words
from studio.aligning.service import AlignmentService
from studio.plugins import code_of
from studio.routes.responses import RouteTable, StoreRoutes, WorkerPool, file_response, json_response
from studio.store.audio_files import title_of
from studio.store.records import displayed_text, spoken_text
from studio.store.store import Store
from studio.visitors.visitors import Visitors

FORMATS = ("json", "vtt")
MAX_CACHED_TAKES = 64  # Maximum number of takes with cached word times.


@dataclass(frozen=True, slots=True)
class TakeWords:
    """Start and end times of the words of a recording, and the name of the aligner.

    The name is None if the times are estimates.
    """

    words: TimedWords
    by: str | None

    def as_json(self) -> dict[str, Any]:
        times = zip(self.words.words, self.words.start, self.words.end, strict=True)
        timed_words = [{"word": word, "start_s": start, "end_s": end} for word, start, end in times]
        return {"words": timed_words, "estimated": self.by is None, "by": self.by}

    def as_vtt(self) -> bytes:
        return webvtt(self.words, "Times are estimated." if self.by is None else f"Times by {self.by}.").encode()


class WordTimeRoutes(StoreRoutes):
    """HTTP route that returns the start and end times of a recording's words.

    Thread: event loop. Worker threads read the audio, and a child process aligns it.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, aligning: AlignmentService) -> None:
        super().__init__(store, visitors, workers)
        self._aligning = aligning
        self._known: OrderedDict[str, TakeWords] = OrderedDict()

    def table(self) -> RouteTable:
        return [("GET", "/studio/takes/{id}/words", self.words)]

    async def words(self, request: Request) -> Response:
        """Return the words of a recording in order, with their start and end times in seconds."""
        wanted = request.query_params.get("format", "json")
        if wanted not in FORMATS:
            raise UnsupportedFormat(where="format", known=", ".join(FORMATS), param="format")
        owner, take_id = self._named(request)
        record = await self._workers(self._store.takes.find, owner, take_id)
        found = self._known.get(take_id) or await self._found(owner, record)
        if wanted == "json":
            return json_response(found.as_json())
        return file_response(found.as_vtt(), "text/vtt", file_name(title_of(record), "vtt"))

    async def _found(self, owner: str, record: dict[str, Any]) -> TakeWords:
        """Return the word times of a take, measured by an aligner if possible, or else estimated.

        Estimated times are not cached, because a later alignment may succeed.
        """
        read, heard = displayed_text(record), spoken_text(record)
        language = code_of(record["language"] or record["config"].get("language"))
        aligned = None
        if any(map(str.isalnum, heard)):
            _, pcm = await self._workers(self._store.takes.pcm, owner, record["id"])
            samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
            aligned = await self._aligning.align(samples, heard, language)
        if aligned is None:
            return TakeWords(divide_time_by_length(spans_of(read), 0.0, record["seconds"]), None)
        words, by = aligned
        found = self._known[record["id"]] = TakeWords(
            words if read == heard else map_to_displayed_words(read, words), by
        )
        while len(self._known) > MAX_CACHED_TAKES:
            self._known.popitem(last=False)
        return found


def webvtt(words: TimedWords, note: str) -> str:
    """Format words with their times as WebVTT captions.

    Args:
        words: Words with their times.
        note: Comment in the file that describes the origin of the times.
    """
    cues = [_cue(words, first, last) for first, last in cue_ranges(words.spans)]
    return "\n".join(["WEBVTT\n", f"NOTE {note}\n", *cues])


def _cue(words: TimedWords, first: int, last: int) -> str:
    times, text = _time(words.start[first]), ""
    head = f"{times} --> {_time(max(words.end[last - 1], words.start[first] + 0.001))}"
    for at in range(first, last):
        time = _time(words.start[at])
        text += (f"<{time}>" if time > times else "") + escape(" ".join(words.spans[at].split()), quote=False)
        text += " " if words.spans[at][-1:].isspace() else ""
        times = max(times, time)
    return f"{head}\n{text.strip()}\n"


def _time(seconds: float) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
