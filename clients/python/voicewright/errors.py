"""The errors that this client raises: a runtime's refusals, and connections that cannot be made or break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self


class VoicewrightError(Exception):
    """What every error here is. ``code`` is stable; ``retryable`` says whether the same may work a little later."""

    code: str
    retryable: bool


class SpeechRefused(VoicewrightError):
    """The runtime's no: its ``code`` (docs/api.md, Errors), a sentence for people, the field at fault."""

    def __init__(self, code: str, message: str, param: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.retryable = retryable

    @classmethod
    def from_fields(cls, error: Mapping[str, Any]) -> Self:
        return cls(error["code"], error["message"], error.get("param"), bool(error.get("retryable")))


class ConnectionLost(VoicewrightError, ConnectionError):
    """Nobody answers, or the connection broke while something was in flight. Connect again."""

    code = "runtime_unavailable"
    retryable = True

    def __init__(self, message: str = "The connection to the runtime was lost or could not be made.") -> None:
        super().__init__(message)


class SpeechTimeout(ConnectionLost, TimeoutError):
    """The runtime was silent for longer than the caller's ``timeout``."""

    code = "timeout"

    def __init__(self, message: str = "The runtime was silent for longer than the timeout.") -> None:
        super().__init__(message)
