"""Drives a session by hand: messages in, what it says and wants out, time by the test's own clock."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from runtime.errors import SpeechError
from runtime.request import (
    AudioChunk,
    Finished,
    Layout,
    Mode,
    ModelCard,
    Reference,
    RequestStats,
    Started,
    StopReason,
)
from runtime.server.native.session import Session
from runtime.server.session.commands import (
    Append,
    AudioMessage,
    Cancel,
    Close,
    Command,
    Decode,
    FinishText,
    Flush,
    Submit,
    TextMessage,
)
from runtime.server.voices.voice_library import VoiceCard
from runtime.settings import Limits
from tests.support.library import MemoryLibrary

CARD = ModelCard(
    name="tiny",
    modes=(Mode.CUSTOM_VOICE,),
    speakers=("anna", "bert"),
    languages=("english",),
    layouts=(Layout.NON_STREAMING, Layout.STREAMING),
    takes_instruct=True,
    speaks=False,
    part_chars=400,
    samples_per_frame=1920,
    device="cpu",
    dtype="float32",
    fingerprint="0" * 32,
    loaded=True,
)
CLONER = ModelCard(**{**{name: getattr(CARD, name) for name in CARD.__slots__}, "name": "clone", "modes": (Mode.BASE,)})
REFERENCE = Reference(samples=np.tile(np.float32([0.5, 0.0]), 12_000))


def two_voices() -> MemoryLibrary:
    """Clara, whose words are known, and Quiet, whose are not."""
    quiet = Reference(samples=REFERENCE.samples, x_vector_only=True)
    clara = Reference(samples=REFERENCE.samples, text="I am Clara.")
    return MemoryLibrary(
        (VoiceCard(id="1f", name="Clara", transcript=clara.text), clara), (VoiceCard(id="2f", name="Quiet"), quiet)
    )


class Driver:
    """A session and the process around it, played by a test."""

    def __init__(self, limits: Limits | None = None, cards: tuple[ModelCard, ...] = (CARD, CLONER)) -> None:
        self.now = 0.0
        self.session = Session(
            limits=limits or Limits(),
            cards=cards,
            library=two_voices(),
            session_id="s",
            server="test",
            clock=lambda: self.now,
        )
        self.commands: list[Command] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.session.receive_text(json.dumps({"type": kind, **fields}))
        self.commands += self.session.commands()

    def configure(self, **fields: Any) -> None:
        self.send("session.config", **fields)

    def speak(self, text: str = "Hello.", **fields: Any) -> int:
        """Send a whole text and return the number of the utterance that it became."""
        self.send("input.text", text=text, **fields)
        self.send("input.done", **fields)
        return self.submitted[-1].utterance

    @property
    def submitted(self) -> list[Submit]:
        return [command for command in self.commands if isinstance(command, Submit)]

    @property
    def cancelled(self) -> list[int]:
        return [command.utterance for command in self.commands if isinstance(command, Cancel)]

    @property
    def decodes(self) -> list[Decode]:
        return [command for command in self.commands if isinstance(command, Decode)]

    def told(self, number: int) -> list[str | None]:
        """What the engine was given of an utterance's text, in order: texts, None for a flush, "." for its end."""
        told: list[str | None] = []
        for command in self.commands:
            match command:
                case Submit(utterance, request) if utterance == number:
                    told += [request.text] if request.open_text else [request.text, "."]
                case Append(utterance, text) if utterance == number:
                    told.append(text)
                case Flush(utterance) if utterance == number:
                    told.append(None)
                case FinishText(utterance) if utterance == number:
                    told.append(".")
        return told

    def decoded(self, upload: int, result: Reference | SpeechError) -> None:
        self.session.on_reference(upload, result)
        self.commands += self.session.commands()

    def start(self, number: int, seed: int = 7) -> None:
        self.session.on_speech(number, Started(seed=seed, checkpoint="tiny"))

    def sound(self, number: int, frames: int = 1, first: int = 0) -> None:
        pcm = np.arange(first * 1920, (first + frames) * 1920).astype("<i2").tobytes()
        codes = np.zeros((frames, 16), np.int64)
        self.session.on_speech(number, AudioChunk(pcm=pcm, codes=codes, first_sample=first * 1920))

    def finish(self, number: int, reason: StopReason = StopReason.EOS) -> None:
        self.session.on_speech(
            number, Finished(stop_reason=reason, stats=RequestStats(frames=1, audio_s=0.08, total_ms=20))
        )
        self.commands += self.session.commands()

    def heard(self) -> list[Any]:
        """Take everything that waits for the client: dicts, bytes and Close."""
        heard: list[Any] = []
        while (item := self.session.take()) is not None:
            match item:
                case TextMessage(text):
                    heard.append(json.loads(text))
                case AudioMessage(data):
                    heard.append(data)
                case Close():
                    heard.append(item)
        return heard

    def replies(self) -> list[dict[str, Any]]:
        return [item for item in self.heard() if isinstance(item, dict)]

    def kinds(self) -> list[str]:
        """Take everything and name it: message types, ``code@context`` of errors, sound, close codes."""
        return [_kind(item) for item in self.heard()]


def _kind(item: Any) -> str:
    if isinstance(item, bytes):
        return "sound"
    if isinstance(item, Close):
        return f"close {item.code}"
    if item["type"] == "error":
        return f"{item['code']}@{item['context_id']}"
    return str(item["type"])


def ready(limits: Limits | None = None, **config: Any) -> Driver:
    """A driver past session.created and one session.config."""
    driver = Driver(limits)
    driver.configure(**config)
    assert driver.kinds() == ["session.created"]
    return driver
