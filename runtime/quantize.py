"""Command ``voicewright quantize``: a copy of a checkpoint with weights of eight or four bits."""

from __future__ import annotations

from pathlib import Path

from runtime.device.quantized import Quantization
from runtime.model.quantize import quantize as write

GB = 10**9


def quantize(reference: str, bits: int, out: Path) -> int:
    """Write the quantized checkpoint and print its size.

    Raises:
        SetUpError, InvalidSetting, StorageFailed: It cannot be written; the sentence gives the reason.
    """
    kind = Quantization(f"int{bits}")
    size = write(reference, kind, out)
    print(f"{out}: {kind}, {size / GB:.2f} GB")
    return 0
