"""Generator of random tensors, and writer of safetensors files.

The random numbers of a tensor depend only on the seed and its key, so tensors do not depend on each other. The numbers
are uniformly distributed. They need no math library, so they are bitwise equal on all machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # A numpy array, or a torch tensor in subclasses. Both types support the operations of this file.
Tensors = Iterator[tuple[str, Array]]


def key_digest(seed: int, key: str) -> bytes:
    """Return the 32-byte random seed of the tensor with the name `key`."""
    return hashlib.sha256(f"{seed}:{key}".encode()).digest()


@dataclass(frozen=True)
class Draw:
    """Generator of random tensors whose values depend only on the seed and the tensor's name."""

    seed: int

    def spread(self, key: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> Array:
        """Return uniformly distributed numbers with mean `mean` and standard deviation `std`."""
        stream = np.random.RandomState(np.frombuffer(key_digest(self.seed, key), dtype="<u4").astype(np.int64))
        unit = stream.random_sample(shape) * 2.0 - 1.0
        return (unit * (std * 3.0**0.5) + mean).astype(np.float32)

    def linear(self, key: str, out: int, fan_in: int, gain: float = 1.0, bias: bool = False) -> Tensors:
        """Yield the weight [out, fan_in] of a linear layer, and optionally its bias.

        The layer multiplies the variance of its input by `gain` squared.
        """
        yield f"{key}.weight", self.spread(f"{key}.weight", (out, fan_in), gain / fan_in**0.5)
        if bias:
            yield f"{key}.bias", self.spread(f"{key}.bias", (out,), 0.1)

    def conv(self, key: str, out: int, fan_in: int, kernel: int, gain: float = 1.0, bias: bool = True) -> Tensors:
        """Yield a Conv1d weight [out, fan_in, kernel] and its bias.

        A depthwise convolution has `fan_in` 1.
        """
        std = gain / (fan_in * kernel) ** 0.5
        yield f"{key}.weight", self.spread(f"{key}.weight", (out, fan_in, kernel), std)
        if bias:
            yield f"{key}.bias", self.spread(f"{key}.bias", (out,), 0.05)

    def transposed(self, key: str, fan_in: int, out: int, kernel: int, stride: int) -> Tensors:
        """Yield a ConvTranspose1d weight [fan_in, out, kernel] and its bias."""
        std = (stride / (fan_in * kernel)) ** 0.5
        yield f"{key}.weight", self.spread(f"{key}.weight", (fan_in, out, kernel), std)
        yield f"{key}.bias", self.spread(f"{key}.bias", (out,), 0.05)

    def norm(self, key: str, width: int, bias: bool = False) -> Tensors:
        """Yield the weight of a norm, close to one, and optionally its bias."""
        yield f"{key}.weight", self.spread(f"{key}.weight", (width,), 0.1, 1.0)
        if bias:
            yield f"{key}.bias", self.spread(f"{key}.bias", (width,), 0.1)

    def codebook(self, key: str, total: str, rows: int, width: int, std: float) -> Tensors:
        """Yield the usage counts [rows] and the row sums [rows, width] of a codebook.

        The quotients of row sums and usage counts have the standard deviation `std`.
        """
        usage = self.spread(f"{key}.cluster_usage", (rows,), 1.0, 2.5)
        yield f"{key}.cluster_usage", usage
        yield f"{key}.{total}", self.spread(f"{key}.{total}", (rows, width), std) * usage[:, None]

    def save(self, path: Path, tensors: Tensors, dtype: str) -> None:
        """Write tensors to a safetensors file.

        The safetensors library is not used, because it needs numpy arrays, which do not support bfloat16.
        """
        tag = {"float32": "F32", "bfloat16": "BF16"}[dtype]
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        parts: list[bytes] = []
        end = 0
        for name, tensor in tensors:
            parts.append((_bfloat16(tensor) if tag == "BF16" else tensor).tobytes())
            start, end = end, end + len(parts[-1])
            header[name] = {"dtype": tag, "shape": list(tensor.shape), "data_offsets": [start, end]}
        encoded = json.dumps(header).encode()
        encoded += b" " * (-len(encoded) % 8)
        path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"".join(parts))


def _bfloat16(tensor: Array) -> np.ndarray[Any, np.dtype[np.uint16]]:
    # The result is the upper half of the float32 bits, rounded to nearest even.
    bits = np.ascontiguousarray(tensor).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
