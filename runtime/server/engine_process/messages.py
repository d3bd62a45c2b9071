"""Messages between the server process and the engine process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, SpeechEvent, SpeechRequest, VoicePrompt
from runtime.settings import Settings

# --- Messages from the server process to the engine process.


@dataclass(frozen=True, slots=True)
class Open:
    """First message to the engine process, which then loads the configured checkpoints."""

    settings: Settings
    log_level: int


class LifecycleCommand(StrEnum):
    """Commands without arguments that the server process sends to the engine process."""

    START = "start"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Submit:
    """New speech request with a ticket that the server has chosen."""

    ticket: int
    request: SpeechRequest


class Method(StrEnum):
    """Methods of `SpeechEngine` that the server calls for a running request."""

    APPEND_TEXT = "append_text"
    FLUSH = "flush"
    FINISH_TEXT = "finish_text"
    ACK_PLAYED = "ack_played"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a `SpeechEngine` method for the request with this ticket."""

    method: Method
    ticket: int
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AckSent:
    """Acknowledgement of audio: total number of samples sent to the client for each ticket."""

    samples: dict[int, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Request to compute the voice prompt of a reference recording.

    The response is a `Prepared` with the same number.
    """

    number: int
    reference: Reference
    mode: Mode


# --- Messages from the engine process to the server process.


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of loading the checkpoints: number loaded, total number, and current step."""

    loaded: int
    of: int
    step: str


@dataclass(frozen=True, slots=True)
class Status:
    """Status report of the engine, which the engine process sends regularly.

    `cards` is None if the model cards have not changed since the last report.
    """

    load: EngineLoad
    alive: bool
    busy_since: float | None
    cards: tuple[ModelCard, ...] | None


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Report that the engine could not be loaded.

    The engine process ends after this message. `error` is None if the reason is an unexpected exception, which is in
    the log.
    """

    error: SpeechError | None


@dataclass(frozen=True, slots=True)
class SinkEvent:
    """Event of a request, which the server process passes to the sink of the request."""

    ticket: int
    event: SpeechEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Response to `Prepare` with the voice prompt or an error."""

    number: int
    result: VoicePrompt | SpeechError


Message = Open | LifecycleCommand | Submit | Call | AckSent | Prepare | Step | Status | NotOpened | SinkEvent | Prepared
