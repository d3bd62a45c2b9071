"""Output of the client scripts: one line of JSON that describes the received audio."""

from __future__ import annotations

import array
import hashlib
import json
import math
from typing import Any


def sound(pcm: bytes) -> dict[str, Any]:
    """Return the number of samples, the RMS level and the SHA-256 of mono s16le audio."""
    samples = array.array("h", pcm)
    rms = math.sqrt(sum(s * s for s in samples) / len(samples)) if samples else 0.0
    return {"samples": len(samples), "rms": rms, "sha256": hashlib.sha256(pcm).hexdigest()}


def tell(**facts: Any) -> None:
    print(json.dumps(facts))
