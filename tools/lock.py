"""Pin the dependencies.

requirements.lock is for running, requirements-dev.lock for working on the project, requirements-clients.lock for other
people's clients that tests/clients runs against the server, and requirements-cluster.lock has what the extra `cluster`
adds to the first.

torch is pinned to one version and left to choose its build; the CUDA packages that some builds depend on are not
pinned here, since a CPU build must not bring gigabytes of them. `python tools/lock.py --check` says whether the first
can be installed, from wheels alone, on every platform.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOCK = Path("requirements.lock")
TORCH = "torch==2.13.0"
OURS = "voicewright-client"  # It is in this repository.
BUILD_DEPENDENT = ("cuda-", "nvidia-", "triton", "torch==")
INTERPRETED = "platform_machine == 'x86_64' and sys_platform == 'linux'"  # Tests run kernels without a card there.

# Platforms, by uv's names, and Pythons that the lock supports. torch is built for macOS 14 and later.
PLATFORMS = (
    *("x86_64-manylinux_2_28", "aarch64-manylinux_2_28"),
    *("aarch64-apple-darwin", "x86_64-pc-windows-msvc"),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # The same as in tools/choose_python.py.
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}

# Pipecat needs it only for a resampler that nothing here uses, and it is a quarter of the download.
WITHOUT = "numba ; sys_platform == 'none'"


def compile_lock(target: Path, *options: str, with_triton: bool = False) -> None:
    """Pin the dependencies in pyproject.toml without those that depend on torch's build, except Triton if requested."""
    pins = _resolve("pyproject.toml", "--constraint", "-", "--no-emit-package", OURS, *options, told=TORCH)
    kept = [pin for pin in pins if not pin.startswith(BUILD_DEPENDENT)]
    if with_triton:  # The version that this torch has in its build for cards.
        kept += [f"{pin.split(' ;')[0]} ; {INTERPRETED}" for pin in pins if pin.startswith("triton==")]
    _write(target, "pyproject.toml", [TORCH, *kept])


def compile_cluster(target: Path, lock: Path = LOCK) -> None:
    """Pin the packages that the extra adds to the lock."""
    pins = _resolve(
        "pyproject.toml", "--constraint", str(lock), "--no-emit-package", OURS, "--extra", "cluster", told=""
    )
    locked = set(lock.read_text(encoding="utf-8").splitlines())
    _write(target, "pyproject.toml", [pin for pin in pins if pin not in locked and not pin.startswith(BUILD_DEPENDENT)])


def compile_clients(target: Path, source: str = "tests/clients/requirements.in") -> None:
    """Pin the clients."""
    _write(target, source, _resolve(source, "--override", "-", told=WITHOUT))


def not_locked(lock: Path, platform: str, python: str) -> list[str]:
    """Return the requirements that the lock lacks for a platform.

    Raises:
        ValueError: something has no wheel there, or the lock contradicts pyproject.toml; the sentence is uv's.
    """
    where = ("--python-platform", platform, "--python-version", python, "--only-binary", ":all:")
    options = ("--extra", "oauth", "--constraint", str(lock), "--no-emit-package", OURS, *where)
    pinned = {line.partition(" ;")[0] for line in lock.read_text(encoding="utf-8").splitlines()}
    try:
        needed = _compile("pyproject.toml", *options)
    except subprocess.CalledProcessError as error:
        raise ValueError(str(error.stderr).strip()) from None
    return [pin for pin in needed if pin.partition(" ;")[0] not in pinned and not pin.startswith(BUILD_DEPENDENT)]


def _resolve(source: str, *options: str, told: str) -> list[str]:
    """Resolve for every Python and platform."""
    return _compile(source, *options, "--universal", "--python-version", PYTHONS[0], told=told)


def _compile(source: str, *options: str, told: str = "") -> list[str]:
    command = [sys.executable, "-m", "uv", "pip", "compile", source, *options, "--no-annotate", "--no-header"]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True, env={**os.environ, **MACOS})
    return [line for line in done.stdout.splitlines() if line]


def _write(target: Path, source: str, lines: list[str]) -> None:
    target.write_text("\n".join([f"# Made by `make lock` from {source}.", *lines]) + "\n", encoding="utf-8")


def main() -> int:
    """Write all locks, or check the first; 1 if a platform cannot install it."""
    if sys.argv[1:] == ["--check"]:
        lacks = {
            (platform, python): found
            for platform in PLATFORMS
            for python in PYTHONS
            if (found := not_locked(LOCK, platform, python))
        }
        for (platform, python), found in lacks.items():
            print(f"{platform}, Python {python}: the lock lacks {', '.join(found)}", file=sys.stderr)
        return 1 if lacks else 0
    compile_lock(LOCK, "--extra", "oauth")
    compile_lock(Path("requirements-dev.lock"), "--extra", "dev", "--extra", "oauth", with_triton=True)
    compile_clients(Path("requirements-clients.lock"))
    compile_cluster(Path("requirements-cluster.lock"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
