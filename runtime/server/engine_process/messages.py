"""Messages between the server's process and the engine's process. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, SpeechEvent, SpeechRequest, VoicePrompt
from runtime.settings import Settings

# --- from the server


@dataclass(frozen=True, slots=True)
class Open:
    """The first message: load what the settings name."""

    settings: Settings
    log_level: int


class Order(StrEnum):
    """Commands without arguments."""

    START = "start"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Submit:
    """The server's process numbers requests, so that it need not wait for a ticket."""

    ticket: int
    request: SpeechRequest


class Verb(StrEnum):
    """Methods of `SpeechEngine` that concern a request under way."""

    APPEND = "append"
    FLUSH = "flush"
    FINISH_TEXT = "finish_text"
    ACK_PLAYED = "ack_played"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Tell:
    """Call a method about a request."""

    verb: Verb
    ticket: int
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AckSent:
    """Of several requests, by ticket, how many samples in all have left for their listeners."""

    samples: dict[int, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the prompt of a reference; `Prepared` with the same number answers."""

    number: int
    reference: Reference
    mode: Mode


# --- from the engine


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
    """Loading failed; the process ends. ``error`` is None where it was no error of ours: the log has it."""

    error: SpeechError | None


@dataclass(frozen=True, slots=True)
class Heard:
    """An event for a request's sink."""

    ticket: int
    event: SpeechEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of `Prepare`."""

    number: int
    result: VoicePrompt | SpeechError


Message = Open | Order | Submit | Tell | AckSent | Prepare | Step | Status | NotOpened | Heard | Prepared
