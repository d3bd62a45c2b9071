"""Fixtures with a server for three tiny checkpoints, shared by most tests in this folder.

The server stops after the tests in this folder. Engine tests change global state of this process, and the self-test of
the server (canary) would report these changes as an error.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from runtime.settings import EngineSettings
from tests.conftest import FolderOf
from tests.support.audio_files import audio_file
from tests.support.runtime_server import RunningServer, running_server
from tests.support.signals import voice
from tests.support.studio_port import running_server_behind_studio, studio_port

Serving = Callable[..., AbstractContextManager[RunningServer]]  # Type of `running_server`.


@pytest.fixture(scope="package")
def server(folder_of: FolderOf) -> Iterator[RunningServer]:
    """Run a server with all three modes and four slots per checkpoint."""
    folders = [folder_of("brief", mode) for mode in ("custom_voice", "voice_design", "base")]
    with running_server(*folders, engine=EngineSettings(threads=1, max_slots=4)) as running:
        yield running


@pytest.fixture(scope="package")
def behind_studio(server: RunningServer) -> Iterator[RunningServer]:
    """Return the server of the fixture `server` with the port of a studio."""
    with studio_port(server.http) as port:
        yield replace(server, port=port, runtime_port=server.port)


@pytest.fixture(params=["runtime", pytest.param("studio", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest) -> RunningServer:
    """Return the server of the fixture `server` with its own port or with a studio's port.

    Tests with this fixture run once with each port.
    """
    running: RunningServer = request.getfixturevalue("server" if request.param == "runtime" else "behind_studio")
    return running


@pytest.fixture(params=["runtime", pytest.param("studio", marks=pytest.mark.slow)])
def serving(request: pytest.FixtureRequest) -> Serving:
    """Return a function that starts a server, without a studio or with one."""
    return running_server if request.param == "runtime" else running_server_behind_studio


@pytest.fixture(scope="session")
def ref_audio() -> str:
    """Return two seconds of a synthetic voice as a data URL."""
    return "data:audio/wav;base64," + base64.b64encode(audio_file(voice(2.0, 5))).decode()
