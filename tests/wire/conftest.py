"""One server with the three tiny checkpoints for all wire tests that do not break it."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import pytest
import soundfile

from runtime.settings import EngineSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.signals import voice


@pytest.fixture(scope="session")
def server(folder_of: FolderOf) -> Iterator[RunningServer]:
    """Custom voice, voice design and base on four slots each."""
    folders = [folder_of("tiny", mode) for mode in ("custom_voice", "voice_design", "base")]
    with running_server(*folders, engine=EngineSettings(threads=1, max_slots=4)) as running:
        yield running


@pytest.fixture(scope="session")
def ref_audio() -> str:
    """Two seconds of a voice as a data: URL."""
    file = io.BytesIO()
    soundfile.write(file, voice(2.0, 5), 24_000, format="WAV", subtype="PCM_16")
    return "data:audio/wav;base64," + base64.b64encode(file.getvalue()).decode()
