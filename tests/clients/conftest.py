"""Fixtures for the client tests: a runtime with the embedded voice, and client scripts.

The scripts run in the environment .venv-clients.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.settings import DEMO_CHECKPOINT, EngineSettings, ServerSettings
from tests.support import node
from tests.support.app import App, running_app
from tests.support.runtime_server import RunningServer, running_server
from voicewright import say, wav

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
PACKAGES = ROOT / ".venv-clients" / "node_modules"  # Folder with the JavaScript packages of the tested clients.
SCRIPTS = Path(__file__).parent / "scripts"
REFERENCE_TEXT = "The old clock in the hall strikes nine, and then it is quiet again."
# Timeout of a client in seconds. The slowest client needs half a minute for its imports on a busy machine.
CLIENT_S = 150

Client = Callable[..., dict[str, Any]]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(
        DEMO_CHECKPOINT,
        engine=EngineSettings(threads=1),
        server=ServerSettings(voices=str(tmp_path_factory.mktemp("voices")), wyoming="tcp://127.0.0.1:0"),
    ) as running:
        yield running


@pytest.fixture(scope="package")
def app() -> Iterator[App]:
    """Yield a running studio and runtime with the embedded voice."""
    with running_app([]) as running:
        yield running


@pytest.fixture(scope="package")
def recording(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a WAV file with the reference audio of a voice to clone."""
    path = tmp_path_factory.mktemp("recording") / "neighbour.wav"
    path.write_bytes(wav(say(server.http, REFERENCE_TEXT, voice="angus", seed=3)))
    return path


@pytest.fixture
def client(server: RunningServer) -> Client:
    """Return a function that runs a client script and returns its JSON output.

    The script uses an unmodified third-party client with the server's address. The arguments of the function are the
    name of the script, with the suffix if it is JavaScript, and the script's arguments.
    """
    if not PYTHON.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get the clients with: make .venv-clients/.ready")

    def run(script: str, *arguments: object) -> dict[str, Any]:
        path = SCRIPTS / script if script.endswith(".cjs") else SCRIPTS / f"{script}.py"
        command = [*(node.command() if path.suffix == ".cjs" else [str(PYTHON)]), str(path)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        ended = subprocess.run(
            [*command, server.http, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=CLIENT_S,
            check=False,
            env=kept | {"NO_PROXY": "*", "NODE_PATH": str(PACKAGES)},
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return result

    return run
