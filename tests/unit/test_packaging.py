"""What is shipped holds what the first command needs: the page, the presets, the embedded voice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]

NEEDED = [
    "app.py",
    "runtime/cli.py",
    "studio/server.py",
    "presets/texts.toml",
    "assets/js/worklet.js",
    "assets/css/studio.css",
    "assets/html/studio.html",
    "assets/demo-voice/config.json",
    "assets/demo-voice/model.safetensors",
    "assets/demo-voice/vocab.json",
    "assets/demo-voice/speech_tokenizer/model.safetensors",
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return ZipFile(path).namelist()


@pytest.mark.parametrize("name", NEEDED)
def test_the_wheel_holds(wheel: list[str], name: str) -> None:
    assert name in wheel


def test_the_wheel_holds_no_tests_and_no_recipe(wheel: list[str]) -> None:
    assert not [name for name in wheel if name.startswith(("tests/", "tools/", ".venv"))]


def test_the_image_is_given_what_the_wheel_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    kept = {name.split("/")[0] for name in NEEDED} | {
        "pyproject.toml",
        "requirements.lock",
        "README.md",
        "LICENSE",
        "benchmarks",
    }
    assert kept.isdisjoint(ignored)
    assert all((ROOT / name).exists() for name in kept)
