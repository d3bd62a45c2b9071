"""Generator of the lock files with pinned dependencies.

requirements.lock is for running, and requirements-dev.lock for development. requirements-clients.lock has the
third-party clients that tests/clients runs against the server. requirements-cluster.lock has the packages that the
extra `cluster` adds to requirements.lock.

The version of torch is pinned, but not its build. CUDA packages, on which some builds depend, are not pinned because a
CPU build must not install gigabytes of them. `python tools/lock.py --check` checks that requirements.lock can be
installed on all platforms from wheels only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOCK = Path("requirements.lock")
TORCH = "torch==2.13.0"
CLIENT_PACKAGE = "voicewright-client"  # Name of the client package, which is in this repository.
BUILD_DEPENDENT = ("cuda-", "nvidia-", "triton", "torch==")
# Platform on which tests run the kernels without a GPU.
INTERPRETED = "platform_machine == 'x86_64' and sys_platform == 'linux'"

# Platforms (names of uv) and Python versions that the lock file supports. torch supports macOS from version 14.
PLATFORMS = (
    *("x86_64-manylinux_2_28", "aarch64-manylinux_2_28"),
    *("aarch64-apple-darwin", "x86_64-pc-windows-msvc"),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # Supported versions, which must equal those in tools/choose_python.py.
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}

# Override that excludes numba. Pipecat needs it only for a resampler that is not used here. It would be a quarter of
# the download.
WITHOUT = "numba ; sys_platform == 'none'"


def compile_lock(target: Path, *options: str, with_triton: bool = False) -> None:
    """Write a lock file with the dependencies that do not depend on the build of torch.

    The dependencies are read from pyproject.toml.

    Args:
        target: Path of the lock file.
        options: Further options of uv.
        with_triton: True to include Triton, which depends on torch's build.
    """
    pins = _resolve("pyproject.toml", "--constraint", "-", "--no-emit-package", CLIENT_PACKAGE, *options, stdin=TORCH)
    portable_pins = [pin for pin in pins if not pin.startswith(BUILD_DEPENDENT)]
    if with_triton:  # Pin the Triton version that the GPU build of this torch version requires.
        portable_pins += [f"{pin.split(' ;')[0]} ; {INTERPRETED}" for pin in pins if pin.startswith("triton==")]
    _write(target, "pyproject.toml", [TORCH, *portable_pins])


def compile_cluster(target: Path) -> None:
    """Write a lock file with the packages that the extra `cluster` adds to requirements.lock."""
    pins = _resolve(
        "pyproject.toml", "--constraint", str(LOCK), "--no-emit-package", CLIENT_PACKAGE, "--extra", "cluster", stdin=""
    )
    locked = set(LOCK.read_text(encoding="utf-8").splitlines())
    _write(target, "pyproject.toml", [pin for pin in pins if pin not in locked and not pin.startswith(BUILD_DEPENDENT)])


def compile_clients(target: Path) -> None:
    """Write a lock file with the third-party clients that tests/clients needs."""
    source = "tests/clients/requirements.in"
    _write(target, source, _resolve(source, "--override", "-", stdin=WITHOUT))


def not_locked(lock: Path, platform: str, python: str) -> list[str]:
    """Return the requirements that a lock file lacks for a platform and a Python version.

    Raises:
        ValueError: A package has no wheel for the platform, or the lock file contradicts pyproject.toml. The message is
            that of uv.
    """
    where = ("--python-platform", platform, "--python-version", python, "--only-binary", ":all:")
    options = ("--extra", "oauth", "--constraint", str(lock), "--no-emit-package", CLIENT_PACKAGE, *where)
    pinned = {line.partition(" ;")[0] for line in lock.read_text(encoding="utf-8").splitlines()}
    try:
        needed = _compile("pyproject.toml", *options)
    except subprocess.CalledProcessError as error:
        raise ValueError(str(error.stderr).strip()) from None
    return [pin for pin in needed if pin.partition(" ;")[0] not in pinned and not pin.startswith(BUILD_DEPENDENT)]


def _resolve(source: str, *options: str, stdin: str) -> list[str]:
    """Resolve the requirements for all Python versions and platforms."""
    return _compile(source, *options, "--universal", "--python-version", PYTHONS[0], stdin=stdin)


def _compile(source: str, *options: str, stdin: str = "") -> list[str]:
    command = [sys.executable, "-m", "uv", "pip", "compile", source, *options, "--no-annotate", "--no-header"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, env={**os.environ, **MACOS})
    return [line for line in done.stdout.splitlines() if line]


def _write(target: Path, source: str, lines: list[str]) -> None:
    target.write_text("\n".join([f"# Made by `make lock` from {source}.", *lines]) + "\n", encoding="utf-8")


def main() -> int:
    """Write all lock files, or check requirements.lock.

    Returns:
        1 if a platform cannot install requirements.lock, otherwise 0.
    """
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
