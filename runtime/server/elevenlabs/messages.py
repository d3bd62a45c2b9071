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
    """Return an audio message with the times of the characters that end in it."""
    return {
        "audio": base64.b64encode(data).decode("ascii"),
        "isFinal": None,
        "normalizedAlignment": alignment,
        "alignment": alignment,
        **_about(context),
    }


def final(context: str | None, notes: Sequence[str] = ()) -> Reply:
    """Return the last message of a context. `notes` are an extension, present only if there are any."""
    return {
        "audio": None,
        "isFinal": True,
        "normalizedAlignment": None,
        "alignment": None,
        **({"notes": list(notes)} if notes else {}),
        **_about(context),
    }


def error(problem: SpeechError, context: str | None = None) -> Reply:
    """Return an error message; `code` is the close code that follows, if any."""
    return {**elevenlabs_message(problem, close_code(problem)), **_about(context)}


def close_code(problem: SpeechError) -> int:
    """Return the close code of an error; invalid JSON has the code of other client errors, as at ElevenLabs."""
    return _MISTAKE if isinstance(problem, InvalidMessage) else problem.close_code


def timed_audio(data: bytes, alignment: dict[str, Any] | None) -> Reply:
    """Return a piece of an HTTP reply with times, or a complete reply."""
    return {
        "audio_base64": base64.b64encode(data).decode("ascii"),
        "alignment": alignment,
        "normalized_alignment": alignment,
    }


def _about(context: str | None) -> dict[str, str]:
    return {} if context is None else {"contextId": context}
