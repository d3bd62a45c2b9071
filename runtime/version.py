"""Tells the version of this Voicewright."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version() -> str:
    try:
        return version("voicewright")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown"
