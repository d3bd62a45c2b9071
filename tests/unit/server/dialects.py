"""Drives a dialect by hand: messages in, what it says and wants out, time by the test's own clock."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from runtime.request import AudioChunk, Finished, Reference, RequestStats, Started, StopReason
from runtime.server.cartesia.session import CartesiaSession
from runtime.server.elevenlabs.multi_stream_input import MultiStreamInputSession
from runtime.server.elevenlabs.schema import read_socket_options
from runtime.server.elevenlabs.session import ElevenLabsSession
from runtime.server.elevenlabs.stream_input import StreamInputSession
from runtime.server.omni.session import OmniSession
from runtime.server.session.commands import (
    Append,
    AudioMessage,
    Cancel,
    Close,
    Command,
    Decode,
    EncodedMessage,
    FinishText,
    Recall,
    Submit,
    TextMessage,
)
from runtime.server.session.dialect import Dialect
from runtime.server.voices.voice_library import VoiceCard
from runtime.server.wyoming.session import WyomingSession
from runtime.settings import Limits
from tests.support.library import MemoryLibrary
from tests.unit.server.native.driver import CARD, CLONER

REFERENCE = Reference(samples=np.full(24_000, 0.5, np.float32))
STORED = Reference(samples=np.full(24_000, 0.25, np.float32), text="Stored words.")


def one_voice() -> MemoryLibrary:
    return MemoryLibrary((VoiceCard(id="v1", name="Grandmother"), STORED))


class Marked:
    """An encoder whose file can be read by eye: what went in, between brackets."""

    def __init__(self, response_format: str, speed: float) -> None:
        self.head = f"[{response_format}@{speed:g}:".encode()

    def add(self, pcm: bytes) -> bytes:
        head, self.head = self.head, b""
        return head + pcm

    def finish(self) -> bytes:
        return self.head + b"]"


class DialectDriver:
    """A dialect and the process around it, played by a test."""

    def __init__(self, dialect: Dialect[Any]) -> None:
        self.dialect = dialect
        self.commands: list[Command] = []

    def send(self, message: dict[str, Any] | str) -> None:
        self.dialect.receive_text(message if isinstance(message, str) else json.dumps(message))
        self.gather()

    def gather(self) -> None:
        self.commands += self.dialect.commands()

    def start(self, number: int, seed: int = 7, notes: tuple[str, ...] = ()) -> None:
        self.dialect.on_speech(number, Started(seed=seed, checkpoint="tiny", notes=notes))
        self.gather()

    def sound(self, number: int, frames: int = 1, first: int = 0) -> bytes:
        """Let the engine make frames; returns their samples."""
        pcm = (np.arange(first * 1920, (first + frames) * 1920) % 20_000).astype("<i2").tobytes()
        chunk = AudioChunk(pcm=pcm, codes=np.zeros((frames, 16), np.int64), first_sample=first * 1920)
        self.dialect.on_speech(number, chunk)
        self.gather()
        return pcm

    def finish(self, number: int, reason: StopReason = StopReason.EOS, notes: tuple[str, ...] = ()) -> None:
        stats = RequestStats(frames=1, audio_s=0.08, total_ms=20)
        self.dialect.on_speech(number, Finished(stop_reason=reason, stats=stats, notes=notes))
        self.gather()

    def of(self, kind: type[Any]) -> list[Any]:
        """The commands of one kind so far."""
        return [command for command in self.commands if isinstance(command, kind)]

    @property
    def submitted(self) -> list[Submit]:
        return self.of(Submit)

    @property
    def cancelled(self) -> list[int]:
        return [command.utterance for command in self.of(Cancel)]

    @property
    def text_told(self) -> str:
        """All text that the engine was given, in order; a stroke where it was said to be complete."""
        told = ""
        for command in self.commands:
            match command:
                case Submit(_, request):
                    told += request.text + ("" if request.open_text else "|")
                case Append(_, text):
                    told += text
                case FinishText():
                    told += "|"
        return told

    @property
    def uploads(self) -> list[Decode | Recall]:
        return [command for command in self.commands if isinstance(command, Decode | Recall)]

    def heard(self) -> list[Any]:
        """Take everything that waits for the client: dicts, bytes and Close."""
        heard: list[Any] = []
        while (item := self.dialect.take()) is not None:
            match item:
                case TextMessage(text):
                    heard.append(json.loads(text))
                case AudioMessage(data):
                    heard.append(data)
                case EncodedMessage(make):
                    if text := make():
                        heard.append(json.loads(text))
                case Close():
                    heard.append(item)
        return heard

    def kinds(self) -> list[str]:
        """Take everything and name it: message types, codes of errors, sound, close codes."""
        return [_kind(item) for item in self.heard()]


def _kind(item: Any) -> str:
    if isinstance(item, bytes):
        return "sound"
    if isinstance(item, Close):
        return f"close {item.code}"
    if "type" not in item:  # ElevenLabs'
        return str(item.get("error") or ("final" if item["isFinal"] else "audio"))
    if item["type"] == "error":
        return str(item.get("code") or item.get("error_code") or item["data"]["code"])
    return str(item["type"])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def omni(limits: Limits | None = None, clock: Clock | None = None) -> DialectDriver:
    return DialectDriver(
        OmniSession(
            limits=limits or Limits(),
            cards=(CARD, CLONER),
            library=one_voice(),
            open_encoder=Marked,
            clock=clock or Clock(),
        )
    )


def cartesia(limits: Limits | None = None, clock: Clock | None = None) -> DialectDriver:
    return DialectDriver(
        CartesiaSession(
            limits=limits or Limits(),
            cards=(CARD, CLONER),
            library=one_voice(),
            session_id="s",
            expiry_s=1.0,
            clock=clock or Clock(),
        )
    )


def wyoming(limits: Limits | None = None, clock: Clock | None = None) -> DialectDriver:
    return DialectDriver(
        WyomingSession(limits=limits or Limits(), cards=(CARD, CLONER), library=one_voice(), clock=clock or Clock())
    )


def elevenlabs(
    limits: Limits | None = None,
    clock: Clock | None = None,
    *,
    is_multi: bool = True,
    voice: str = "anna",
    **query: str,
) -> DialectDriver:
    kind: type[ElevenLabsSession] = MultiStreamInputSession if is_multi else StreamInputSession
    return DialectDriver(
        kind(
            voice_id=voice,
            options=read_socket_options({"output_format": "pcm_24000", **query}),
            limits=limits or Limits(),
            cards=(CARD, CLONER),
            library=one_voice(),
            clock=clock or Clock(),
        )
    )
