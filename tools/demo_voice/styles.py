"""Pack Kokoro's styles of the npm package kokoro-js into one file.

Run: python styles.py work/kokoro-js-1.2.1.tgz   (writes work/voices.npz)
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import numpy as np

from config import CONFIG, HERE


def read_styles(package: Path) -> dict[str, np.ndarray]:
    """Return the styles that the configuration names, float16 [510, 1, 256] each; row n is for n tokens."""
    names = [name for names in CONFIG["styles"].values() for name in names]
    with tarfile.open(package) as files:
        raw = {name: files.extractfile(f"package/voices/{name}.bin").read() for name in names}
    return {name: np.frombuffer(data, np.float32).reshape(-1, 1, 256).astype(np.float16) for name, data in raw.items()}


if __name__ == "__main__":
    np.savez(HERE / CONFIG["paths"]["work"] / "voices.npz", **read_styles(Path(sys.argv[1])))
