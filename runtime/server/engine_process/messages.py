"""Messages between the server's process and the engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, SpeechEvent, SpeechRequest, VoicePrompt
from runtime.settings import Settings

# --- Messages of the server.


@dataclass(frozen=True, slots=True)
class Open:
    """First message: load the checkpoints in the settings."""

    settings: Settings
    log_level: int


class Order(StrEnum):
    """Commands without arguments."""

    START = "start"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Submit:
    """New request.

    The server assigns the number, so that it does not have to wait for the engine's ticket.
    """

    ticket: int
    request: SpeechRequest


class Method(StrEnum):
    """Methods of `SpeechEngine` for a running request."""

    APPEND = "append"
    FLUSH = "flush"
    FINISH_TEXT = "finish_text"
    ACK_PLAYED = "ack_played"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Call:
    """Call of one of these methods for a request."""

    method: Method
    ticket: int
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AckSent:
    """Acknowledgements: total number of sent samples by ticket."""

    samples: dict[int, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Request for the prompt of a reference.

    The response is a `Prepared` with the same number.
    """

    number: int
    reference: Reference
    mode: Mode


# --- Messages of the engine.


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of loading, with the arguments of `Progress`."""

    loaded: int
    of: int
    step: str


@dataclass(frozen=True, slots=True)
class Status:
    """Current values of the engine's properties.

    ``cards`` is None if the cards have not changed.
    """

    load: EngineLoad
    alive: bool
    at_work_since: float | None
    cards: tuple[ModelCard, ...] | None


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Report of a failed start, after which the process ends.

    `error` is None if an unexpected exception was logged.
    """

    error: SpeechError | None


@dataclass(frozen=True, slots=True)
class SinkEvent:
    """Event for a request's sink."""

    ticket: int
    event: SpeechEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of `Prepare`."""

    number: int
    result: VoicePrompt | SpeechError


Message = Open | Order | Submit | Call | AckSent | Prepare | Step | Status | NotOpened | SinkEvent | Prepared
