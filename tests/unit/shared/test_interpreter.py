"""Tests for the settings of the Python interpreter."""

from __future__ import annotations

import sys

from runtime.shared.interpreter import yielding


def test_switch_interval_is_restored_after_the_last_of_several_threads() -> None:
    usual_s = sys.getswitchinterval()
    first, second = yielding(), yielding()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < min(usual_s, 0.0002)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual_s
