"""Thread switch interval of the interpreter."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005  # Switch interval of threads.


def switch_often() -> None:
    """Have a thread give the interpreter up after ``SWITCH_S``.

    A thread that wakes the engine's waits for that. The 5 ms that are usual are longer than a frame, and the event loop
    waits for them several times in one request while another thread computes.
    """
    sys.setswitchinterval(SWITCH_S)


def settle() -> None:
    """Take what is loaded by now for what stays: to look through it again and again would hold up frames."""
    gc.collect()
    gc.freeze()
