"""WebSocket messages of Cartesia's API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from runtime.errors import SpeechError
from runtime.server.cartesia.contexts import Context
from runtime.server.wire import Reply
from runtime.shared.port.errors import cartesia_message
from runtime.shared.text.word_times import TimedWords

_PARTIAL_STATUS = 206  # Status code of every message that is not an error.


def audio_fields(data: bytes, step_ms: float) -> dict[str, Any]:
    """Return a message with base64 audio, for WebSockets and server-sent events."""
    return {
        "type": "chunk",
        "data": base64.b64encode(data).decode("ascii"),
        "done": False,
        "status_code": _PARTIAL_STATUS,
        "step_time": round(step_ms, 3),
    }


def word_times_fields(times: TimedWords) -> dict[str, Any]:
    """Return a message with estimated word times."""
    return {
        "type": "timestamps",
        "word_timestamps": {"words": times.words, "start": times.start, "end": times.end},
        "estimated": True,
        "done": False,
        "status_code": _PARTIAL_STATUS,
    }


def done_fields(notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the last message of a context.

    Args:
        notes: Extension to Cartesia's API, which is omitted if empty.
    """
    return {"type": "done", "done": True, "status_code": _PARTIAL_STATUS, **({"notes": list(notes)} if notes else {})}


def chunk(context: Context, data: bytes, step_ms: float) -> Reply:
    return {**audio_fields(data, step_ms), "context_id": context.name, "flush_id": context.head.flush_id}


def timestamps(context: Context, times: TimedWords) -> Reply:
    return {**word_times_fields(times), "context_id": context.name}


def flush_done(name: str, flush_id: int) -> Reply:
    return {
        "type": "flush_done",
        "context_id": name,
        "flush_id": flush_id,
        "flush_done": True,
        "done": False,
        "status_code": _PARTIAL_STATUS,
    }


def done(name: str, notes: Sequence[str] = ()) -> Reply:
    return {**done_fields(notes), "context_id": name}


def error(problem: SpeechError, name: str | None, session_id: str) -> Reply:
    """Return an error message for the context `name`, or for the session if `name` is None."""
    return cartesia_message(problem, name, session_id)
