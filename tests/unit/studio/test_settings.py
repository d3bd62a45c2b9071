"""Tests for the studio's settings and their error messages."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings
from runtime.shared.port.serving import listen
from runtime.voices.library import library_folder
from studio.settings import StoreSettings, StudioSettings

ROOT = Path(__file__).resolve().parents[3]


def test_arguments_override_environment_and_environment_overrides_defaults() -> None:
    read = StudioSettings.from_command_line
    assert read([], {}) == StudioSettings(host="127.0.0.1", port=7860)
    assert read([], {"PORT": "80", "HOST": "0.0.0.0"}) == StudioSettings(host="0.0.0.0", port=80)
    assert read(["--port", "81"], {"PORT": "80"}).port == 81
    kwargs = read([], {"VOICEWRIGHT_RUNTIME_URL": "http://gpu:8210/"})
    assert kwargs.runtime_url == "http://gpu:8210"


def test_unknown_arguments_are_passed_to_the_runtime() -> None:
    argv = ["--model", "base=/models/b", "--port", "0", "--device", "cpu", "--eager"]
    settings = StudioSettings.from_command_line(argv, {})
    assert settings.port == 0
    assert settings.runtime_args == ("--model", "base=/models/b", "--device", "cpu", "--eager")


@pytest.mark.parametrize("port", ["", "http", "-1", "65536", "1.5"])
def test_invalid_port_error_names_the_setting(port: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^--port is"):
        StudioSettings.from_command_line([f"--port={port}"], {"PORT": "80"})
    with pytest.raises(InvalidSetting, match=r"^PORT is"):
        StudioSettings.from_command_line([], {"PORT": port})


BAD_URLS = [
    "banana",
    "gpu:8210",
    "127.0.0.1:8210",
    "//gpu",
    "http://",
    "http:///v1",
    "http://gpu:port",
    "http://gpu:0",
    "http://gpu:65536",
    "http://[::1",
    "ws://gpu:8210",
    "file:///etc",
    "http://gpu/?a=b",
    "http://gpu/#here",
    "http://g pu",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_invalid_runtime_url_error_names_the_setting(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^VOICEWRIGHT_RUNTIME_URL is .* such as http://127"):
        StudioSettings.from_command_line([], {"VOICEWRIGHT_RUNTIME_URL": url})
    with pytest.raises(InvalidSetting, match=r"^--runtime-url is"):
        StudioSettings.from_command_line(["--runtime-url", url], {"VOICEWRIGHT_RUNTIME_URL": "http://gpu"})


@pytest.mark.parametrize("url", ["http://gpu", "https://voice.example.org/runtime", "http://[::1]:8210"])
def test_runtime_url_is_accepted(url: str) -> None:
    assert StudioSettings.from_command_line([], {"VOICEWRIGHT_RUNTIME_URL": url + "/"}).runtime_url == url


def test_empty_runtime_url_counts_as_not_configured() -> None:
    assert StudioSettings.from_command_line([], {"VOICEWRIGHT_RUNTIME_URL": ""}).runtime_url is None


def test_invalid_url_is_reported_in_one_sentence_with_status_2() -> None:
    command = [sys.executable, "app.py", "--port", "0", "--runtime-url", "banana"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    said = "--runtime-url is 'banana': it must be a URL such as http://127.0.0.1:8210."
    assert ended.stderr == f"{said} [invalid_setting]\n"


def test_runtime_arguments_are_refused_for_an_external_runtime() -> None:
    with pytest.raises(InvalidSetting, match="--model"):
        StudioSettings.from_command_line(["--runtime-url", "http://gpu:8210", "--model", "x"], {})


def test_used_port_is_reported_in_one_sentence_with_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse):
            listen(ServerSettings(), "127.0.0.1", port, option="--port")
        command = [sys.executable, "app.py", "--port", str(port)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    sentence = f"Port {port} on 127.0.0.1 is in use; choose another with --port or PORT."
    assert ended.stderr == f"{sentence} [port_in_use]\n"


def test_non_local_bind_address_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"192\.0\.2\.1"):
        listen(ServerSettings(), "192.0.2.1", 0, option="--port")


STORE = fields(StoreSettings)


@pytest.mark.parametrize("field", STORE, ids=lambda field: field.name)
def test_every_store_limit_can_be_set(field: Field[Any]) -> None:
    default, choices, low = field.default, field.metadata["choices"], field.metadata["low"]
    value = choices[-1] if choices else "here" if isinstance(default, str) else type(default)(default + 1)
    read = StudioSettings.from_command_line([], {field.metadata["env"]: str(value)})
    assert getattr(read.store, field.name) == value
    if low is not None:
        with pytest.raises(InvalidSetting, match="at least"):
            StudioSettings.from_command_line([], {field.metadata["env"]: str(type(default)(low - 1))})


@pytest.mark.parametrize(
    ("setting", "space", "each"),
    [("auto", "", False), ("auto", "me/x", True), ("one", "me/x", False), ("each", "", True)],
)
def test_visitors_have_separate_histories_on_a_space_or_if_configured(setting: str, space: str, each: bool) -> None:
    assert StoreSettings(visitors=setting).has_separate_histories({"SPACE_ID": space}) is each


def test_all_stored_data_is_in_one_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert StoreSettings().folder == tmp_path / "voicewright" == library_folder("").parent
    assert StoreSettings(data="/data").folder == Path("/data") == library_folder("", "/data").parent
