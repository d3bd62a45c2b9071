"""What the server needs of an engine, and nothing more."""

from __future__ import annotations

from typing import Protocol

from runtime.request import EngineLoad, ModelCard, Sink, SpeechRequest


class SpeechEngine(Protocol):
    """A door to the engine thread. Every method may be called on any thread and returns at once."""

    @property
    def cards(self) -> tuple[ModelCard, ...]: ...

    @property
    def alive(self) -> bool:
        """False once the engine thread has died."""
        ...

    def start(self) -> None: ...

    def close(self) -> None: ...

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Return a ticket; the sink is called on the engine thread up to one Finished or Broken.

        Raises:
            BadRequest, Busy: nothing was started.
        """
        ...

    def cancel(self, ticket: int) -> None: ...

    def load(self) -> EngineLoad: ...
