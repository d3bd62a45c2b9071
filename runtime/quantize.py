"""Command ``voicewright quantize``, which writes a checkpoint with 8-bit or 4-bit weights."""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.device.quantized import Quantization
from runtime.engine.input_moments import measure_inputs
from runtime.model.quantize import Moments
from runtime.model.quantize import quantize as write

GB = 10**9


def quantize(reference: str, bits: int, out: Path) -> int:
    """Write a quantized checkpoint, print its size and return the exit status.

    Raises:
        SetUpError, InvalidSetting, StorageFailed: The checkpoint cannot be written for the reason in the message.
        SpeechError: The checkpoint cannot speak, which quantization to 4 bits requires.
    """
    kind = Quantization(f"int{bits}")
    size = write(reference, kind, out, _measure if kind is Quantization.INT4 else None)
    print(f"{out}: {kind}, {size / GB:.2f} GB")
    return 0


def _measure(reference: str) -> Moments:
    print("Generating speech from some texts to calibrate the weights. This may take minutes.", file=sys.stderr)
    return measure_inputs(reference)
