"""Runs a module of these tests that compiles kernels without a card, and reads what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

LIMIT_S = 280


def compiled(module: str) -> list[dict[str, Any]]:
    """The JSON object of each line that a module of tests.support printed, in a process without the interpreter."""
    command = [sys.executable, "-m", f"tests.support.{module}"]
    words = {**os.environ, "TRITON_INTERPRET": "0"}
    ran = subprocess.run(command, env=words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]
