"""Installer of requirements.lock and this repository into the current Python environment.

Usage: `install.py [TORCH [TORCH_INDEX]]`. Without arguments, Linux without an NVIDIA GPU gets the CPU build of torch
from PyTorch's own index, which saves more than 4 GB. Other machines get the build of pip's default index.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

LOCK = Path("requirements.lock")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INDEX_TIMEOUT_S = 5.0
TORCH_SIZE = {"cpu": "0.2 GB to download, 0.75 GB on disk", "cuda": "3 GB to download, 4.6 GB on disk"}


def has_nvidia_card() -> bool:
    """Return True if this machine seems to have an NVIDIA GPU.

    A loaded NVIDIA driver creates /dev/nvidiactl. WSL has no such file, so the command nvidia-smi is also accepted.
    """
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def is_reachable(index: str) -> bool:
    """Return True if a package index returns its list of torch releases in time.

    The timeout is `INDEX_TIMEOUT_S`.
    """
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=INDEX_TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False


def is_installed(pin: str) -> bool:
    """Return True if any build of a package's pinned version is installed.

    For example, 2.13.0+cpu is a build of torch==2.13.0.
    """
    name, _, version = pin.partition("==")
    try:
        return importlib.metadata.version(name).partition("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def pip(*arguments: str) -> bool:
    """Run `pip install` with visible progress, and return True if it succeeds."""
    return subprocess.run([sys.executable, "-m", "pip", "install", *arguments]).returncode == 0


def install_torch(pin: str, others: Path, index: str = CPU_INDEX) -> bool:
    """Install the build of torch for this machine, and return True if it succeeds.

    Args:
        pin: Requirement with the version, such as torch==2.13.0.
        others: File that pins the dependencies of torch except CUDA packages.
        index: URL of the index with CPU builds.
    """
    if is_installed(pin):
        return True
    is_linux = sys.platform == "linux"
    if is_linux and not has_nvidia_card():
        print(f"Fetching {pin} for CPUs, since there is no NVIDIA card: {TORCH_SIZE['cpu']}.", flush=True)
        if is_reachable(index) and pip("--no-deps", "--index-url", index, pin):
            return True
        print(f"{index} does not serve it: your default index does, with CUDA {TORCH_SIZE['cuda']}.", flush=True)
    else:
        print(f"Fetching {pin}: {TORCH_SIZE['cuda' if is_linux else 'cpu']}.", flush=True)
    return pip(pin, "--constraint", str(others))


def main(torch: str = "", torch_index: str = "") -> int:
    """Install torch, all other locked packages, and this repository.

    The result is 1 if pip fails, and otherwise 0. pip prints the reason of a failure.
    """
    pins = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    (locked,) = (pin for pin in pins if pin.startswith("torch=="))
    others = Path(sys.prefix) / "without-torch.txt"
    others.write_text("\n".join(pin for pin in pins if pin != locked) + "\n", encoding="utf-8")
    index = ["--index-url", torch_index] if torch_index else []
    own_choice = torch or torch_index
    if not (pip(*(torch.split() or [locked]), *index) if own_choice else install_torch(locked, others)):
        return 1
    print("Fetching the other packages: 0.2 GB to download, 0.8 GB on disk.", flush=True)
    checkout = ("--quiet", "--no-deps", "--editable", "clients/python", "--editable", ".")
    return 0 if pip("--requirement", str(others)) and pip(*checkout) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
