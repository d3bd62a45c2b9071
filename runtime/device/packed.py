"""Matrix products with weights packed by oneDNN, bitwise independent of the batch.

OneDNN does not guarantee batch invariance. Therefore every weight shape is tested on the running CPU, and weights of a
shape that fails are not packed.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.cpu import CORE_COUNT, is_x86

# Candidates for the minimum number of rows per product. oneDNN uses another algorithm for a single float32 row than for
# several rows.
MIN_ROWS = (1, 4)
TESTED_ROWS = (1, 2, 3, 5, 8, 33)  # Numbers of rows that are compared in the test of batch invariance.
WHOLE = 70


class PackedProduct:
    """Callable that multiplies input rows by a packed weight matrix of the same dtype.

    Inputs with fewer than `least` rows are padded.

    Shapes: weight [N, K].
    """

    def __init__(self, weight: Tensor, least: int) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self.least = least

    def __call__(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T.

        Shapes: rows [M, K]; result [M, N].
        """
        count = len(rows)
        if count < self.least:
            rows = F.pad(rows, (0, 0, 0, self.least - count))
        output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, None, "none", [], "")
        return output[:count]


def pack_weight(weight: Tensor) -> PackedProduct | None:
    """Pack a weight matrix, or return None if its packed product is not batch-invariant.

    Shapes: weight [N, K].
    """
    N, K = weight.shape
    least = min_rows(N, K, weight.dtype) if weight.is_cpu else None
    return None if least is None else PackedProduct(weight, least)


def can_pack(dtype: torch.dtype) -> bool:
    """True if oneDNN can pack weights of this dtype on this CPU.

    oneDNN packs 16-bit weights only on a CPU with AVX-512.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def min_rows(N: int, K: int, dtype: torch.dtype) -> int | None:
    """Return the minimum number of rows for batch-invariant products with a packed weight.

    Each number in `MIN_ROWS` is tested on this CPU with one thread and with all threads.

    Args:
        N, K: Shape of the weight matrix.

    Returns:
        None if the product is not batch-invariant with any number in `MIN_ROWS`.
    """
    if not is_x86() or not can_pack(dtype):
        return None
    random = torch.Generator().manual_seed(1)
    # Each weight row is the previous row shifted by one, because generating separate random rows would take half of the
    # test's time.
    weight = torch.randn(N + K, generator=random).to(dtype).as_strided((N, K), (1, 1))
    rows = torch.randn((WHOLE, K), generator=random).to(dtype)
    product = PackedProduct(weight, MIN_ROWS[0])
    for product.least in MIN_ROWS:
        if all(_keeps_rows(product, rows, threads) for threads in {1, CORE_COUNT}):
            return product.least
    return None


def _keeps_rows(product: PackedProduct, rows: Tensor, threads: int) -> bool:
    """True if the results of a few rows are bitwise equal alone and in a batch."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        batch_output = product(rows)
        return all(torch.equal(product(rows[3 : 3 + count]), batch_output[3 : 3 + count]) for count in TESTED_ROWS)
    finally:
        torch.set_num_threads(before)
