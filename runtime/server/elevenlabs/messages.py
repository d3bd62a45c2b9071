"""Messages and errors of ElevenLabs' dialect."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from runtime.errors import InvalidMessage, SpeechError
from runtime.server.wire import Reply
from runtime.shared.port.errors import elevenlabs_message

_MISTAKE = 1008  # Close code of errors that the client can fix.


def audio(data: bytes, alignment: dict[str, Any] | None, context: str | None) -> Reply:
    """Sound, and when the characters are spoken that are over with it."""
    return {
        "audio": base64.b64encode(data).decode("ascii"),
        "isFinal": None,
        "normalizedAlignment": alignment,
        "alignment": alignment,
        **_about(context),
    }


def final(context: str | None, notes: Sequence[str] = ()) -> Reply:
    """Return the last message of a context; ``notes`` are ours, and there only where something is to be said."""
    return {
        "audio": None,
        "isFinal": True,
        "normalizedAlignment": None,
        "alignment": None,
        **({"notes": list(notes)} if notes else {}),
        **_about(context),
    }


def error(problem: SpeechError, context: str | None = None) -> Reply:
    """Say on a socket what is wrong; ``code`` is that of the close that follows, where one does."""
    return {**elevenlabs_message(problem, close_code(problem)), **_about(context)}


def close_code(problem: SpeechError) -> int:
    """Of the socket that an error ends: what is no JSON is refused as any other mistake is, as there."""
    return _MISTAKE if isinstance(problem, InvalidMessage) else problem.close_code


def timed_audio(data: bytes, alignment: dict[str, Any] | None) -> Reply:
    """Return a piece of a reply over HTTP with times, or all of one."""
    return {
        "audio_base64": base64.b64encode(data).decode("ascii"),
        "alignment": alignment,
        "normalized_alignment": alignment,
    }


def _about(context: str | None) -> dict[str, str]:
    return {} if context is None else {"contextId": context}
