"""Fixtures with fast checkpoints whose utterances always reach the frame limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.texts import single_tokens
from tests.support.checkpoints.files import write_checkpoint
from tests.support.checkpoints.tiny import QUICK


@pytest.fixture(scope="package")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a CustomVoice checkpoint whose utterances reach the frame limit."""
    return _endless(tmp_path_factory, "custom_voice")


@pytest.fixture(scope="package")
def endless_cloner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a Base checkpoint whose utterances reach the frame limit."""
    return _endless(tmp_path_factory, "base")


def _endless(tmp_path_factory: pytest.TempPathFactory, mode: str) -> Path:
    folder = tmp_path_factory.mktemp("endless") / mode
    write_checkpoint(folder, replace(QUICK, is_endless=True, tokens=single_tokens()), mode, seed=3)
    return folder
