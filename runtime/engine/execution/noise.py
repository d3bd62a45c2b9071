"""Sampling noise from counter-based hashes, computed on the host.

The noise is bitwise equal to ``gumbel_noise`` in `sampling.py`, so a seed gives the same codes with both functions.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.engine.execution.sampling import GOLDEN, MASK_32

Words = NDArray[np.uint32]  # Arrays of unsigned 32-bit integers, whose arithmetic wraps around.

UNIFORM_SPACING = 2.0**-23  # Distance between two adjacent uniform numbers.


class HostNoise:
    """Sampling noise of a batch, computed on the host and copied to the device for graphs.

    Args:
        rows: Number of rows of the largest batch.
        widths: Vocabulary sizes of the talker and of the code predictor.
        groups: Number of codes of a frame.
        in_flight: Maximum number of frames whose noise is still being copied to the device.

    Thread: engine.
    """

    def __init__(self, device: Device, rows: int, widths: tuple[int, int], groups: int, in_flight: int) -> None:
        self._groups = groups
        shapes = (1, rows, widths[0]), (groups - 1, rows, widths[1])
        self._device = [torch.zeros(shape, device=device.torch_device) for shape in shapes]
        self._host = [[device.host_memory(*shape, dtype=torch.float32) for shape in shapes] for _ in range(in_flight)]
        for memory in self._host:
            for part in memory:
                part.zero_()
        self._buffer_index = 0
        self._hashes = [code_hashes(width) for width in widths]

    def of(self, codebook: int, rows: int) -> Tensor:
        """Return the noise of one codebook for the first `rows` batch rows, as a device view.

        Shapes: result [rows, V].
        """
        level = min(codebook, 1)
        return self._device[level][codebook - level, :rows]

    def write(self, seeds: NDArray[np.int64], frames: NDArray[np.int64], uses_noise: NDArray[np.bool_]) -> None:
        """Compute the next frame's noise for each batch row, and queue the copy to the device.

        Greedy rows get arbitrary finite values.

        Shapes: seeds, frames, uses_noise [B].
        """
        if not uses_noise.any():
            return
        self._buffer_index = (self._buffer_index + 1) % len(self._host)
        keys, count = noise_keys(seeds, frames, self._groups), len(seeds)
        for level, (host, device, hashes) in enumerate(
            zip(self._host[self._buffer_index], self._device, self._hashes, strict=True)
        ):
            level_keys = keys[:, level : 1 + level * (self._groups - 1)]
            for row in np.flatnonzero(uses_noise):
                host[:, row] = noise_from_keys(level_keys[row], hashes)
            device[:, :count].copy_(host[:, :count], non_blocking=True)


class CpuNoise:
    """Sampling noise of a frame for the CPU device, computed in uint32.

    On a CPU, uint32 arrays are faster than the int64 tensors of `gumbel_noise`.

    Args:
        widths, groups: See `HostNoise`.
    """

    def __init__(self, widths: tuple[int, int], groups: int) -> None:
        self._groups = groups
        self._hashes = [code_hashes(width) for width in widths]

    def of(self, seeds: Tensor, frames: Tensor, *, others: bool = True) -> tuple[Tensor, Tensor]:
        """Return the noise of codebook 0 and, if `others` is True, of all other codebooks.

        Shapes: seeds, frames [B] int64; results [B, V], [B, Q - 1 or 0, V'].
        """
        keys = noise_keys(seeds.numpy(), frames.numpy(), self._groups if others else 1)
        rest = noise_from_keys(keys[:, 1:].reshape(-1), self._hashes[1])
        return noise_from_keys(keys[:, 0], self._hashes[0]), rest.view(
            len(keys), keys.shape[1] - 1, len(self._hashes[1])
        )


def code_hashes(width: int) -> Words:
    """Return one constant for each code, which the hash combines with a key.

    Shapes: result [width] uint32.
    """
    return (np.arange(1, width + 1, dtype=np.int64) * GOLDEN & MASK_32).astype(np.uint32)


def noise_keys(seeds: NDArray[np.int64], frames: NDArray[np.int64], groups: int) -> Words:
    """Return the hash key of each batch row and codebook.

    Shapes: seeds, frames [B], not negative; result [B, groups] uint32.
    """
    golden = np.uint32(GOLDEN)
    key = hash_in_place((seeds & MASK_32).astype(np.uint32)) ^ (seeds >> 32).astype(np.uint32)
    key = hash_in_place(key + golden * (frames & MASK_32).astype(np.uint32))
    return hash_in_place(key[:, None] + golden * np.arange(1, groups + 1, dtype=np.uint32))


def noise_from_keys(keys: Words, hashes: Words) -> Tensor:
    """Return the Gumbel noise for each combination of a key and a code.

    Shapes: keys [G], from `noise_keys`; hashes [V], from `code_hashes`; result [G, V] float32.
    """
    bits = hash_in_place(keys[:, None] ^ hashes)
    bits += keys[:, None]
    bits = hash_in_place(bits)
    bits >>= np.uint32(9)
    uniform = torch.from_numpy(bits.view(np.int32)).float()
    return uniform.add_(0.5).mul_(UNIFORM_SPACING).log_().neg_().log_().neg_()


def hash_in_place(x: Words) -> Words:
    """Hash each 32-bit number of `x` in place with lowbias32 (Wellons 2018), and return `x`."""
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x
