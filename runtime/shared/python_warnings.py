"""Redirection of Python warnings to the log, so that deprecations are not printed."""

from __future__ import annotations

import logging
import sys


def log_warnings(*, is_verbose: bool = False) -> None:
    """Send Python warnings to the logger `py.warnings`.

    The warnings are shown only with a verbose log, -W or PYTHONWARNINGS.
    """
    if sys.warnoptions:
        return
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").setLevel(logging.WARNING if is_verbose else logging.ERROR)
