"""Paths of the packages' data files, in an installed wheel or in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shipped(package: str, name: str) -> Path:
    """Return the path of a data file or folder, given its path in the repository."""
    packed = ROOT / package / "data" / name
    return packed if packed.exists() else ROOT / name
