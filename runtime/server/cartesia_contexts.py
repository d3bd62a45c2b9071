"""A context of Cartesia's dialect in flight, and what is said about it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from runtime.errors import SpeechError
from runtime.request import Reference, SpeechRequest
from runtime.server.cartesia_schema import Generation
from runtime.server.casting import Role
from runtime.server.pcm_formats import PcmWriter
from runtime.server.replies import Reply
from runtime.server.word_times import TimedWords, WordTimes

_PARTIAL = 206  # status_code of all that is well, the last message too


@dataclass(slots=True, eq=False)
class Context:
    """``number`` is never reused, so a late event cannot reach the name's next use."""

    number: int
    name: str
    how: Generation  # its first message: voice, language and format stay as they were there
    role: Role
    writer: PcmWriter
    words: WordTimes | None  # None: the client does not want times
    said_at: float  # seconds, when the last chunk was queued, or the context opened
    reference: Reference | None = None
    pending: str = ""  # text that the engine was not told yet
    chars: int = 0
    is_complete: bool = False  # its text
    is_submitted: bool = False
    flushes: int = 0
    owed_samples: int = 0  # made, but still in the resampler: they count with the next message

    @property
    def is_ready(self) -> bool:
        return self.role.stored is None or self.reference is not None

    def request(self) -> SpeechRequest:
        """Return the request of what was said so far."""
        return self.how.request(self.pending, self.role, self.reference, open_text=not self.is_complete)


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


def chunk(one: Context, data: bytes, step_ms: float) -> Reply:
    return {
        "type": "chunk",
        "context_id": one.name,
        "data": base64.b64encode(data).decode("ascii"),
        "done": False,
        "status_code": _PARTIAL,
        "step_time": round(step_ms, 3),
    }


def timestamps(one: Context, times: TimedWords) -> Reply:
    return {
        "type": "timestamps",
        "context_id": one.name,
        "word_timestamps": {"words": times.words, "start": times.start, "end": times.end},
        "done": False,
        "status_code": _PARTIAL,
    }


def flush_done(one: Context) -> Reply:
    return {
        "type": "flush_done",
        "context_id": one.name,
        "flush_id": one.flushes,
        "flush_done": True,
        "done": False,
        "status_code": _PARTIAL,
    }


def done(name: str) -> Reply:
    return {"type": "done", "context_id": name, "done": True, "status_code": _PARTIAL}


def error(problem: SpeechError, name: str | None, session_id: str) -> Reply:
    """Say what is wrong; with a name it is the last message of that context."""
    return {
        "type": "error",
        "context_id": name,
        "title": problem.code.replace("_", " ").capitalize(),
        "message": str(problem),
        "error_code": problem.code,
        "status_code": problem.outcome.http,
        "request_id": session_id,
        "retryable": problem.outcome.retryable,
        "done": name is not None,
    }
