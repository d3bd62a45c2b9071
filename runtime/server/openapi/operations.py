"""Decorator that adds a route's body, response and errors to the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from typing_extensions import TypedDict

from runtime import errors
from runtime.errors import SpeechError

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

JSON = "application/json"
FORM = "multipart/form-data"
_ATTRIBUTE = "openapi_operation"


class ErrorObject(TypedDict):
    """Object `error` of an error response in OpenAI's format."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str
    retryable: bool
    facts: dict[str, str | float | bool]


class ErrorReply(TypedDict):
    """Error response in OpenAI's format."""

    error: ErrorObject


def error_classes(*roots: type[SpeechError]) -> Iterator[type[SpeechError]]:
    """Yield `roots` and all their subclasses that define an error code."""
    for root in roots:
        if "code" in root.__dict__:
            yield root
        yield from error_classes(*root.__subclasses__())


Refusals = frozenset[type[SpeechError]]

# Errors that any route may return.
EVERYWHERE: Refusals = frozenset(
    {
        *(errors.HostRefused, errors.OriginRefused, errors.Unauthorized, errors.MessageTooLarge),
        *(errors.TooManyConnections, errors.RateLimited, errors.UnknownRoute, errors.GenerationFailed),
    }
)
# Errors that only WebSockets return.
_OF_SOCKETS: set[type[SpeechError]] = {
    *(errors.OutOfOrder, errors.TooManyContexts, errors.SubprotocolRequired),
    *(errors.SessionTooLong, errors.SlowReader, errors.MethodNotAllowed),
}
_OF_DICTIONARIES: set[type[SpeechError]] = {
    *(errors.DictionaryNotFound, errors.DictionaryNotYours, errors.TooManyDictionaries),
}
_OF_THE_LIBRARY: set[type[SpeechError]] = {
    *(errors.VoiceNotYours, errors.TooManyVoices, errors.VoiceNameTaken, errors.VoiceNameOfSpeaker),
    *(errors.VoiceNameLooksAlike, errors.ConsentRequired, errors.DictionaryNotYours, errors.TooManyDictionaries),
}
# Errors of speech requests (SPEECH) and of forms that store a voice (LIBRARY).
SPEECH: Refusals = (
    frozenset(error_classes(errors.BadRequest, errors.Busy, errors.Expired, errors.Failed))
    - _OF_SOCKETS
    - _OF_THE_LIBRARY
)
LIBRARY: Refusals = frozenset(
    {
        *(_OF_THE_LIBRARY - _OF_DICTIONARIES),
        *(errors.InvalidConfig, errors.InvalidMessage, errors.VoiceNotFound, errors.VoiceFileInvalid),
        *(errors.TranscriptMismatch, errors.SessionIdle, errors.StorageFailed),
        *error_classes(errors.BadReferenceAudio),
    }
)
DICTIONARIES: Refusals = frozenset(
    {*_OF_DICTIONARIES, errors.InvalidConfig, errors.InvalidMessage, errors.SessionIdle, errors.StorageFailed}
)
UNREADY: Refusals = frozenset({errors.Loading, errors.Draining, errors.EngineDead})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """OpenAPI description of one route.

    `body` and `response` are types for which pydantic can generate a JSON schema.
    """

    body: Any = None
    body_media: str = JSON
    query: Any = None  # Model of the query parameters that the signature of the endpoint does not include.
    response: Any = None  # Type of the JSON response.
    status: int = 200  # HTTP status of a successful response.
    example: Mapping[str, Any] | None = None  # Example of the request body.
    binary_types: tuple[str, ...] = ()  # Media types of a binary response.
    is_events: bool = False  # True if the response can be a stream of server-sent events.
    refusals: Refusals = frozenset()
    refused_as: Any = ErrorReply
    is_open: bool = False  # True if the route is accessible without an API key.


def describe_operation(**kwargs: Any) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that attaches an `Operation` with these fields to an endpoint."""

    def note(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, Operation(**kwargs))
        return endpoint

    return note


def operation_of(endpoint: Callable[..., Any]) -> Operation | None:
    """Return the `Operation` that `describe_operation` attached to an endpoint, or None."""
    noted = getattr(endpoint, _ATTRIBUTE, None)
    return noted if isinstance(noted, Operation) else None
