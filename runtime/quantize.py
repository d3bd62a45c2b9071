"""Command ``voicewright quantize``: write a checkpoint with 8-bit or 4-bit weights."""

from __future__ import annotations

from pathlib import Path

from runtime.device.quantized import Quantization
from runtime.model.quantize import quantize as write

GB = 10**9


def quantize(reference: str, bits: int, out: Path) -> int:
    """Write the quantized checkpoint and print its size.

    Raises:
        SetUpError, InvalidSetting, StorageFailed: The checkpoint cannot be written; the message gives the reason.
    """
    kind = Quantization(f"int{bits}")
    size = write(reference, kind, out)
    print(f"{out}: {kind}, {size / GB:.2f} GB")
    return 0
