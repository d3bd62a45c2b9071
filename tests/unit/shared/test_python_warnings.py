"""Test that Python warnings of dependencies are hidden unless the operator enables them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.thorough import ROOT

PROGRAM = """
import logging, sys, warnings
from runtime.shared.python_warnings import log_warnings
logging.basicConfig(level=logging.WARNING)
log_warnings(is_verbose="verbose" in sys.argv)
warnings.warn("`torch.jit.script` is deprecated.", FutureWarning)
"""


@pytest.mark.parametrize(
    ("options", "arguments", "is_shown"), [([], [], False), ([], ["verbose"], True), (["-W", "default"], [], True)]
)
def test_warnings_are_shown_only_if_enabled(options: list[str], arguments: list[str], is_shown: bool) -> None:
    command = [sys.executable, *options, "-c", PROGRAM, *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ("torch.jit" in ended.stderr) is is_shown
