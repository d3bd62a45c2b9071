"""Thread switch interval of the interpreter."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005  # Switch interval of threads.


def switch_often() -> None:
    """Make threads release the interpreter lock after ``SWITCH_S``.

    The engine's thread waits for the lock when it is woken. The default of 5 ms is longer than a frame, and the event
    loop would wait that long several times per request while another thread computes.
    """
    sys.setswitchinterval(SWITCH_S)


def settle() -> None:
    """Exclude all current objects from garbage collection, which would delay frames."""
    gc.collect()
    gc.freeze()
