"""WebSocket sessions of other APIs, controlled by a test with its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.request import Reference
from runtime.server.cartesia.session import CartesiaSession
from runtime.server.elevenlabs.multi_stream_input import MultiStreamInputSession
from runtime.server.elevenlabs.schema import SocketOptions, read_options
from runtime.server.elevenlabs.session import ElevenLabsSession
from runtime.server.elevenlabs.stream_input import StreamInputSession
from runtime.server.omni.session import OmniSession
from runtime.server.voices.voice_library import VoiceCard
from runtime.server.wyoming.session import WyomingSession
from runtime.settings import Limits
from tests.support.library import MemoryLibrary
from tests.unit.server.driver import CARD, CLONER, SessionDriver

REFERENCE = Reference(samples=np.full(24_000, 0.5, np.float32))
STORED = Reference(samples=np.full(24_000, 0.25, np.float32), text="Stored words.")


def one_voice() -> MemoryLibrary:
    return MemoryLibrary((VoiceCard(id="v1", name="Grandmother"), STORED))


class Marked:
    """Fake audio encoder whose output is its input between brackets."""

    def __init__(self, response_format: str, speed: float) -> None:
        self.head = f"[{response_format}@{speed:g}:".encode()

    def encode_pcm(self, pcm: bytes) -> bytes:
        head, self.head = self.head, b""
        return head + pcm

    def finish(self) -> bytes:
        return self.head + b"]"


class DialectDriver(SessionDriver):
    """Session of another API that a test controls without a network."""

    def send(self, message: dict[str, Any] | str) -> None:
        self.receive(message)


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
            options=read_options(SocketOptions, {"output_format": "pcm_24000", **query}),
            limits=limits or Limits(),
            cards=(CARD, CLONER),
            library=one_voice(),
            clock=clock or Clock(),
        )
    )
