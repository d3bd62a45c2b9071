"""Node process for JavaScript tests without a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "js"
MIN_NODE_VERSION = 20  # First Node version with a WebSocket client. Before version 22, it needs a flag.


@cache
def command() -> list[str]:
    """Return the command that starts Node with WebSocket support, or skip the test."""
    path = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if path is None:
        pytest.skip("Node was not found; get it with: make check")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    major = int(version.removeprefix("v").split(".")[0])
    if major < MIN_NODE_VERSION:
        pytest.skip(f"Node {version} has no WebSocket")
    return [path] if major >= 22 else [path, "--experimental-websocket", "--no-warnings"]
