"""Tests for opening the engine before the server is imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import cast

import pytest

from runtime.errors import CheckpointMissing
from runtime.exits import Exit
from runtime.server import launch
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import Settings
from tests.support.timeouts import TEST_TIMEOUT_S

# Program that launches a runtime whose engine and server are replaced, and prints the slow packages that it imports.
PROGRAM = """
import sys, types
from runtime.server import launch
from runtime.settings import ServerSettings, Settings

server = types.ModuleType("runtime.server.serve")
server.serve = lambda settings, listener, open_engine: open_engine(settings, lambda loaded, of, step: None)
sys.modules["runtime.server.serve"] = server
launch._open_engine = lambda settings, progress: 7
assert launch.launch(Settings(server=ServerSettings(port=0, engine_process=sys.argv[1]))) == 7
print(*sorted({"fastapi", "pydantic", "torch", "uvicorn"} & set(sys.modules)))
"""

# Program that starts a runtime whose server raises an error while the engine computes.
REFUSED = """
import sys, threading, torch, types
from runtime import cli
from runtime.errors import InvalidSetting
from runtime.server import launch

def refuse(settings, listener, open_engine):
    opened.wait()
    raise InvalidSetting(name="wyoming", value="http", why="no")

def open_engine(settings, progress):
    weight = torch.randn(300, 300, 3)
    opened.set()
    while True:
        torch.nn.functional.conv1d(weight, weight)

opened = threading.Event()
sys.modules["runtime.server.serve"] = types.SimpleNamespace(serve=refuse)
launch._open_engine = open_engine
sys.exit(cli.main(["runtime", "--port", "0"]))
"""


@pytest.mark.parametrize(("process", "imported"), [("own", ""), ("shared", "torch")])
def test_engine_is_opened_before_slow_packages_of_the_server_are_imported(process: str, imported: str) -> None:
    output = subprocess.check_output([sys.executable, "-c", PROGRAM, process], text=True, timeout=TEST_TIMEOUT_S)
    assert output.strip() == imported


def test_refused_setting_ends_a_process_that_still_opens_the_engine() -> None:
    ended = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=TEST_TIMEOUT_S)
    assert ended.stderr == "voicewright: wyoming is http: no. [invalid_setting]\n"
    assert ended.returncode == Exit.BAD_INPUT


def test_server_receives_the_current_and_all_later_loading_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    began, attached, later = threading.Event(), threading.Event(), threading.Event()
    engine, steps = cast("SpeechEngine", object()), list[tuple[int, int, str]]()

    def open_engine(settings: Settings, progress: Progress) -> SpeechEngine:
        progress(0, 1, "loading tiny")
        began.set()
        assert attached.wait(TEST_TIMEOUT_S)
        progress(1, 1, "starting")
        return engine

    def attach(*step: int | str) -> None:
        if attached.is_set():
            later.set()
        else:
            attached.set()
            later.wait(0.2)  # A later step must not be reported before this step.
        steps.append(cast("tuple[int, int, str]", step))

    monkeypatch.setattr(launch, "_open_engine", open_engine)
    opening = launch.EngineOpener(Settings())
    assert began.wait(TEST_TIMEOUT_S)
    assert opening.wait(Settings(), attach) is engine
    assert steps == [(0, 1, "loading tiny"), (1, 1, "starting")]


def test_engine_start_failure_is_raised_when_the_server_waits_for_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_engine(settings: Settings, progress: Progress) -> SpeechEngine:
        raise CheckpointMissing(path="nowhere", what="config.json", hint="")

    monkeypatch.setattr(launch, "_open_engine", open_engine)
    with pytest.raises(CheckpointMissing):
        launch.EngineOpener(Settings()).wait(Settings(), lambda loaded, of, step: None)
