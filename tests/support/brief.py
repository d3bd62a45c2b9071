"""Fixtures for tests of what holds whatever a frame is made of: the usual checkpoints with a quarter of the codes.

Import them into a conftest.py, where they stand in front of the ones with sixteen code groups.
"""

from __future__ import annotations

import pytest

from runtime.model.checkpoint import Checkpoint
from tests.conftest import Loaded

__all__ = ["cloner", "designer", "speaker"]


@pytest.fixture(scope="session")
def speaker(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "custom_voice")


@pytest.fixture(scope="session")
def designer(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "voice_design")


@pytest.fixture(scope="session")
def cloner(loaded: Loaded) -> Checkpoint:
    return loaded("brief", "base")
