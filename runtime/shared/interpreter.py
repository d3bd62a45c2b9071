"""Settings of the Python interpreter: thread switch interval and garbage collection."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0005  # Time in seconds after which the interpreter switches threads.


def switch_often() -> None:
    """Make threads release the GIL after ``SWITCH_INTERVAL_S`` seconds.

    The engine's thread has to wait for the GIL when it wakes up. Python's default of 5 ms is longer than a frame. The
    event loop would also wait 5 ms several times per request while another thread computes.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def settle() -> None:
    """Exclude all existing objects from garbage collection.

    Scanning these objects would delay frames.
    """
    gc.collect()
    gc.freeze()
