"""Matrix products with weights packed by oneDNN, bitwise independent of the batch.

OneDNN does not guarantee batch invariance, so it is tested on the running processor for every weight shape. Shapes that
fail are not packed.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.cpu import CORE_COUNT, is_x86

# Minimum numbers of rows to try. oneDNN multiplies a single float32 row with another algorithm than several rows.
MIN_ROWS = (1, 4)
TESTED_ROWS = (1, 2, 3, 5, 8, 33)  # Numbers of rows with which batch invariance is tested.
WHOLE = 70


class PackedProduct:
    """Product of rows with a packed matrix of the same dtype.

    Fewer than `least` rows are padded. Shapes: weight [N, K].
    """

    def __init__(self, weight: Tensor, least: int) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self.least = least

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply.

        Shapes: rows [M, K]; result [M, N].
        """
        count = len(rows)
        if count < self.least:
            rows = F.pad(rows, (0, 0, 0, self.least - count))
        output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, None, "none", [], "")
        return output[:count]


def packed(weight: Tensor) -> PackedProduct | None:
    """Pack a matrix.

    Return None if no packing of it is batch-invariant. Shapes: see `PackedProduct`.
    """
    N, K = weight.shape
    least = min_rows(N, K, weight.dtype) if weight.is_cpu else None
    return None if least is None else PackedProduct(weight, least)


def lays_out(dtype: torch.dtype) -> bool:
    """True if oneDNN packs weights of this dtype.

    Without AVX-512, it does not support 16-bit weights.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def min_rows(N: int, K: int, dtype: torch.dtype) -> int | None:
    """Return the minimum number of rows for which a product is batch-invariant.

    The matrix has shape [N, K]. The result must hold for one thread and for all threads.

    Returns:
        None if no number in ``MIN_ROWS`` is enough.
    """
    if not is_x86() or not lays_out(dtype):
        return None
    random = torch.Generator().manual_seed(1)
    # The weights of each output are those of the previous output, shifted by one. Separate random numbers would take
    # half of the test's time.
    weight = torch.randn(N + K, generator=random).to(dtype).as_strided((N, K), (1, 1))
    rows = torch.randn((WHOLE, K), generator=random).to(dtype)
    product = PackedProduct(weight, MIN_ROWS[0])
    for product.least in MIN_ROWS:
        if all(_keeps_rows(product, rows, threads) for threads in {1, CORE_COUNT}):
            return product.least
    return None


def _keeps_rows(product: PackedProduct, rows: Tensor, threads: int) -> bool:
    """True if a few rows give the same bits alone as in a batch, with ``threads`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        batch_output = product(rows)
        return all(torch.equal(product(rows[3 : 3 + count]), batch_output[3 : 3 + count]) for count in TESTED_ROWS)
    finally:
        torch.set_num_threads(before)
