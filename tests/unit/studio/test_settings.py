"""The studio's own arguments, and the two mistakes that it can tell before anything is loaded."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import InvalidSetting, PortInUse
from studio.server import listen
from studio.settings import StudioSettings

ROOT = Path(__file__).resolve().parents[3]


def test_defaults_environment_and_arguments_in_this_order() -> None:
    read = StudioSettings.from_command_line
    assert read([], {}) == StudioSettings(host="127.0.0.1", port=7860)
    assert read([], {"PORT": "80", "HOST": "0.0.0.0"}) == StudioSettings(host="0.0.0.0", port=80)
    assert read(["--port", "81"], {"PORT": "80"}).port == 81
    given = read([], {"VOICEWRIGHT_RUNTIME_URL": "http://gpu:8210/"})
    assert given.runtime_url == "http://gpu:8210"


def test_what_the_studio_does_not_know_is_the_runtimes() -> None:
    argv = ["--model", "base=/models/b", "--port", "0", "--device", "cpu", "--eager"]
    settings = StudioSettings.from_command_line(argv, {})
    assert settings.port == 0
    assert settings.runtime_args == ("--model", "base=/models/b", "--device", "cpu", "--eager")


@pytest.mark.parametrize("port", ["", "http", "-1", "65536", "1.5"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(InvalidSetting):
        StudioSettings.from_command_line([f"--port={port}"], {})


def test_arguments_for_a_runtime_that_is_not_ours_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="--model"):
        StudioSettings.from_command_line(["--runtime-url", "http://gpu:8210", "--model", "x"], {})


def test_a_taken_port_is_one_sentence_and_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse):
            listen("127.0.0.1", port)
        command = [sys.executable, "app.py", "--port", str(port)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == f"Port {port} on 127.0.0.1 is in use; choose another with --port or PORT.\n"


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"192\.0\.2\.1"):
        listen("192.0.2.1", 0)
