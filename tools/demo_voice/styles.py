"""Store the voice styles of the npm package kokoro-js in one NumPy file.

Run: python styles.py work/kokoro-js-1.2.1.tgz   (writes work/voices.npz, and work/unseen.npz for the evaluation)
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import numpy as np

from config import CONFIG, HERE


def read_styles(package: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Return the float16 styles [510, 1, 256] of the voices `names`, keyed by name.

    Row n of a style is for a text of n tokens.
    """
    with tarfile.open(package) as files:
        raw = {name: files.extractfile(f"package/voices/{name}.bin").read() for name in names}
    return {name: np.frombuffer(data, np.float32).reshape(-1, 1, 256).astype(np.float16) for name, data in raw.items()}


if __name__ == "__main__":
    work = HERE / CONFIG["paths"]["work"]
    taught = [name for names in CONFIG["styles"].values() for name in names]
    for file, names in (("voices", taught), ("unseen", CONFIG["clones"]["styles"])):
        np.savez(work / f"{file}.npz", **read_styles(Path(sys.argv[1]), names))
