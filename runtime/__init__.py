"""Runtime process, which serves Qwen3-TTS over WebSocket and HTTP."""

import os
import platform
from pathlib import Path


def _is_intel() -> bool:
    """Return True if the machine has an Intel processor."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return "GenuineIntel" in platform.processor()


# By default, torch's CPU threads spin while they wait for each other. If another program uses the same cores, this
# makes frames up to 40 times slower. torch reads the variable when it is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# On Intel processors, MKL chooses its algorithm by the number of rows, so the last bits of a row depend on the batch
# size. MKL's strict mode prevents this. Other processors have no such mode, so runtime/model/products.py makes their
# results independent of the batch size.
if _is_intel():
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
