"""Command ``python -m runtime.device.native``, which builds the C++ library for this CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from runtime.device.native import SOURCES, library_path

BUILD_TIMEOUT_S = 300.0
NUMERICS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


def build() -> str:
    """Build the C++ library if it is missing, and return a message about the result."""
    path = library_path()
    if path.exists():
        return "The native CPU kernels are already built."
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None or sys.platform == "win32":
        return "No C++ compiler was found; frames on the CPU use PyTorch kernels, which are slower."
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    root = Path(torch.__file__).parent
    flags = ("-O3", "-std=c++20", "-shared", "-fPIC", *NUMERICS, "-w")
    command = [
        *(
            compiler,
            *flags,
            "-I",
            str(root / "include"),
            *(str(source) for source in SOURCES if source.suffix == ".cpp"),
            "-o",
            str(unfinished),
        ),
        *("-L", str(root / "lib"), "-ltorch_cpu"),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_TIMEOUT_S)  # noqa: S603
        unfinished.replace(path)
    except (OSError, subprocess.SubprocessError):
        unfinished.unlink(missing_ok=True)
        return f"{compiler} could not build the native CPU kernels; PyTorch kernels are used, which are slower."
    return "The native CPU kernels were built."


if __name__ == "__main__":
    print(build())
