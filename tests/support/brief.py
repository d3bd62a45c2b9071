"""Fixtures with smaller and faster checkpoints, for tests that need only four code groups.

The engines of these fixtures capture only a few Code2Wav shapes. A conftest.py that imports these fixtures replaces the
default fixtures, which have sixteen code groups.
"""

from __future__ import annotations

import pytest

from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_graphs import GraphShapes
from runtime.model.checkpoints.checkpoint import Checkpoint
from tests.conftest import Loaded

__all__ = ["cloner", "designer", "limit_code2wav_graphs", "speaker"]


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
def limit_code2wav_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the captured Code2Wav graphs to a few shapes, so that engines start faster.

    By default, every engine captures up to 44 shapes. The remaining shapes still have several lengths and batch sizes,
    so that chunks are split, and batches are split or padded. tests/unit/engine/test_code2wav_graphs.py and
    test_npu_engine.py test all shapes.
    """
    families = {
        Stream.FIRST_AUDIO: GraphShapes((1, 2), (1, 2)),
        Stream.PROMPTS: GraphShapes((1,), (1, 2)),
        Stream.AUDIO: GraphShapes((1, 2, 4), (1, 4)),
    }
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.GRAPH_SHAPES", families)
    # There is only one graph length, so that some recordings use a graph, and longer ones do not.
    monkeypatch.setattr("runtime.engine.audio.voice_encoders.LENGTHS_S", (1.3,))
