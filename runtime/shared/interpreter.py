"""Settings of Python's interpreter: thread switch interval and garbage collection."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005  # Interval in seconds after which the interpreter switches threads.


def switch_often() -> None:
    """Make threads release the GIL after ``SWITCH_S`` seconds.

    The engine's thread has to wait for the GIL when it wakes up. The default of 5 ms is longer than a frame. The event
    loop would also wait 5 ms several times per request while another thread computes.
    """
    sys.setswitchinterval(SWITCH_S)


def settle() -> None:
    """Exclude all existing objects from garbage collection.

    Scanning them would delay frames.
    """
    gc.collect()
    gc.freeze()
