"""Pin the dependencies: requirements.lock for running, requirements-dev.lock for working on the project, and
requirements-clients.lock, other people's clients that tests/clients runs against the server.

torch is pinned to one version and left to choose its build; the CUDA packages that some builds depend on are not
pinned here, since a CPU build must not bring gigabytes of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
OURS = "voicewright-client"  # lies in this repository
BUILD_DEPENDENT = ("cuda-", "nvidia-", "triton", "torch==")
INTERPRETED = "platform_machine == 'x86_64' and sys_platform == 'linux'"  # where tests run kernels without a card

# Pipecat has it for a resampler that nobody here asks for: a quarter of the download.
WITHOUT = "numba ; sys_platform == 'none'"


def compile_lock(target: Path, *options: str, with_triton: bool = False) -> None:
    """Pin what pyproject.toml asks for, without what depends on torch's build, but for Triton where it is asked for."""
    pins = _resolve("pyproject.toml", "--constraint", "-", "--no-emit-package", OURS, *options, told=TORCH)
    kept = [pin for pin in pins if not pin.startswith(BUILD_DEPENDENT)]
    if with_triton:  # the one that this torch would bring in a build for cards
        kept += [f"{pin.split(' ;')[0]} ; {INTERPRETED}" for pin in pins if pin.startswith("triton==")]
    _write(target, "pyproject.toml", [TORCH, *kept])


def compile_clients(target: Path, source: str = "tests/clients/requirements.in") -> None:
    """Pin the clients."""
    _write(target, source, _resolve(source, "--override", "-", told=WITHOUT))


def _resolve(source: str, *options: str, told: str) -> list[str]:
    """Resolve for both Pythons."""
    command = [sys.executable, "-m", "uv", "pip", "compile", source, *options]
    command += ["--universal", "--python-version", "3.11", "--no-annotate", "--no-header"]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


def _write(target: Path, source: str, lines: list[str]) -> None:
    target.write_text("\n".join([f"# Made by `make lock` from {source}.", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    compile_lock(Path("requirements.lock"), "--extra", "oauth")
    compile_lock(Path("requirements-dev.lock"), "--extra", "dev", "--extra", "oauth", with_triton=True)
    compile_clients(Path("requirements-clients.lock"))
