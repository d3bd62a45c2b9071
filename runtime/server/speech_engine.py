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
        """End its threads; wait so long for them, or as long as it takes."""
        ...

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Return a ticket; the sink is called on the engine thread up to one Finished, Broken or Refused.

        Raises:
            BadRequest, Busy: nothing was started. A request that yields is refused while another is open. An engine
                in another process lets the sink hear that, as Refused, and raises EngineDead at most.
        """
        ...

    def append(self, ticket: int, text: str) -> None:
        """More text of a request with ``open_text``. Text that cannot be spoken ends the request with Broken."""
        ...

    def flush(self, ticket: int) -> None:
        """Speak all text received so far, even if the last word or sentence may be incomplete."""
        ...

    def finish_text(self, ticket: int) -> None:
        """The text is complete."""
        ...

    def ack_sent(self, ticket: int, samples: int) -> None:
        """So many samples in all have left for the listener. A request that is ``acknowledged`` pauses without it."""
        ...

    def ack_played(self, ticket: int, ms: float) -> None:
        """The listener has heard so much in all; better than the clock for a request that is far ahead."""
        ...

    def cancel(self, ticket: int) -> None: ...

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Make the prompt of a reference; ``done`` is called once, on another thread, and must not block.

        Raises:
            BadRequest: the reference cannot be used, or no checkpoint serves the mode.
        """
        ...

    def load(self) -> EngineLoad: ...

    def at_work_since(self) -> float | None:
        """Return the start time of the oldest unfinished step on the engine's clock; None if idle."""
        ...

    def stacks(self) -> str:
        """Return the stack traces of the engine's threads, for the log of a hung device; they hold no text."""
        ...
