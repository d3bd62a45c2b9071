"""Holds a context of Cartesia's dialect while it is served, and makes the messages about it."""

from __future__ import annotations

import base64
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.errors import SpeechError
from runtime.request import Reference, SpeechRequest
from runtime.server.cartesia.pcm_formats import PcmWriter
from runtime.server.cartesia.schema import Generation
from runtime.server.cartesia.tags import Tags
from runtime.server.cartesia.word_times import TimedWords, WordTimes
from runtime.server.lull import Lull
from runtime.server.native.replies import Reply
from runtime.server.text_filter import TextFilter
from runtime.server.voices.voice_resolver import ResolvedVoice

_PARTIAL = 206  # status_code of all that is well, the last message too


@dataclass(slots=True, eq=False)
class Segment:
    """The text between two flushes: a request of its own, so that its sound has an end."""

    flush_id: int
    pending: str = ""  # text that the engine was not told yet
    is_complete: bool = False  # its text
    is_flushed: bool = False  # by a flush, which is answered after its sound
    is_submitted: bool = False
    is_told: bool = False  # the engine knows that the text is complete
    told_chars: int = 0  # of text that the engine has got


@dataclass(slots=True, eq=False)
class Context:
    """``number`` is the head's request; it is never reused, so a late event cannot reach another one."""

    number: int
    name: str
    how: Generation  # its first message: voice, language and format stay as they were there
    resolved: ResolvedVoice
    writer: PcmWriter
    words: WordTimes | None  # None: the client does not want times
    lull: Lull  # in its text
    filter: TextFilter  # of its text, without the tags
    said_at: float  # seconds, when the last chunk was queued, or the context opened
    reference: Reference | None = None
    segments: deque[Segment] = field(default_factory=lambda: deque([Segment(1)]))  # the head speaks, the last grows
    tags: Tags = field(default_factory=Tags)
    seed: int | None = None  # of its first segment, for the others
    chars: int = 0
    is_complete: bool = False  # its text
    short_since: float | None = None  # seconds, when the last sound of all its text so far was handed out
    owed_samples: int = 0  # made, but still in the resampler: they count with the next message

    @property
    def is_ready(self) -> bool:
        return self.resolved.stored is None or self.reference is not None

    @property
    def may_pause(self) -> bool:
        """The text that grows is the one that is spoken, or could be."""
        return self.is_ready and len(self.segments) == 1

    def expires_at(self, expiry_s: float) -> float | None:
        """When it ends because nothing follows what has been heard of it; None: something does, or may."""
        if self.short_since is None or self.is_complete or len(self.segments) > 1:
            return None
        return self.short_since + expiry_s

    @property
    def head(self) -> Segment:
        return self.segments[0]

    def request(self) -> SpeechRequest:
        """Return the request of what was said so far of the head."""
        head = self.head
        request = self.how.request(head.pending, self.resolved, self.reference, open_text=not head.is_complete)
        return request if self.seed is None else replace(request, seed=self.seed)

    def flush(self) -> None:
        """End the segment that grows, and begin the next."""
        last = self.segments[-1]
        last.is_complete = last.is_flushed = True
        self.segments.append(Segment(last.flush_id + 1))

    def end_segment(self) -> None:
        """End the segment that grows without a flush; text that still comes goes into the next."""
        last = self.segments[-1]
        last.is_complete = True
        self.segments.append(Segment(last.flush_id))


class RecentNames:
    """A set that forgets its oldest members."""

    def __init__(self, room: int) -> None:
        self._names: dict[str, None] = {}  # ordered
        self._room = room

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self.discard(name)
        self._names[name] = None
        if len(self._names) > self._room:
            del self._names[next(iter(self._names))]

    def discard(self, name: str) -> None:
        self._names.pop(name, None)


def sound(data: bytes, step_ms: float) -> dict[str, Any]:
    """The chunk of any route."""
    return {
        "type": "chunk",
        "data": base64.b64encode(data).decode("ascii"),
        "done": False,
        "status_code": _PARTIAL,
        "step_time": round(step_ms, 3),
    }


def timed(times: TimedWords) -> dict[str, Any]:
    """The times of words of any route."""
    return {
        "type": "timestamps",
        "word_timestamps": {"words": times.words, "start": times.start, "end": times.end},
        "done": False,
        "status_code": _PARTIAL,
    }


def end() -> dict[str, Any]:
    """The last message of any route."""
    return {"type": "done", "done": True, "status_code": _PARTIAL}


def chunk(one: Context, data: bytes, step_ms: float) -> Reply:
    return {**sound(data, step_ms), "context_id": one.name, "flush_id": one.head.flush_id}


def timestamps(one: Context, times: TimedWords) -> Reply:
    return {**timed(times), "context_id": one.name}


def flush_done(name: str, flush_id: int) -> Reply:
    return {
        "type": "flush_done",
        "context_id": name,
        "flush_id": flush_id,
        "flush_done": True,
        "done": False,
        "status_code": _PARTIAL,
    }


def done(name: str) -> Reply:
    return {**end(), "context_id": name}


def error(problem: SpeechError, name: str | None, session_id: str) -> Reply:
    """Say what is wrong; with a name it is the last message of that context."""
    return {
        "type": "error",
        "context_id": name,
        "title": problem.code.replace("_", " ").capitalize(),
        "message": str(problem),
        "error_code": problem.code,
        "status_code": problem.http_status,
        "request_id": session_id,
        "retryable": problem.retryable,
        "done": name is not None,
    }
