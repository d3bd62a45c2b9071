"""Engine interface that the server needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, Sink, SpeechRequest, VoicePrompt

Progress = Callable[[int, int, str], None]  # Checkpoints loaded, total, current step; called on any thread.


class SpeechEngine(Protocol):
    """Interface of the engine for the server. Every method may be called on any thread and returns at once.

    Tickets that are unknown or have ended are ignored by every method.
    """

    @property
    def cards(self) -> tuple[ModelCard, ...]: ...

    @property
    def alive(self) -> bool:
        """False once the engine thread has died."""
        ...

    def start(self) -> None: ...

    def close(self, timeout_s: float | None = None) -> None:
        """End the engine's threads, waiting up to `timeout_s` or without a limit."""
        ...

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Return a ticket; the sink is called on the engine thread up to one Finished, Broken or Refused.

        Raises:
            BadRequest, Busy: Nothing was started. A request that yields is refused while another is open. An engine in
                another process reports refusals to the sink, as Refused, and raises only EngineDead.
        """
        ...

    def append(self, ticket: int, text: str) -> None:
        """Append text to a request with `open_text`. Text that cannot be spoken ends the request with Broken."""
        ...

    def flush(self, ticket: int) -> None:
        """Speak all text received so far, even if the last word or sentence may be incomplete."""
        ...

    def finish_text(self, ticket: int) -> None:
        """Mark the text as complete."""
        ...

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Acknowledge the total samples sent to the listener. An `acknowledged` request pauses without it."""
        ...

    def ack_played(self, ticket: int, ms: float) -> None:
        """Acknowledge the total played milliseconds, which is more exact than the clock for a request far ahead."""
        ...

    def cancel(self, ticket: int) -> None: ...

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Compute the prompt of a reference. `done` is called once, on another thread, and must not block.

        Raises:
            BadRequest: The reference cannot be used, or no checkpoint serves the mode.
        """
        ...

    def load(self) -> EngineLoad: ...

    def at_work_since(self) -> float | None:
        """Return the start time of the oldest unfinished step on the engine's clock; None if idle."""
        ...

    def stacks(self) -> str:
        """Return the stack traces of the engine's threads, for the log of a hung device; they hold no text."""
        ...
