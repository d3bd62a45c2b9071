"""Test driver of a native session, which sends messages and records responses."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.errors import SpeechError
from runtime.request import (
    ModelCard,
    Reference,
)
from runtime.server.native.session import NativeSession
from runtime.server.session.commands import (
    Append,
    DecodeReference,
    FinishText,
    Flush,
    Submit,
)
from runtime.server.voices.voice_library import VoiceCard
from runtime.settings import Limits
from tests.support.library import MemoryLibrary
from tests.unit.server.dialects import Clock
from tests.unit.server.driver import CARD, CLONER, SessionDriver

REFERENCE = Reference(samples=np.tile(np.float32([0.5, 0.0]), 12_000))


def two_voices() -> MemoryLibrary:
    """Return a library with the voices Clara, who has a transcript, and Quiet, who has none."""
    quiet = Reference(samples=REFERENCE.samples, x_vector_only=True)
    clara = Reference(samples=REFERENCE.samples, text="I am Clara.")
    return MemoryLibrary(
        (VoiceCard(id="1f", name="Clara", transcript=clara.text), clara), (VoiceCard(id="2f", name="Quiet"), quiet)
    )


class Driver(SessionDriver):
    """Test driver of a native session without a network.

    The test acts as the server and as the engine.
    """

    def __init__(self, limits: Limits | None = None, cards: tuple[ModelCard, ...] = (CARD, CLONER)) -> None:
        self.clock = Clock()
        self.session = NativeSession(
            limits=limits or Limits(),
            cards=cards,
            library=two_voices(),
            session_id="s",
            server="test",
            clock=self.clock,
        )
        super().__init__(self.session)

    @property
    def now(self) -> float:
        return self.clock.now

    @now.setter
    def now(self, seconds: float) -> None:
        self.clock.now = seconds

    def send(self, kind: str, **fields: Any) -> None:
        self.receive({"type": kind, **fields})

    def configure(self, **fields: Any) -> None:
        self.send("session.config", **fields)

    def speak(self, text: str = "Hello.", **fields: Any) -> int:
        """Send a complete text as a client, and return the number of its utterance."""
        self.send("input.text", text=text, **fields)
        self.send("input.done", **fields)
        return self.submitted[-1].utterance

    @property
    def decodes(self) -> list[DecodeReference]:
        return self.commands_of(DecodeReference)

    def sent_texts(self, number: int) -> list[str | None]:
        """Return the text commands of an utterance, in order.

        Each item is a text, None for a flush, or "." for the end of the text.
        """
        sent_texts: list[str | None] = []
        for command in self.commands:
            match command:
                case Submit(utterance, request) if utterance == number:
                    sent_texts += [request.text] if request.open_text else [request.text, "."]
                case Append(utterance, text) if utterance == number:
                    sent_texts.append(text)
                case Flush(utterance) if utterance == number:
                    sent_texts.append(None)
                case FinishText(utterance) if utterance == number:
                    sent_texts.append(".")
        return sent_texts

    def decoded(self, upload: int, result: Reference | SpeechError) -> None:
        self.session.on_reference(upload, result)
        self.gather()

    def replies(self) -> list[dict[str, Any]]:
        return [item for item in self.pop_messages() if isinstance(item, dict)]

    def kind(self, item: Any) -> str:
        """Return the type of a reply, or CODE@CONTEXT_ID if it is an error."""
        is_error = isinstance(item, dict) and item["type"] == "error"
        return f"{item['code']}@{item['context_id']}" if is_error else super().kind(item)


def ready(limits: Limits | None = None, **config: Any) -> Driver:
    """Return a driver of a session that has been configured by a session.config message."""
    driver = Driver(limits)
    driver.configure(**config)
    assert driver.kinds() == ["session.created"]
    return driver
