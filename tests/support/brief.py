"""Fixtures with small checkpoints, for tests that need only four code groups.

The checkpoints have a quarter of the published code groups, and their engines capture a few shapes of Code2Wav. Import
the fixtures into a conftest.py, where they replace those with sixteen code groups.
"""

from __future__ import annotations

import pytest

from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_graphs import Family
from runtime.model.checkpoint import Checkpoint
from tests.conftest import Loaded

__all__ = ["cloner", "designer", "few_shapes_of_sound", "speaker"]


@pytest.fixture(scope="session")
def speaker(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "custom_voice")


@pytest.fixture(scope="session")
def designer(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "voice_design")


@pytest.fixture(scope="session")
def cloner(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "base")


@pytest.fixture
def few_shapes_of_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture few shapes of Code2Wav graphs.

    By default, every engine would capture up to 44.

    There are still several lengths and batch sizes, so that chunks are divided into pieces, and batches are divided or
    padded. tests/unit/engine/test_sound_graphs.py and test_npu_engine.py test all shapes.
    """
    families = {
        Stream.FIRST_AUDIO: Family((1, 2), (1, 2)),
        Stream.PROMPTS: Family((1,), (1, 2)),
        Stream.AUDIO: Family((1, 2, 4), (1, 4)),
    }
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.FAMILIES", families)
    # A single buffer length, so that some recordings use a graph and others do not.
    monkeypatch.setattr("runtime.engine.audio.voice_encoders.LENGTHS_S", (1.3,))
