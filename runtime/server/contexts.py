"""A context in flight, and the voice that it speaks with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from runtime.request import Mode, Reference, SpeechRequest
from runtime.server.schema import SessionConfig

_CHANNELS = 2**16


@dataclass(slots=True, eq=False)
class Upload:
    """Reference audio of one session.config; ``samples`` stay None until it is decoded.

    Shapes: samples [N] float32, mono, 24 kHz.
    """

    number: int
    context_id: str | None  # that the session.config was for
    samples: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """An accepted session.config. The audio itself is in the upload and not kept a second time."""

    config: SessionConfig
    mode: Mode
    upload: Upload | None = None


class Phase(Enum):
    COMPOSING = auto()
    WAITING = auto()  # the text is complete, the reference audio is not decoded yet
    SPEAKING = auto()


@dataclass(slots=True, eq=False)
class Utterance:
    """A context in flight. ``number`` is never reused, so a late event cannot reach the name's next use."""

    number: int
    context_id: str
    voice: Voice
    phase: Phase = Phase.COMPOSING
    parts: list[str] = field(default_factory=list)
    chars: int = 0
    seed: int | None = None  # known from the engine's Started on
    messages: int = 0  # of sound, queued
    total_bytes: int = 0  # of sound, queued
    sent_bytes: int = 0  # of sound, taken by the socket
    played_ms: float | None = None  # as the client last reported

    @property
    def channel(self) -> int:
        return self.number % _CHANNELS

    @property
    def labelled(self) -> bool:
        return self.voice.config.frames == "labelled"

    @property
    def is_ready(self) -> bool:
        """The voice is complete, so that the text may be spoken."""
        return self.voice.upload is None or self.voice.upload.samples is not None

    def request(self) -> SpeechRequest:
        config, upload = self.voice.config, self.voice.upload
        reference = None
        if upload is not None and upload.samples is not None:
            reference = Reference(samples=upload.samples, text=config.ref_text, x_vector_only=config.x_vector_only_mode)
        return config.request("".join(self.parts), self.voice.mode, reference)
