"""The embedded voice speaks: a recogniser gets most words of the page's sentence in each mode, and none of noise."""

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
from tests.speech.recogniser import heard_words, share_heard
from tests.support.engines import said
from tests.support.stand_in import write_stand_in

MOST = 0.5  # of the words; the voice reaches about 0.75, noise next to nothing
NEXT_TO_NOTHING = 0.2  # short words are heard in noise now and then
SEEDS = (1, 2, 3)


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


def share(engine: Engine, text: str, **words: object) -> float:
    """Mean share of words heard over some seeds; every utterance must end by itself."""
    shares = []
    for seed in SEEDS:
        heard = said(engine, SpeechRequest(text=text, seed=seed, **words))  # type: ignore[arg-type]
        assert heard.end.stop_reason is StopReason.EOS
        shares.append(share_heard(text, heard_words(heard.pcm)))
    return float(np.mean(shares))


def test_every_speaker_is_understood(engine: Engine, text: str) -> None:
    shares = {name: share(engine, text, mode=Mode.CUSTOM_VOICE, voice=name) for name in engine.cards[0].speakers}
    assert len(shares) >= 4
    assert min(shares.values()) > MOST - 0.1, shares
    assert np.mean(list(shares.values())) > MOST, shares


def test_a_designed_voice_is_understood(engine: Engine, presets: dict[str, object], text: str) -> None:
    description = presets["designs"][0]["text"]  # type: ignore[index]
    assert share(engine, text, mode=Mode.VOICE_DESIGN, instruct=description) > MOST


def test_a_cloned_voice_is_understood(engine: Engine, text: str) -> None:
    samples = spoken(engine, "The harbour was quiet, and the lights of the last boat went out one by one.")
    reference = Reference(samples=samples, x_vector_only=True)
    assert share(engine, text, mode=Mode.BASE, reference=reference) > MOST


def spoken(engine: Engine, text: str) -> NDArray[np.float32]:
    pcm = said(engine, SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=1)).pcm
    return (pcm / 32768).astype(np.float32)


def test_random_weights_are_not_understood(tmp_path: Path, text: str) -> None:
    write_stand_in(tmp_path)
    engine = Engine.open(Settings(models=(str(tmp_path),)))
    heard = said(engine, SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, seed=1, max_frames=90))
    assert share_heard(text, heard_words(heard.pcm)) < NEXT_TO_NOTHING
