"""Tests for inline tags with the embedded voice: tagged text equals a separate request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.request import SAMPLE_RATE, Mode, SpeechRequest, StopReason
from runtime.settings import Settings
from tests.speech.recogniser import heard_words
from tests.support.engines import EventRecorder, speak
from tests.support.spoken import share_heard

pytestmark = pytest.mark.slow

FIRST, SECOND = "The boat came back in the evening.", "Nobody on the quay had expected it so soon."
TEXT = f"[excited] {FIRST} [pause:750ms] [sad] {SECOND}"
MIN_RECOGNISED = 0.85


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.open(Settings())


def speak_tagged(engine: Engine, text: str, **kwargs: Any) -> EventRecorder:
    return speak(engine, SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice="Angus", seed=1, **kwargs))


def test_tagged_spans_equal_separate_requests_with_silence_between(engine: Engine) -> None:
    heard = speak_tagged(engine, TEXT, tags=True)
    first, second = speak_tagged(engine, FIRST, instruct="excited"), speak_tagged(engine, SECOND, instruct="sad")
    assert heard.end.stop_reason is StopReason.EOS
    assert np.array_equal(heard.codes, np.concatenate([first.codes, second.codes]))
    silence = heard.pcm[len(first.pcm) : len(first.pcm) + 3 * SAMPLE_RATE // 4]
    assert not silence.any()
    assert len(heard.pcm) == len(first.pcm) + len(silence) + len(second.pcm)
    assert not np.array_equal(speak_tagged(engine, FIRST).codes, first.codes), "the style counts"


def test_words_are_audible_and_tags_are_not(engine: Engine) -> None:
    words = heard_words(speak_tagged(engine, TEXT, tags=True).pcm)
    assert share_heard(f"{FIRST} {SECOND}", words) > MIN_RECOGNISED
    assert {"excited", "pause", "sad"}.isdisjoint(words)
