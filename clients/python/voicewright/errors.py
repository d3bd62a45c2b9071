"""Exceptions of this client, for requests that a runtime refuses and for lost connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self


class VoicewrightError(Exception):
    """Base class of this client's exceptions.

    ``code`` is a stable error code. ``retryable`` is True if a retry may succeed.
    """

    code: str
    retryable: bool


class SpeechRefused(VoicewrightError):
    """Error response of the runtime to a request.

    `code` is an error code in docs/api.md, Errors. `param` is the name of the invalid field, or None. `facts` has the
    values that the message contains, so that an application can translate the message. `retry_after_s` is the time to
    wait before a retry, or None. `partial_audio` is True if some audio was already sent.
    """

    def __init__(
        self,
        code: str,
        message: str,
        param: str | None = None,
        retryable: bool = False,
        facts: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
        partial_audio: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.retryable = retryable
        self.facts = dict(facts or {})
        self.retry_after_s = retry_after_s
        self.partial_audio = partial_audio

    @classmethod
    def from_fields(cls, error: Mapping[str, Any]) -> Self:
        return cls(
            error["code"],
            error["message"],
            error.get("param"),
            bool(error.get("retryable")),
            error.get("facts"),
            error.get("retry_after_s"),
            bool(error.get("partial_audio")),
        )


class ConnectionLost(VoicewrightError, ConnectionError):
    """Error for a runtime that cannot be reached, or a connection that was lost.

    Connect again to continue.
    """

    code = "runtime_unavailable"
    retryable = True

    def __init__(self, message: str = "The connection to the runtime was lost or could not be made.") -> None:
        super().__init__(message)


class SpeechTimeout(ConnectionLost, TimeoutError):
    """Error for a runtime that sent nothing for longer than the caller's `timeout`."""

    code = "timeout"

    def __init__(self, message: str = "The runtime was silent for longer than the timeout.") -> None:
        super().__init__(message)
