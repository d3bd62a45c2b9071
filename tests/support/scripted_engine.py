"""An engine whose events the test sends itself, and which remembers what it was told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
    """Sound whose samples are all the same."""
    return AudioChunk(
        pcm=np.full(1920 * frames, value, "<i2").tobytes(), codes=np.zeros((frames, 4), np.int64), first_sample=0
    )


def finished(reason: StopReason = StopReason.EOS, frames: int = 1) -> Finished:
    return Finished(stop_reason=reason, stats=RequestStats(frames=frames, prompt_tokens=5))


@dataclass(slots=True)
class ScriptedEngine:
    """``script`` maps the number of a request, from 1, to its events; without one the test calls `say`."""

    script: dict[int, list[SpeechEvent]] = field(default_factory=dict)
    refusal: SpeechError | None = None
    requests: list[SpeechRequest] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    takings: list[tuple[int, int]] = field(default_factory=list)
    alive: bool = True
    cards: tuple[ModelCard, ...] = (CARD,)

    def start(self) -> None: ...

    def stacks(self) -> str:
        return ""

    def close(self, timeout_s: float | None = None) -> None: ...

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        if self.refusal is not None:
            raise self.refusal
        if request.yields:  # The test's own requests are in the script.
            raise Overloaded(slots=8, waiting=0, retry_after_s=1.0)
        self.requests.append(request)
        self.sinks.append(sink)
        ticket = len(self.sinks)
        for event in self.script.get(ticket, []):
            sink(event)
        return ticket

    def say(self, ticket: int, *events: SpeechEvent) -> None:
        for event in events:
            self.sinks[ticket - 1](event)

    def append(self, ticket: int, text: str) -> None: ...

    def flush(self, ticket: int) -> None: ...

    def finish_text(self, ticket: int) -> None: ...

    def ack_sent(self, ticket: int, samples: int) -> None:
        self.takings.append((ticket, samples))

    def ack_played(self, ticket: int, ms: float) -> None: ...

    def cancel(self, ticket: int) -> None:
        self.cancelled.append(ticket)

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None: ...

    def load(self) -> EngineLoad:
        return EngineLoad(slots=8, active=len(self.sinks), waiting=0)

    def at_work_since(self) -> float | None:
        return None


def started(seed: int = 3) -> Started:
    return Started(seed=seed, checkpoint="scripted")
