"""Version number of Voicewright."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version() -> str:
    try:
        return version("voicewright")
    except PackageNotFoundError:  # The package runs from its source tree and is not installed.
        return "unknown"
