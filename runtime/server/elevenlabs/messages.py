"""WebSocket messages and errors of ElevenLabs' API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from runtime.errors import InvalidMessage, SpeechError
from runtime.server.wire import Reply
from runtime.shared.port.errors import elevenlabs_message

_CLIENT_ERROR_CODE = 1008  # Close code for errors that the client can correct.


def audio(data: bytes, alignment: dict[str, Any] | None, context: str | None) -> Reply:
    """Return an audio message with the times of the characters that end in this audio."""
    return {
        "audio": base64.b64encode(data).decode("ascii"),
        "isFinal": None,
        "normalizedAlignment": alignment,
        "alignment": alignment,
        **_about(context),
    }


def final(context: str | None, notes: Sequence[str] = ()) -> Reply:
    """Return the last message of a context.

    Args:
        notes: Extension to ElevenLabs' API, which is omitted if empty.
    """
    return {
        "audio": None,
        "isFinal": True,
        "normalizedAlignment": None,
        "alignment": None,
        **({"notes": list(notes)} if notes else {}),
        **_about(context),
    }


def error(problem: SpeechError, context: str | None = None) -> Reply:
    """Return an error message, in which `code` is the WebSocket close code of the error."""
    return {**elevenlabs_message(problem, close_code(problem)), **_about(context)}


def close_code(problem: SpeechError) -> int:
    """Return the WebSocket close code of an error.

    The close code of an error about invalid JSON is 1008.
    """
    return _CLIENT_ERROR_CODE if isinstance(problem, InvalidMessage) else problem.close_code


def _about(context: str | None) -> dict[str, str]:
    return {} if context is None else {"contextId": context}
