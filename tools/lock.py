"""Pin the dependencies: requirements.lock for running, requirements-dev.lock for working on the project.

torch is pinned to one version and left to choose its build; the CUDA packages that some builds depend on are not
pinned here, since a CPU build must not bring gigabytes of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
BUILD_DEPENDENT = ("cuda-", "nvidia-", "triton", "torch==")


def compile_lock(target: Path, *options: str) -> None:
    """Resolve pyproject.toml for both Pythons and write the pins, without what depends on torch's build."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", *options]
    command += ["--universal", "--python-version", "3.11", "--no-annotate", "--no-header", "--constraint", "-"]
    done = subprocess.run(command, input=TORCH, capture_output=True, text=True, check=True)
    pins = [line for line in done.stdout.splitlines() if line and not line.startswith(BUILD_DEPENDENT)]
    head = f"# Made by `make lock` from pyproject.toml.\n{TORCH}\n"
    target.write_text(head + "\n".join(pins) + "\n", encoding="utf-8")


if __name__ == "__main__":
    compile_lock(Path("requirements.lock"))
    compile_lock(Path("requirements-dev.lock"), "--extra", "dev")
