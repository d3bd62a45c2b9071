"""Tests for the settings of the Python interpreter."""

from __future__ import annotations

import gc
import sys

from runtime.shared.interpreter import pause_collection, settle, yielding


def test_switch_interval_is_restored_after_the_last_of_several_threads() -> None:
    usual_s = sys.getswitchinterval()
    first, second = yielding(), yielding()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < min(usual_s, 0.0002)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual_s


def test_garbage_collection_is_paused_until_the_start_is_complete() -> None:
    try:
        pause_collection()
        assert not gc.isenabled()
        settle()
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.enable()
        gc.unfreeze()
