"""Command ``voicewright quantize``, which writes a checkpoint with 8-bit or 4-bit weights."""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.device.quantized import Quantization
from runtime.engine.input_moments import measure_inputs
from runtime.model.checkpoints.quantize import Moments
from runtime.model.checkpoints.quantize import quantize as write

GB = 10**9


def quantize(reference: str, bits: int, out: Path) -> int:
    """Write a quantized checkpoint, print its size and return the exit status.

    Args:
        reference: Folder or Hub id of the checkpoint.
        bits: Bits per weight, 8 or 4.
        out: Folder of the new checkpoint.

    Raises:
        SetUpError, InvalidSetting, StorageFailed: The checkpoint cannot be read or written.
        SpeechError: Generation of the speech that calibrates 4-bit weights failed.
    """
    kind = Quantization(f"int{bits}")
    size = write(reference, kind, out, _measure if kind is Quantization.INT4 else None)
    print(f"{out}: {kind}, {size / GB:.2f} GB")
    return 0


def _measure(reference: str) -> Moments:
    print("Generating speech from some texts to calibrate the weights. This may take minutes.", file=sys.stderr)
    return measure_inputs(reference)
