"""Process that speaks: Qwen3-TTS behind WebSocket and HTTP."""

import os
import platform
from pathlib import Path


def _is_intel() -> bool:
    """True if this processor is Intel's."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return "GenuineIntel" in platform.processor()


# torch's CPU threads wait for each other by spinning unless told otherwise, and must be told before torch is imported.
# On a machine that also runs a browser, spinning made frames 40 times slower (2 cores, two processes, Nov 2026).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# On Intel's processors MKL, which multiplies for torch, has ways of its own for few rows, so that a row's last bits
# depend on how many come with it: what one request says would depend on the others. Its strict mode has one way for
# all. Other processors do not have that mode: there runtime/model/products.py has to do.
if _is_intel():
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
