"""Tests that a speech recogniser understands the embedded voice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import Mode, Reference, SpeechRequest, StopReason
from runtime.settings import Settings
from studio.presets import Presets
from tests.speech.recogniser import heard_words
from tests.support.engines import speak, speak_together
from tests.support.spoken import share_heard
from tests.support.stand_in import write_stand_in

MIN_RECOGNISED = 0.85  # Minimum fraction of recognised words. The voice reaches at least 0.95, noise almost 0.
NEXT_TO_NOTHING = 0.2  # Maximum fraction of recognised words in noise.
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield Engine.open(Settings())
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def presets() -> dict[str, object]:
    return Presets.load().as_json()


@pytest.fixture(scope="module")
def text(presets: dict[str, object]) -> str:
    return str(presets["texts"]["auto"])  # type: ignore[index]


def shares(engine: Engine, text: str, *requests: SpeechRequest) -> list[float]:
    """Generate one utterance per request, and return each one's fraction of recognised words.

    All utterances must end with EOS.
    """
    recorders = speak_together(engine, *requests)
    assert {recorder.end.stop_reason for recorder in recorders} == {StopReason.EOS}
    return [share_heard(text, heard_words(recorder.pcm)) for recorder in recorders]


def mean_share(engine: Engine, text: str, seeds: tuple[int, ...] = SEEDS, **kwargs: object) -> float:
    """Generate a text with several seeds, and return the mean fraction of recognised words."""
    requests = [SpeechRequest(text=text, seed=seed, **kwargs) for seed in seeds]  # type: ignore[arg-type]
    return float(np.mean(shares(engine, text, *requests)))


@pytest.mark.slow
def test_speech_of_every_speaker_is_intelligible(engine: Engine, text: str) -> None:
    speakers = engine.cards[0].speakers
    requests = [SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice=name, seed=1) for name in speakers]
    heard = dict(zip(speakers, shares(engine, text, *requests), strict=True))
    assert len(heard) >= 4
    assert min(heard.values()) > MIN_RECOGNISED - 0.15, heard
    assert np.mean(list(heard.values())) > MIN_RECOGNISED, heard


def test_speech_of_a_designed_voice_is_intelligible(engine: Engine, presets: dict[str, object], text: str) -> None:
    description = presets["designs"][0]["text"]  # type: ignore[index]
    assert mean_share(engine, text, SEEDS[:1], mode=Mode.VOICE_DESIGN, instruct=description) > MIN_RECOGNISED


@pytest.mark.slow
def test_speech_of_a_cloned_voice_is_intelligible(engine: Engine, text: str) -> None:
    samples = spoken(engine, "The harbour was quiet, and the lights of the last boat went out one by one.")
    reference = Reference(samples=samples, x_vector_only=True)
    assert mean_share(engine, text, mode=Mode.BASE, reference=reference) > MIN_RECOGNISED


def spoken(engine: Engine, text: str) -> NDArray[np.float32]:
    pcm = speak(engine, SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=1)).pcm
    return (pcm / 32768).astype(np.float32)


@pytest.mark.slow
def test_speech_from_random_weights_is_unintelligible(tmp_path: Path, text: str) -> None:
    write_stand_in(tmp_path)
    engine = Engine.open(Settings(models=(str(tmp_path),)))
    recorder = speak(engine, SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=1, max_frames=90))
    assert share_heard(text, heard_words(recorder.pcm)) < NEXT_TO_NOTHING
