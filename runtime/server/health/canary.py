"""Canary: test utterance of four frames per checkpoint, repeated while the engine is idle.

The utterance has a fixed seed and runs alone on the device. If the codes differ from the codes of the first run, the
weights, the device or its memory are faulty. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from runtime.errors import EngineDead, Overloaded, SpeechError
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Broken,
    Finished,
    Mode,
    ModelCard,
    Reference,
    Refused,
    SpeechEvent,
    SpeechRequest,
    StopReason,
)
from runtime.server.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

FRAMES = 4
SEED = 1
TEXT = "The bread is warm."
INSTRUCT = "A warm young voice."
REFERENCE_S = 2.0
DIGEST_DIGITS = 16  # Number of hexadecimal digits in the digest of the codes.


class CanaryOutcome(StrEnum):
    """Result of one canary round, in which a test request runs on each checkpoint."""

    SAME = "same"
    DIFFERENT = "different"
    INTERRUPTED = "interrupted"  # The canary round was stopped, because another request had priority.


class Canary:
    """Canary that compares the audio codes of each checkpoint with the codes of its first run."""

    def __init__(self, engine: SpeechEngine) -> None:
        self._engine = engine
        # Digests of the first runs. The key includes the modes, because a checkpoint may be loaded once per mode.
        self._first: dict[tuple[str, Sequence[str]], str] = {}

    async def run_round(self) -> CanaryOutcome:
        """Run the canary request of every loaded checkpoint and return the outcome."""
        for card in self._engine.cards:
            if not card.loaded:
                continue
            codes_digest = await self._spoken_digest(_utterance(card))
            if codes_digest is None:
                return CanaryOutcome.INTERRUPTED
            first = self._first.setdefault((card.fingerprint, card.modes), codes_digest)
            if codes_digest != first:
                log.critical(
                    "%s: the four test frames changed from %s to %s; the engine's results are not reliable",
                    *(card.name, first, codes_digest),
                )
                return CanaryOutcome.DIFFERENT
        return CanaryOutcome.SAME

    async def _spoken_digest(self, request: SpeechRequest) -> str | None:
        """Return a digest of the generated audio codes, an error code, or None if interrupted."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        digest, end, refusal = hashlib.sha256(), "", None

        def on_event(event: SpeechEvent) -> None:
            nonlocal end, refusal
            match event:
                case AudioChunk():
                    digest.update(event.codes.tobytes())
                case Finished():
                    end = event.stop_reason
                    loop.call_soon_threadsafe(ended.set)
                case Broken():
                    end = event.error.code
                    loop.call_soon_threadsafe(ended.set)
                case Refused():
                    refusal = event.error
                    loop.call_soon_threadsafe(ended.set)

        try:
            self._engine.submit(request, on_event)
            await ended.wait()
            if refusal is not None:
                raise refusal
        except (Overloaded, EngineDead):
            return None
        except SpeechError as error:
            return error.code
        if end in (StopReason.CANCELLED, EngineDead.code):
            return None
        return f"{digest.hexdigest()[:DIGEST_DIGITS]} {end}"


def _utterance(card: ModelCard) -> SpeechRequest:
    """Return the fixed canary request for the first mode of a checkpoint."""
    mode = card.modes[0]
    return SpeechRequest(
        text=TEXT,
        mode=mode,
        voice=next(iter(card.speakers), None),
        instruct=INSTRUCT if mode is Mode.VOICE_DESIGN else None,
        reference=_reference() if mode is Mode.BASE else None,
        seed=SEED,
        max_frames=FRAMES,
        is_background=True,
    )


def _reference() -> Reference:
    """Return synthetic reference audio: a 140 Hz tone whose volume changes like syllables."""
    t = np.arange(round(REFERENCE_S * SAMPLE_RATE)) / SAMPLE_RATE
    hum = sum(np.sin(2 * np.pi * 140 * harmonic * t) / harmonic for harmonic in range(1, 6))
    samples = 0.2 * hum * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))
    return Reference(samples=samples.astype(np.float32), x_vector_only=True)
