"""Messages between the server's process and the engine's process. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, SpeechEvent, SpeechRequest, VoicePrompt
from runtime.settings import Settings

# --- From the server.


@dataclass(frozen=True, slots=True)
class Open:
    """First message: load the checkpoints of the settings."""

    settings: Settings
    log_level: int


class Order(StrEnum):
    """Commands without arguments."""

    START = "start"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Submit:
    """Request with a number assigned by the server, which need not wait for the engine's ticket."""

    ticket: int
    request: SpeechRequest


class Verb(StrEnum):
    """Methods of `SpeechEngine` for a running request."""

    APPEND = "append"
    FLUSH = "flush"
    FINISH_TEXT = "finish_text"
    ACK_PLAYED = "ack_played"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Tell:
    """Call of a method for a request."""

    verb: Verb
    ticket: int
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AckSent:
    """Acknowledgements: total sent samples by ticket."""

    samples: dict[int, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Request of a reference's prompt; `Prepared` with the same number is the response."""

    number: int
    reference: Reference
    mode: Mode


# --- From the engine.


@dataclass(frozen=True, slots=True)
class Step:
    """Loading progress: the arguments of `Progress`."""

    loaded: int
    of: int
    step: str


@dataclass(frozen=True, slots=True)
class Status:
    """Current values of the engine's properties. ``cards`` is None if unchanged."""

    load: EngineLoad
    alive: bool
    at_work_since: float | None
    cards: tuple[ModelCard, ...] | None


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Failed start, after which the process ends. `error` is None for unexpected exceptions, which are logged."""

    error: SpeechError | None


@dataclass(frozen=True, slots=True)
class Heard:
    """Event for a request's sink."""

    ticket: int
    event: SpeechEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of `Prepare`."""

    number: int
    result: VoicePrompt | SpeechError


Message = Open | Order | Submit | Tell | AckSent | Prepare | Step | Status | NotOpened | Heard | Prepared
