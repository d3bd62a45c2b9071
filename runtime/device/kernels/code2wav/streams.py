"""Addresses and update of the state of Code2Wav streams, for use in kernels.

Each slot has two copies of a convolution's state. A chunk reads one copy and writes the other copy. With a single copy,
a program could overwrite data that another program still reads. ``parity`` (0 or 1) is the index of the copy to read.

The argument `rows` of the kernels has one row per stream: slot, parity, and number of decoded frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

ROW = tl.constexpr(3)  # Number of columns in a row: slot, parity, number of decoded frames.


@dataclass(frozen=True, slots=True)
class PastInputs:
    """Earlier inputs of one convolution: the last `left` inputs of every stream.

    Shapes: memory [2, slots, left * C], a slice of a tensor with the state of all convolutions.
    """

    memory: Tensor
    left: int

    @property
    def strides(self) -> tuple[int, int]:
        """Return the stride between the two copies and the stride between slots, in elements."""
        return self.memory.stride(0), self.memory.stride(1)


@triton.jit
def wait_for_previous(PDL: tl.constexpr):
    """Allow the next kernel to start, and wait for the previous kernel.

    A kernel must call this function before it reads or writes memory.
    """
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def store_past_inputs(x, memory, rows, program, programs, T, total, left, copy_stride, slot_stride, C: tl.constexpr):
    """Store the last `left` inputs of every stream for the next chunk.

    If a chunk is shorter than `left`, inputs of earlier chunks are stored again.

    Shapes: x [B, T, C]; rows [B, 3] int32. The total number of elements, B * left * C, is divided among all programs.
    """
    BLOCK: tl.constexpr = 1024
    for start in range(program * BLOCK, total, programs * BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < total
        channel, moment = index % C, index // C
        row, moment = moment // left, moment % left
        slot = tl.load(rows + row * ROW, inside, 0)
        parity = tl.load(rows + row * ROW + 1, inside, 0)
        source = T + moment - left
        old = memory + parity * copy_stride + slot * slot_stride + (left + source) * C + channel
        new = x + (row * T + source) * C + channel
        target = memory + (1 - parity) * copy_stride + slot * slot_stride + moment * C + channel
        tl.store(target, tl.load(tl.where(source >= 0, new, old), inside), inside)
