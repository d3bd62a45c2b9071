"""Gives an error the shape that clients of a route read it in: Cartesia's, ElevenLabs' and, everywhere else, OpenAI's.

Both ports know it, so that what is refused in front of a dialect, or by the studio in front of the runtime, is told as
the dialect itself tells it.
"""

from __future__ import annotations

from runtime.errors import SpeechError

# What the paths of a dialect begin with, whether there is such a route or not.
CARTESIA = ("/tts/", "/voices", "/pronunciation-dicts")
ELEVENLABS = (
    *("/v1/text-to-speech/", "/v1/text-to-dialogue", "/v1/user", "/v1/voices", "/v2/voices"),
    "/v1/pronunciation-dictionaries",
)

DIALECT_PATHS = (*CARTESIA, *ELEVENLABS)  # whose errors have another shape than OpenAI's

_ELEVENLABS_FIELDS = {"language": "language_code"}  # what the engine names by our word


def error_body(error: SpeechError) -> dict[str, object]:
    """The ``error`` object of a refusal."""
    return {
        "message": str(error),
        "type": "server_error" if error.http_status >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
        "retryable": error.retryable,
        "facts": error.told,
    }


def shaped(error: SpeechError, path: str, request_id: str) -> dict[str, object]:
    """The body of a refusal on that path; ``request_id`` is empty where the port gives its requests none."""
    if path.startswith(CARTESIA):
        return {**cartesia_fields(error, request_id), "param": error.param}
    if path.startswith(ELEVENLABS):
        detail = {
            "status": error.code,
            "message": str(error),
            "request_id": request_id,
            "param": elevenlabs_field(error),
            "retryable": error.retryable,
        }
        return {"detail": detail}
    return {"error": error_body(error)}


def told_on_socket(error: SpeechError, path: str) -> dict[str, object]:
    """What a socket of that path that was accepted is told of a refusal, before it is closed with the error's code."""
    if path.startswith(CARTESIA):
        return cartesia_message(error, None, "")
    if path.startswith(ELEVENLABS):
        return elevenlabs_message(error, error.close_code)
    return {**error_body(error), "type": "error", "context_id": None}


def cartesia_message(error: SpeechError, context: str | None, request_id: str) -> dict[str, object]:
    """Of a socket; with a context it is the last message of that."""
    return {
        "type": "error",
        "context_id": context,
        **cartesia_fields(error, request_id),
        "status_code": error.http_status,
        "done": context is not None,
    }


def elevenlabs_message(error: SpeechError, close_code: int) -> dict[str, object]:
    """Of a socket; the code is that of the close that follows, where one does."""
    return {
        "message": str(error),
        "error": error.code,
        "code": close_code,
        "param": elevenlabs_field(error),
        "retryable": error.retryable,
    }


def cartesia_fields(error: SpeechError, request_id: str) -> dict[str, object]:
    """What is wrong, as Cartesia's clients read it over HTTP and on a socket; the id may be a session's."""
    return {
        "title": error.code.replace("_", " ").capitalize(),
        "message": str(error),
        "error_code": error.code,
        "request_id": request_id,
        "retryable": error.retryable,
    }


def elevenlabs_field(error: SpeechError) -> str | None:
    """Which of ElevenLabs' fields a fault is in."""
    return _ELEVENLABS_FIELDS.get(error.param, error.param) if error.param else None
