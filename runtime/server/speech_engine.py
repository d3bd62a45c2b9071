"""Interface between the server and the speech engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import EngineLoad, Mode, ModelCard, Reference, Sink, SpeechRequest, VoicePrompt

# Function that any thread may call to report the progress of loading. Arguments: number of loaded checkpoints, total
# number, current step.
Progress = Callable[[int, int, str], None]


class SpeechEngine(Protocol):
    """Interface of a speech engine.

    All methods may be called on any thread and do not block. Every method ignores a ticket that is unknown or has
    ended.
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
            timeout_s: Maximum waiting time in seconds, or None for no limit.
        """
        ...

    def submit(self, request: SpeechRequest, sink: Sink, ticket: int | None = None) -> int:
        """Submit a request and return its ticket.

        `sink` receives the events of the request. The last event is Finished, Broken or Refused. Refused means that the
        request is invalid, the engine is busy, or the engine has stopped.

        A background request is refused while another request is open.

        Args:
            ticket: Number that the caller has chosen, or None for the next number.
        """
        ...

    def append_text(self, ticket: int, text: str) -> None:
        """Append text to a request that was submitted with `open_text`.

        If the text cannot be spoken, the request ends with Broken.
        """
        ...

    def flush(self, ticket: int) -> None:
        """Speak all text received for a request, even if the last word is incomplete."""
        ...

    def finish_text(self, ticket: int) -> None:
        """Mark the streamed text of a request as complete."""
        ...

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Report the total number of samples that were sent to the client.

        If the request has set `acknowledged`, the engine pauses generation until earlier audio is acknowledged.
        """
        ...

    def ack_played(self, ticket: int, ms: float) -> None:
        """Report the total duration of audio in milliseconds that the client has played."""
        ...

    def cancel(self, ticket: int) -> None: ...

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Compute the voice prompt of a reference recording.

        Args:
            done: Callback for the result or an error, called once on any thread. The callback must not block.
        """
        ...

    def load(self) -> EngineLoad: ...

    def busy_since(self) -> float | None:
        """Return the start time of the oldest unfinished step, or None if the engine is idle.

        The time is in seconds on the engine's clock.
        """
        ...

    def stacks(self) -> str:
        """Return the stack traces of the engine's threads, without any client text."""
        ...
