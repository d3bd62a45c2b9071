"""Defines what a WebSocket dialect is to the socket's tasks: a state machine without input or output of its own."""

from __future__ import annotations

from typing import Protocol

from runtime.errors import SpeechError
from runtime.request import Reference, SpeechEvent
from runtime.server.commands import Command, Outgoing


class Dialect(Protocol):
    """Events in, commands and messages out. Thread: event loop. ``native.session`` is the model of one."""

    @property
    def closed(self) -> bool:
        """A Close was said; what comes in is ignored."""
        ...

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, by the clock it was given; None: never."""
        ...

    @property
    def is_congested(self) -> bool:
        """The client does not take its replies; read no more of it until it does."""
        ...

    def commands(self) -> list[Command]:
        """What the process must do now; each command once."""
        ...

    def take(self) -> Outgoing | None:
        """What goes to the client next, or None."""
        ...

    def receive_text(self, text: str) -> None: ...

    def receive_bytes(self) -> None: ...

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """An event of the engine for the utterance of that number."""
        ...

    def on_refused(self, number: int, error: SpeechError) -> None:
        """The engine's refusal of a Submit."""
        ...

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """What a Decode or a Recall brought."""
        ...

    def tick(self) -> None:
        """The deadline may have passed."""
        ...

    def shut(self, error: SpeechError, code: int) -> None:
        """End everything because the server must."""
        ...

    def gone(self) -> None:
        """The client is not there any more: give everything back."""
        ...
