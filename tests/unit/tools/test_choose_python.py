"""Tests for the choice of a Python interpreter by `make run`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.thorough import ROOT
from tools.choose_python import SUPPORTED
from tools.lock import PYTHONS

HERE = "{}.{}".format(*sys.version_info)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Create an empty folder that a test uses as the value of PATH, and return it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def add(path: Path, name: str, prints: str) -> str:
    """Add a fake interpreter to PATH that always prints `prints`, and return its path."""
    program = path / name
    program.write_text(f"#!/bin/sh\necho '{prints}'\necho True\n")
    program.chmod(0o755)
    return str(program)


def chosen(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "choose_python.py"), *arguments]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("on_path", "expected"),
    [
        ({"python3": "3.11", "python3.14": "3.14"}, "python3"),
        ({"python3": "3.9", "python3.12": "3.12", "python3.13": "3.13"}, "python3.13"),
        ({"python3": "3.15", "python3.11": "3.11"}, "python3.11"),
        ({"python3": "free-threaded 3.14", "python3.14": "free-threaded 3.14", "python": "3.12"}, "python"),
        ({"python3": "pypy 3.11", "python3.11": "32-bit 3.11", "python3.13": "3.13"}, "python3.13"),
    ],
)
def test_python3_is_preferred_if_supported_and_otherwise_the_newest(
    path: Path, tmp_path: Path, on_path: dict[str, str], expected: str
) -> None:
    for name, version in on_path.items():
        add(path, name, version)
    assert chosen(path, str(tmp_path / "venv")).stdout == f"{expected}\n"


@pytest.mark.parametrize(
    ("version", "named"),
    [("3.15", "is 3.15"), ("3.10", "is 3.10"), ("free-threaded 3.13", "is free-threaded 3.13"), ("", "not a working")],
)
@pytest.mark.parametrize("requested", [True, False])
def test_unsupported_version_is_not_chosen(
    path: Path, tmp_path: Path, version: str, named: str, requested: bool
) -> None:
    program = add(path, "python3", version)
    ended = chosen(path, str(tmp_path / "venv"), *([program] if requested else []))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert named in ended.stderr
    assert all(way in ended.stderr for way in ("3.11 to 3.14", "apt install", "brew install", "Store", "uv python"))


def test_missing_requested_interpreter_is_refused(path: Path, tmp_path: Path) -> None:
    add(path, "python3", "3.12")
    ended = chosen(path, str(tmp_path / "venv"), "python3.99")
    assert (ended.returncode, "python3.99 was not found" in ended.stderr) == (1, True)


def environment(folder: Path, python: str) -> Path:
    """Create a virtual environment for an interpreter, and return its folder.

    A file in the environment shows whether the environment was removed.
    """
    venv = folder / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(python)
    (venv / ".ready").touch()
    return venv


def test_working_environment_is_kept(path: Path, tmp_path: Path) -> None:
    venv = environment(tmp_path, add(path, "other", "3.12"))
    assert chosen(path, str(venv)).stdout == f"{venv}/bin/python\n"
    assert (venv / ".ready").exists()


@pytest.mark.parametrize("state", ["missing", "unsupported", "upgraded", "requested"])
def test_unusable_environment_is_removed(path: Path, tmp_path: Path, state: str) -> None:
    python3 = add(path, "python3", "3.13")
    own = add(path, "other", "3.10" if state == "unsupported" else "3.12")
    if state == "upgraded":  # After an upgrade from Debian 12 to 13, the interpreter works but finds no packages.
        Path(own).write_text("#!/bin/sh\necho 3.13\necho False\n")
    venv = environment(tmp_path, own)
    if state == "missing":
        Path(own).unlink()
    ended = chosen(path, str(venv), *([python3] if state == "requested" else []))
    assert ended.stdout == f"{python3 if state == 'requested' else 'python3'}\n"
    assert not venv.exists()
    assert "made again" in ended.stderr


def test_make_refuses_an_unsupported_interpreter(path: Path, tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("get it with: apt install make")
    command = [make, "run", f"PYTHON={add(path, 'python3.15', '3.15')}", f"VENV={tmp_path / 'venv'}"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ended = subprocess.run(command, cwd=ROOT, env=inherited, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "python3.15 is 3.15" in ended.stderr
    assert not (tmp_path / "venv").exists()


def test_every_supported_interpreter_on_path_is_listed_once(path: Path) -> None:
    on_path = {"python3": "3.13", "python3.13": "3.13", "python": "3.12", "python3.11": "3.11", "python3.14": "3.15"}
    for name, version in on_path.items():
        add(path, name, version)
    assert chosen(path, "--all").stdout == "python3.11\npython\npython3.13\n"


def test_running_interpreter_is_accepted() -> None:
    venv = ROOT / "no-such-environment"
    assert HERE in SUPPORTED
    assert chosen(Path("/nowhere"), str(venv), sys.executable).stdout == f"{sys.executable}\n"


@pytest.mark.parametrize("project", [".", "clients/python"])
def test_both_packages_declare_the_supported_versions(project: str) -> None:
    metadata = tomllib.loads((ROOT / project / "pyproject.toml").read_text("utf-8"))["project"]
    classified = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in metadata["classifiers"]]
    assert tuple(match[1] for match in classified if match) == SUPPORTED == PYTHONS
    assert metadata["requires-python"] == f">={SUPPORTED[0]}"
    assert "Typing :: Typed" in metadata["classifiers"]
