"""Tests for runtime and studio on operating systems without fcntl and resource."""

from __future__ import annotations

import ast
import logging
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.settings import DEMO_CHECKPOINT
from runtime.shared import system
from tests.support.voices import create_voice, create_voice_file
from tests.support.without_unix import MODULES, OF_OS, OF_SOCKETS

ROOT = Path(__file__).resolve().parents[2]
MAY_ASK = {"runtime/shared/system.py", "runtime/shared/port/serving.py", "runtime/device/host_memory.py"}
OURS = ("runtime", "studio", "clients/python", "presets")
WAIT_S = 120


def found(tree: ast.AST) -> Iterator[str]:
    """Yield the system-specific features that a Python file uses without a check.

    A check is a call of ``hasattr``.
    """
    text = ast.unparse(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name for name in names if name in MODULES)
        elif isinstance(node, ast.Attribute) and node.attr.endswith("_signal_handler"):
            yield node.attr
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = {"os": OF_OS, "socket": OF_SOCKETS}.get(node.value.id, ())
            if node.attr in known and f"hasattr({node.value.id}, '{node.attr}')" not in text:
                yield f"{node.value.id}.{node.attr}"


def test_platform_specific_features_are_checked_in_one_module() -> None:
    files = [path for room in OURS for path in (ROOT / room).rglob("*.py")] + [ROOT / "app.py"]
    uses = {str(path.relative_to(ROOT)): set(found(ast.parse(path.read_text(encoding="utf-8")))) for path in files}
    assert {path for path, used in uses.items() if used} == MAY_ASK


def test_missing_resource_limits_are_reported_and_tolerated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(system, "_resource", None)
    with caplog.at_level(logging.WARNING):
        system.limit_process(RLIMIT_AS=1, RLIMIT_CPU=1)
    assert "RLIMIT_AS, RLIMIT_CPU" in caplog.text
    assert system.max_files() is None


def test_missing_file_lock_support_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "_fcntl", None)
    with (tmp_path / "lock").open("w") as file, pytest.raises(OSError, match="no locks"):
        system.lock(file.fileno())


def test_windows_lock_held_by_another_process_is_awaited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Msvcrt:
        LK_LOCK = 1
        tries = 0

        def locking(self, descriptor: int, mode: int, count: int) -> None:
            self.tries += 1
            if self.tries < 3:
                raise OSError(36, "Resource deadlock avoided")

    held = Msvcrt()
    monkeypatch.setattr(system, "_fcntl", None)
    monkeypatch.setattr(system, "_msvcrt", held)
    with (tmp_path / "lock").open("w") as file:
        system.lock(file.fileno())
    assert held.tries == 3


@contextmanager
def started(folder: Path, ready: str, *command: str) -> Iterator[str]:
    """Run a module in a process without Unix functions.

    Yields:
        URL of the server. The process is interrupted at the end of the block.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VOICEWRIGHT_DATA": str(folder)}
    words = [sys.executable, "-m", "tests.support.without_unix", *command]
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = (re.search(rf"{ready} (http://\S+)", line) for line in process.stdout)
            yield next(match[1] for match in lines if match)
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()


def asked(url: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return bytes(answer.read())


@pytest.mark.slow
def test_runtime_works_without_features_missing_on_windows(tmp_path: Path) -> None:
    command = ("runtime.cli", "runtime", "--port", "0", "--device", "cpu", "--model", str(DEMO_CHECKPOINT))
    with started(tmp_path, "ready at", *command) as url:
        said = asked(f"{url}/v1/audio/speech", b'{"input": "Hello.", "voice": "nora", "response_format": "pcm"}')
        assert len(said) > 4800
        voice = create_voice_file(create_voice("Quiet uncle", samples=24_000))
        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="v.voice"\r\n\r\n' + voice
        asked(f"{url}/v1/audio/voices", form + b"\r\n--x--\r\n", "multipart/form-data; boundary=x")
        assert b"Quiet uncle" in asked(f"{url}/v1/audio/voices")
    assert list(tmp_path.rglob(".lock"))


@pytest.mark.slow
def test_studio_works_without_features_missing_on_windows(tmp_path: Path) -> None:
    with started(tmp_path, "Voicewright is ready at", "app", "--port", "0") as url:
        assert b"vw-speak" in asked(f"{url}/")
