"""Test of the parallel compilation of kernels without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

pytestmark = pytest.mark.slow


def test_precompilation_compiles_used_kernels_and_launches_none(tmp_path: Path) -> None:
    """Two kernels can be compiled, and the third kernel would fail only when it is launched.

    The test uses a separate process, because this process uses Triton's interpreter and another driver.
    """
    words = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-m", "tests.support.precompile_kernels"]
    ran = subprocess.run(command, env=words, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "asked 3 launched 0 by compile",
        "launched 2",
        "again 0",
        "hopeless CompilationError",
    ]
