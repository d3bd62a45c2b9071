"""Test of the version of the installed package."""

from __future__ import annotations

from importlib.metadata import version

from runtime.version import package_version


def test_version_equals_the_package_version_and_is_read_once() -> None:
    assert package_version() == version("voicewright")
    assert package_version() is package_version()  # The version is cached, so that a new session reads no files.
