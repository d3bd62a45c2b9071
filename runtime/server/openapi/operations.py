"""OpenAPI operations of routes: bodies, responses and errors, which signatures do not state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from typing_extensions import TypedDict

from runtime import errors
from runtime.errors import SpeechError

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

JSON = "application/json"
FORM = "multipart/form-data"
_ATTRIBUTE = "openapi_operation"


class ErrorObject(TypedDict):
    """What is wrong."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str
    retryable: bool
    facts: dict[str, str | float | bool]


class ErrorReply(TypedDict):
    """A refusal, as OpenAI's clients read it."""

    error: ErrorObject


def kinds(*roots: type[SpeechError]) -> Iterator[type[SpeechError]]:
    """Every error of these branches of the tree that has a code of its own."""
    for root in roots:
        if "code" in root.__dict__:
            yield root
        yield from kinds(*root.__subclasses__())


Refusals = frozenset[type[SpeechError]]

# What a port says to any request, whatever the route.
EVERYWHERE: Refusals = frozenset(
    {
        *(errors.HostRefused, errors.OriginRefused, errors.Unauthorized, errors.MessageTooLarge),
        *(errors.TooManyConnections, errors.RateLimited, errors.UnknownRoute, errors.GenerationFailed),
    }
)
# What is only said on a WebSocket.
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
# Of a body with a voice in it, and of a form that keeps one.
SPEECH: Refusals = (
    frozenset(kinds(errors.BadRequest, errors.Busy, errors.Expired, errors.Failed)) - _OF_SOCKETS - _OF_THE_LIBRARY
)
LIBRARY: Refusals = frozenset(
    {
        *(_OF_THE_LIBRARY - _OF_DICTIONARIES),
        *(errors.InvalidConfig, errors.InvalidMessage, errors.VoiceNotFound, errors.VoiceFileInvalid),
        *(errors.TranscriptMismatch, errors.SessionIdle, errors.StorageFailed),
        *kinds(errors.BadReferenceAudio),
    }
)
DICTIONARIES: Refusals = frozenset(
    {*_OF_DICTIONARIES, errors.InvalidConfig, errors.InvalidMessage, errors.SessionIdle, errors.StorageFailed}
)
UNREADY: Refusals = frozenset({errors.Loading, errors.Draining, errors.EngineDead})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route. ``body`` and ``answer`` are types that pydantic can describe."""

    body: Any = None
    body_media: str = JSON
    query: Any = None  # a model of the parameters that the signature does not have
    answer: Any = None  # of JSON
    status: int = 200  # of that; 204: there is nothing to say
    example: Mapping[str, Any] | None = None  # of a body
    sound: tuple[str, ...] = ()  # media types of an answer that is bytes
    is_events: bool = False  # it may be answered by server-sent events
    refusals: Refusals = frozenset()
    refused_as: Any = ErrorReply
    parameters: Mapping[str, str] = field(default_factory=dict)  # name -> what it is
    is_open: bool = False  # it asks for no key


def documented(**words: Any) -> Callable[[Endpoint], Endpoint]:
    """Note on an endpoint what it takes and answers; the words are those of `Operation`."""

    def note(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, Operation(**words))
        return endpoint

    return note


def operation_of(endpoint: Callable[..., Any]) -> Operation | None:
    """What was noted on it; None: nothing."""
    noted = getattr(endpoint, _ATTRIBUTE, None)
    return noted if isinstance(noted, Operation) else None
