"""Every example of the docs is run as it stands but for the address, on the embedded voice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import PYTHON as CLIENTS
from tests.clients.conftest import ROOT
from tests.support import node
from tests.support.app import App
from tests.support.runtime_server import RunningServer

PAGE = (ROOT / "docs" / "clients.md").read_text("utf-8")
PYTHON_CLIENT = ROOT / "clients" / "python"
PYTHON_PAGE = (PYTHON_CLIENT / "README.md").read_text("utf-8")
JAVASCRIPT_PAGE = (node.CLIENT / "README.md").read_text("utf-8")
API, MCP, README = ((ROOT / path).read_text("utf-8") for path in ("docs/api.md", "docs/mcp.md", "README.md"))
EXAMPLE_S = 150

# What each example prints, in the order of the page.
PYTHON = [
    r"^\d{5,} samples$",
    r"^0 \d+\n(\d+ \d+\n)+eos \d+ \d+\.\d+$",
    r"^(.* )?clara( .*)?\n0 \d+\n(\d+ \d+\n)*\d+ \d+$",
    r"^heard \d{4,} ms$",
    r"the other one: \d{3,} ms\nsent before the cancel: \d+\.\d+ ms\nunknown_voice voice False$",
    r"^\d{3,} ms in the voice of Skipper$",
    r"^\d{3,} ms; kept:.* Our names",
]
GRADIO = r"voicewright\.wav\n24000 7 eos$"
JAVASCRIPT = [
    r"^seed 7\ndone eos true$",
    r"^both live other$",
    r"^cancelled true \d+",
    r"^spoken eos$",
    r"^spoken eos$",
]


def examples(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(PYTHON_CLIENT), "NO_PROXY": "*"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=EXAMPLE_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout.strip()


def test_every_example_has_its_test() -> None:
    assert len(examples("python", PYTHON_PAGE)) == len(PYTHON)
    assert len(examples("js", JAVASCRIPT_PAGE)) == len(JAVASCRIPT)
    assert len(examples("html", JAVASCRIPT_PAGE)) == 1  # tests/browser/test_ws_client.py
    assert len(examples("sh")) == 1  # tests/wire/test_wyoming.py, tests/browser/test_host.py
    assert len(examples("python")) == 1
    assert PAGE.count("```") == 4


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_a_python_example_prints_what_it_should(server: RunningServer, tmp_path: Path, number: int) -> None:
    code = examples("python", PYTHON_PAGE)[number].replace("http://localhost:8210", server.http)
    assert re.search(PYTHON[number], run([sys.executable, "-c", code], tmp_path))


def test_the_gradio_example_prints_what_it_should(app: App, tmp_path: Path) -> None:
    (code,) = examples("python")
    code = code.replace("http://localhost:7860", app.url)
    assert re.search(GRADIO, run([sys.executable, "-c", code], tmp_path))


@pytest.mark.parametrize("number", range(len(JAVASCRIPT)))
def test_a_javascript_example_prints_what_it_should(
    server: RunningServer, recording: Path, tmp_path: Path, number: int
) -> None:
    shutil.copy(recording, tmp_path / "voice.wav")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(node.CLIENT, tmp_path / "node_modules" / "voicewright")
    code = examples("js", JAVASCRIPT_PAGE)[number].replace("ws://localhost:8210/v1/audio/speech/stream", server.socket)
    (tmp_path / "example.js").write_text(code)
    assert re.search(JAVASCRIPT[number], run([*node.command(), "example.js"], tmp_path))


def interpreter(code: str) -> str:
    """Ours, or that of other people's clients where an example is for one of these."""
    if not re.search(r"^from (openai|mcp) import", code, re.MULTILINE):
        return sys.executable
    if not CLIENTS.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get the clients with: make .venv-clients/.ready")
    return str(CLIENTS)


@pytest.mark.parametrize("number", range(len(examples("python", API))))
def test_a_python_example_of_the_api_runs(server: RunningServer, recording: Path, tmp_path: Path, number: int) -> None:
    shutil.copy(recording, tmp_path / "voice.wav")
    code = examples("python", API)[number].replace("http://127.0.0.1:8210", server.http)
    run([interpreter(code), "-c", code], tmp_path)
    assert all(path.stat().st_size > 1_000 for path in tmp_path.iterdir())


@pytest.mark.parametrize("number", range(len(examples("sh", API))))
def test_a_command_of_the_api_runs(server: RunningServer, tmp_path: Path, number: int) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl was not found")
    command = examples("sh", API)[number].replace("http://127.0.0.1:8210", server.http)
    said = run(["bash", "-c", command.replace("curl ", "curl -sS --fail-with-body ", 1)], tmp_path)
    files = list(tmp_path.iterdir())
    assert len(said) > 1_000 or (files and files[0].stat().st_size > 1_000) or json.loads(said)["id"]


@pytest.mark.parametrize("code", [*examples("python", MCP), *examples("python", README)])
def test_a_python_example_of_the_page_runs(app: App, tmp_path: Path, code: str) -> None:
    code = re.sub(r"http://(localhost|127\.0\.0\.1):7860", app.url, code)
    run([interpreter(code), "-c", code], tmp_path)
