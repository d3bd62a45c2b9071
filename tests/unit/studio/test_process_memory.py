"""Tests for the used memory of studio and runtime, which the Host room shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from studio.runtimes import process_memory
from studio.runtimes.process_memory import own_memory

MIB = 2**20
# Programs. HOLDER allocates memory, prints a line and waits. PARENT starts HOLDER as a child process.
HOLDER = f"held = bytearray({64 * MIB}); held[::4096] = b'x' * len(held[::4096]); print(flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDER!r}])"


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux reports it")
def test_memory_of_all_descendants_is_counted() -> None:
    before = own_memory()
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        during = own_memory()
        process.communicate(b"\n")
    assert before is not None
    assert during is not None
    assert 64 * MIB <= during["own"] - before["own"] < 128 * MIB
    assert during["available"] > 0


def test_memory_that_cannot_be_measured_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_memory, "PROC", tmp_path / "none")
    assert own_memory() is None
