"""NumPy reference implementation of products.cpp, with bitwise equal results."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GROUP = 32
LANES = 16
LEVELS = np.float32(127)
MIN_LARGEST = np.float32(1e-30)

Float32 = NDArray[np.float32]
Integers = NDArray[np.int64]


def round_rows(x: Float32) -> tuple[Integers, Float32]:
    """Quantize each row of activations to integers from -127 to 127, with one scale per row.

    Shapes: x [M, K]; results [M, K] (values), [M] (scales).
    """
    largest = np.maximum(np.abs(x).max(axis=1), MIN_LARGEST)
    return np.rint(x * (LEVELS / largest)[:, None]).astype(np.int64), largest / LEVELS


def dense_product(x: Float32, weight: Float32) -> Float32:
    """Return x @ weight.T, where each output is computed as 16 partial sums.

    Shapes: x [M, K]; weight [N, K]; result [M, N].
    """
    M, K, N = len(x), x.shape[1], len(weight)
    lanes = np.zeros((M, N, LANES), np.float32)
    for k in range(K):
        lanes[..., k % LANES] += x[:, k, None] * weight[:, k]
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def int8_product(x: Float32, values: Integers, scales: Float32) -> Float32:
    """Quantize the rows of activations to int8, and multiply them by an int8 weight matrix.

    Shapes: x [M, K]; values [N, K]; scales [N]; result [M, N].
    """
    rows, row_scales = round_rows(x)
    return (rows @ values.T).astype(np.float32) * scales * row_scales[:, None]


def int4_product(x: Float32, values: Integers, scales: Float32, offsets: Float32) -> Float32:
    """Quantize the rows of activations to int8, and multiply them by an int4 weight matrix.

    The weight of value v is (v - 8) * scale + offset.

    Shapes: x [M, K]; values [N, K] from 0 to 15; scales, offsets [N, K / 32]; result [M, N].
    """
    rows, row_scales = round_rows(x)
    total = np.zeros((len(x), len(values)), np.float32)
    for group in range(scales.shape[1]):
        at = slice(GROUP * group, GROUP * (group + 1))
        dot = rows[:, at] @ (values[:, at] - 8).T
        total = total + dot.astype(np.float32) * scales[:, group]
        total = total + rows[:, at].sum(axis=1).astype(np.float32)[:, None] * offsets[:, group]
    return total * row_scales[:, None]
