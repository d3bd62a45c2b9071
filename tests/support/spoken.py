"""Real speech for tests, made by the demo voice once a session and kept in memory."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Mode, SpeechRequest
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Settings

WORDS = "Good morning, everybody. The kettle is on, and the bread is nearly done."


@cache
def spoken(text: str = WORDS, seed: int = 3) -> NDArray[np.float32]:
    """Shapes: [N] float32, mono, 24 kHz."""
    settings = Settings(models=(str(DEMO_CHECKPOINT),), engine=EngineSettings(threads=1))
    engine = Engine.open(settings)
    try:
        chunks = [
            event.pcm
            for event in engine.speak(SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=seed, language="english"))
            if isinstance(event, AudioChunk)
        ]
    finally:
        engine.close()
    return np.frombuffer(b"".join(chunks), "<i2").astype(np.float32) / np.float32(32768)
