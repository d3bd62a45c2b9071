"""Interface of the engine for the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, Sink, SpeechRequest, VoicePrompt

# Arguments: number of loaded checkpoints, total number, current step. It is called on any thread.
Progress = Callable[[int, int, str], None]


class SpeechEngine(Protocol):
    """Interface of the engine for the server.

    All methods may be called on any thread and do not block. Tickets that are unknown or have ended are ignored by
    every method.
    """

    @property
    def cards(self) -> tuple[ModelCard, ...]: ...

    @property
    def alive(self) -> bool:
        """True until the engine thread has ended."""
        ...

    def start(self) -> None: ...

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the engine's threads.

        Args:
            timeout_s: Maximum time to wait. None waits without a limit.
        """
        ...

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Submit a request and return its ticket.

        The last event of the sink is Finished, Broken or Refused.

        Raises:
            BadRequest, Busy: No work was started. A background request is refused while another request is open. An
                engine in another process raises only EngineDead; it reports other refusals to the sink as Refused.
        """
        ...

    def append(self, ticket: int, text: str) -> None:
        """Append text to a request with `open_text`.

        If the text cannot be spoken, the request ends with Broken.
        """
        ...

    def flush(self, ticket: int) -> None:
        """Speak all text received so far, even if the last word or sentence is incomplete."""
        ...

    def finish_text(self, ticket: int) -> None:
        """Mark the text as complete."""
        ...

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Acknowledge the total number of samples sent.

        An `acknowledged` request pauses without acknowledgements.
        """
        ...

    def ack_played(self, ticket: int, ms: float) -> None:
        """Acknowledge the total number of milliseconds played.

        It is more exact than an estimate by the clock.
        """
        ...

    def cancel(self, ticket: int) -> None: ...

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Compute the prompt of a reference.

        Args:
            done: Called once on another thread. It must not block.

        Raises:
            BadRequest: The reference cannot be used, or no checkpoint serves the mode.
        """
        ...

    def load(self) -> EngineLoad: ...

    def at_work_since(self) -> float | None:
        """Return the start time of the oldest unfinished step, or None if it is idle.

        The time is that of the engine's clock.
        """
        ...

    def stacks(self) -> str:
        """Return the stack traces of the engine's threads for the log.

        They contain no text of clients.
        """
        ...
