"""Speech engine that records all commands and emits only events that a test defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runtime.errors import Overloaded, SpeechError
from runtime.request import (
    AudioChunk,
    EngineLoad,
    Finished,
    Layout,
    Mode,
    ModelCard,
    Reference,
    Refused,
    RequestStats,
    Sink,
    SpeechEvent,
    SpeechRequest,
    Started,
    StopReason,
    VoicePrompt,
)

CARD = ModelCard(
    name="scripted",
    modes=tuple(Mode),
    speakers=("serena", "ryan"),
    languages=("english",),
    layouts=tuple(Layout),
    takes_instruct=True,
    speaks=False,
    part_chars=400,
    fingerprint="0" * 64,
    loaded=True,
    samples_per_frame=1920,
    device="cpu",
    dtype="float32",
)


def chunk(frames: int = 1, value: int = 1) -> AudioChunk:
    """Return an audio chunk of `frames` frames whose samples are all equal to `value`."""
    return AudioChunk(
        pcm=np.full(1920 * frames, value, "<i2").tobytes(), codes=np.zeros((frames, 4), np.int64), first_sample=0
    )


def finished(reason: StopReason = StopReason.EOS, frames: int = 1) -> Finished:
    return Finished(stop_reason=reason, stats=RequestStats(frames=frames, prompt_tokens=5))


@dataclass(slots=True)
class ScriptedEngine:
    """Speech engine that records all commands and emits only events that a test defines.

    Attributes:
        script: Events of a request, keyed by its ticket (number). For other requests, the test calls `say`.
        faults: Exception to raise, keyed by the name of the method that raises it.
        first_ticket: Number that differs from utterance numbers, so that a test notices if a session confuses them.
        commands: Name and arguments of each command after `submit`, in order.
    """

    script: dict[int, list[SpeechEvent]] = field(default_factory=dict)
    refusal: SpeechError | None = None
    faults: dict[str, Exception] = field(default_factory=dict)
    first_ticket: int = 1
    requests: list[SpeechRequest] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    tickets: list[int] = field(default_factory=list)
    commands: list[tuple[Any, ...]] = field(default_factory=list)
    alive: bool = True
    cards: tuple[ModelCard, ...] = (CARD,)

    @property
    def cancelled(self) -> list[int]:
        return [ticket for command, ticket, *_ in self.commands if command == "cancel"]

    @property
    def sent(self) -> list[tuple[int, int]]:
        """Return the request number and the number of samples of each acknowledgement."""
        return [(commands[1], commands[2]) for commands in self.commands if commands[0] == "ack_sent"]

    def start(self) -> None: ...

    def stacks(self) -> str:
        return ""

    def close(self, timeout_s: float | None = None) -> None: ...

    def submit(self, request: SpeechRequest, sink: Sink, ticket: int | None = None) -> int:
        refusal = self.refusal
        if request.is_background:  # The script covers only the test's own requests.
            refusal = Overloaded(slots=8, waiting=0, retry_after_s=1.0)
        if refusal is not None:
            sink(Refused(refusal))
            return 0
        self.fail_if_scripted("submit")
        self.requests.append(request)
        self.sinks.append(sink)
        ticket = self.first_ticket + len(self.sinks) - 1 if ticket is None else ticket
        self.tickets.append(ticket)
        for event in self.script.get(ticket, []):
            sink(event)
        return ticket

    def emit(self, ticket: int, *events: SpeechEvent) -> None:
        for event in events:
            self.sinks[self.tickets.index(ticket)](event)

    def append_text(self, ticket: int, text: str) -> None:
        self._note("append_text", ticket, text)

    def flush(self, ticket: int) -> None:
        self._note("flush", ticket)

    def finish_text(self, ticket: int) -> None:
        self._note("finish_text", ticket)

    def ack_sent(self, ticket: int, samples: int) -> None:
        self._note("ack_sent", ticket, samples)

    def ack_played(self, ticket: int, ms: float) -> None:
        self._note("ack_played", ticket, ms)

    def cancel(self, ticket: int) -> None:
        self._note("cancel", ticket)

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None: ...

    def load(self) -> EngineLoad:
        self.fail_if_scripted("load")
        return EngineLoad(slots=8, active=len(self.sinks), waiting=0)

    def busy_since(self) -> float | None:
        return None

    def fail_if_scripted(self, method: str) -> None:
        if (fault := self.faults.get(method)) is not None:
            raise fault

    def _note(self, method: str, *arguments: object) -> None:
        self.commands.append((method, *arguments))
        self.fail_if_scripted(method)


def started(seed: int = 3) -> Started:
    return Started(seed=seed, checkpoint="scripted")
