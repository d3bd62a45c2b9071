"""Tests for the thread for long texts, which yields to other threads."""

from __future__ import annotations

import sys
import time

from runtime.server.text.filter import PIECE_CHARS, filter_text
from runtime.server.text.text_thread import TextThread, sleep_if_throttled

WORKED_S = 0.08


def _work(seconds: float) -> float:
    """Compute until `seconds` of processor time have passed, and return the elapsed seconds."""
    began, end = time.monotonic(), time.thread_time() + seconds
    while time.thread_time() < end:
        sleep_if_throttled()
    return time.monotonic() - began


def test_long_job_sleeps_regularly_on_the_text_thread_only() -> None:
    with TextThread() as texts:
        assert texts.submit(_work, WORKED_S).result() > 2 * WORKED_S
    began = time.thread_time()
    _work(0.01)
    assert time.thread_time() - began < 2 * WORKED_S


def test_job_after_a_long_job_waits_for_the_rest_period() -> None:
    with TextThread() as texts:
        texts.submit(sum, range(10**7)).result()
        began = time.monotonic()
        texts.submit(int).result()
        assert time.monotonic() - began > 0.05


def test_switch_interval_is_shorter_during_a_text_job() -> None:
    usual_s = sys.getswitchinterval()
    with TextThread() as texts:
        assert texts.submit(sys.getswitchinterval).result() < min(usual_s, 0.0002)
    assert sys.getswitchinterval() == usual_s


def test_complete_text_filtered_in_pieces_equals_one_pass() -> None:
    text = "A *long* text with [a link](https://example.org) in it. " * 50
    pieces = list(filter_text("markdown", text, lambda: None))
    assert len(pieces) > len(text) / PIECE_CHARS
    assert "".join(pieces) == "A long text with a link in it. " * 50
