"""Runtime process: Qwen3-TTS served over WebSocket and HTTP."""

import os
import platform
from pathlib import Path


def _is_intel() -> bool:
    """Return True on an Intel processor."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return "GenuineIntel" in platform.processor()


# By default torch's CPU threads wait for each other by spinning. With a browser on the same two cores, spinning made
# frames 40 times slower. The variable has to be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# On Intel processors MKL uses other algorithms for few rows, so a row's last bits depend on the batch size. Its strict
# mode is batch-invariant. Other processors do not have that mode; runtime/model/products.py is used there.
if _is_intel():
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
