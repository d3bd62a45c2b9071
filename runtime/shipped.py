"""Paths of the packages' data files, in an installed wheel or in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shipped(package: str, name: str) -> Path:
    """Return the path of a data file or folder of the program.

    Args:
        package: Package that contains the file in an installed wheel.
        name: Path of the file in the repository.
    """
    packed = ROOT / package / "data" / name
    return packed if packed.exists() else ROOT / name
