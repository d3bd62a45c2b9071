"""Installed optional packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def is_installed(package: str) -> bool:
    """True if a package is installed, by its distribution name; nothing is imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
