"""Redirection of Python's warnings to the log, so that a dependency's deprecations do not appear on the console."""

from __future__ import annotations

import logging
import sys


def log_warnings(*, is_verbose: bool = False) -> None:
    """Send warnings to the logger `py.warnings`, which only a verbose log shows, unless -W or PYTHONWARNINGS is set."""
    if sys.warnoptions:
        return
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").setLevel(logging.WARNING if is_verbose else logging.ERROR)
