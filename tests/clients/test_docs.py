"""Tests that run the code examples of the documentation.

Only the server address in the examples is replaced.
"""

from __future__ import annotations

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

PYTHON_CLIENT = ROOT / "clients" / "python"
PYTHON_PAGE = (PYTHON_CLIENT / "README.md").read_text("utf-8")
JAVASCRIPT_PAGE = (node.CLIENT / "README.md").read_text("utf-8")
# Pages of which all examples are run.
PAGES = ("README.md", "docs/quickstart.md", "docs/api.md", "docs/mcp.md")
ADDRESS = re.compile(r"(?<=://)(?:localhost|127\.0\.0\.1):7860")
EXAMPLE_S = 150

# Expected output of each example, in the order of the page.
PYTHON = [
    r"^\d{5,} samples$",
    r"^0 \d+\n(\d+ \d+\n)+eos \d+ \d+\.\d+$",
    r"^(.* )?clara( .*)?\n0 \d+\n(\d+ \d+\n)*\d+ \d+$",
    r"^heard \d{4,} ms$",
    r"the other one: \d{3,} ms\nsent before the cancel: \d+\.\d+ ms\nunknown_voice voice False$",
    r"^\d{3,} ms in the voice of Skipper$",
    r"^\d{3,} ms; kept:.* Our names",
]
JAVASCRIPT = [
    r"^seed 7\ndone eos true$",
    r"^both live other$",
    r"^cancelled true \d+",
    r"^spoken eos$",
    r"^spoken eos$",
]


def examples(language: str, page: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


EXAMPLES = [
    (language, code)
    for page in PAGES
    for language in ("python", "sh", "js")
    for code in examples(language, (ROOT / page).read_text("utf-8"))
]


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(PYTHON_CLIENT), "NO_PROXY": "*"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=EXAMPLE_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout.strip()


def test_every_example_in_the_documentation_has_a_test() -> None:
    assert len(examples("python", PYTHON_PAGE)) == len(PYTHON)
    assert len(examples("js", JAVASCRIPT_PAGE)) == len(JAVASCRIPT)
    assert len(examples("html", JAVASCRIPT_PAGE)) == 1  # tests/browser/test_ws_client.py runs this example.
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_python_examples_print_the_documented_output(server: RunningServer, tmp_path: Path, number: int) -> None:
    code = examples("python", PYTHON_PAGE)[number].replace("http://localhost:8210", server.http)
    assert re.search(PYTHON[number], run([sys.executable, "-c", code], tmp_path))


@pytest.mark.parametrize("number", range(len(JAVASCRIPT)))
def test_javascript_examples_print_the_documented_output(
    server: RunningServer, recording: Path, tmp_path: Path, number: int
) -> None:
    shutil.copy(recording, tmp_path / "voice.wav")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(node.CLIENT, tmp_path / "node_modules" / "voicewright")
    code = examples("js", JAVASCRIPT_PAGE)[number].replace("ws://localhost:8210/v1/audio/speech/stream", server.socket)
    (tmp_path / "example.js").write_text(code)
    assert re.search(JAVASCRIPT[number], run([*node.command(), "example.js"], tmp_path))


def interpreter(code: str) -> str:
    """Return the path of the Python interpreter for an example.

    It is that of .venv-clients if the example imports a third-party client, otherwise that of the tests.
    """
    if not re.search(r"^from (openai|mcp|elevenlabs|cartesia)\b", code, re.MULTILINE):
        return sys.executable
    if not CLIENTS.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get the clients with: make .venv-clients/.ready")
    return str(CLIENTS)


def command(language: str, code: str, folder: Path) -> list[str]:
    if language == "python":
        return [interpreter(code), "-c", code]
    if language == "sh":
        if shutil.which("curl") is None:
            pytest.skip("curl was not found")
        return ["bash", "-c", code.replace("curl ", "curl -sS --fail-with-body ", 1)]
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copytree(node.CLIENT, folder / "node_modules" / "voicewright")
    (folder / "example.js").write_text(code)
    return [*node.command(), "example.js"]


@pytest.mark.parametrize(("language", "code"), EXAMPLES)
def test_documentation_examples_run(app: App, recording: Path, tmp_path: Path, language: str, code: str) -> None:
    shutil.copy(recording, tmp_path / "voice.wav")
    before = set(tmp_path.iterdir())
    said = run(command(language, ADDRESS.sub(app.url.removeprefix("http://"), code), tmp_path), tmp_path)
    made = [path for path in tmp_path.iterdir() if path not in before and path.suffix in {".mp3", ".wav", ".pcm"}]
    assert all(path.stat().st_size > 1_000 for path in made)
    assert made or said or "..." in code
