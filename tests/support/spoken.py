"""Generation of speech with the embedded voice, and comparison of transcripts with texts."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Mode, SpeechRequest
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Settings

WORDS = "Good morning, everybody. The kettle is on, and the bread is nearly done."


def generate(text: str = WORDS, seed: int = 3) -> NDArray[np.float32]:
    """Return speech for a text, generated with the embedded voice.

    Shapes: result [N] float32, mono, 24 kHz.
    """
    return generate_each(text, seed=seed)[0]


@cache
def generate_each(*texts: str, seed: int = 3) -> list[NDArray[np.float32]]:
    """Return speech for each text, generated with the embedded voice."""
    settings = Settings(models=(str(DEMO_CHECKPOINT),), engine=EngineSettings(threads=1))
    engine = Engine.open(settings)
    try:
        return [_said(engine, text, seed) for text in texts]
    finally:
        engine.close()


def _said(engine: Engine, text: str, seed: int) -> NDArray[np.float32]:
    request = SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=seed, language="english")
    chunks = [event.pcm for event in engine.speak(request) if isinstance(event, AudioChunk)]
    return np.frombuffer(b"".join(chunks), "<i2").astype(np.float32) / np.float32(32768)


def words_of(text: str) -> list[str]:
    """Return the lower-case words of a text, without punctuation."""
    return re.findall(r"[a-z']+", text.lower())


def share_heard(text: str, heard: list[str]) -> float:
    """Return the fraction of a text's words that a transcript contains, in any order.

    `heard` has the words of the transcript.
    """
    wanted, got = Counter(words_of(text)), Counter(heard)
    return sum(min(count, got[word]) for word, count in wanted.items()) / sum(wanted.values())
