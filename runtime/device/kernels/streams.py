"""Code2Wav stream of each row of a batch, and the address of a convolution's state.

The memory of a convolution is held twice for every slot. A chunk reads one copy and writes the other, so that no
program overwrites what another still reads; the host knows whose turn it is (``turn``, 0 or 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

ROW = tl.constexpr(3)  # Columns of a row: slot, turn, frames decoded.


@dataclass(frozen=True, slots=True)
class Past:
    """The last inputs of one convolution.

    Shapes: memory [2, slots, left * C], a slice of the last axis of all streams' memory.
    """

    memory: Tensor
    left: int

    @property
    def strides(self) -> tuple[int, int]:
        """Elements from one copy to the other, and from one slot to the next."""
        return self.memory.stride(0), self.memory.stride(1)


@triton.jit
def take_turn(PDL: tl.constexpr):
    """Let the next kernel begin to start, and wait for the one ahead; nothing is read or written before this."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def remember(x, memory, rows, program, programs, T, total, left, copy_stride, slot_stride, C: tl.constexpr):
    """Write the last ``left`` inputs of every row, old ones among them where the chunk is shorter.

    Shapes: x [B, T, C]; rows [B, 3] int32; total = B * left * C, shared among all programs.
    """
    BLOCK: tl.constexpr = 1024
    for start in range(program * BLOCK, total, programs * BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < total
        channel, moment = index % C, index // C
        row, moment = moment // left, moment % left
        slot = tl.load(rows + row * ROW, inside, 0)
        turn = tl.load(rows + row * ROW + 1, inside, 0)
        source = T + moment - left
        old = memory + turn * copy_stride + slot * slot_stride + (left + source) * C + channel
        new = x + (row * T + source) * C + channel
        target = memory + (1 - turn) * copy_stride + slot * slot_stride + moment * C + channel
        tl.store(target, tl.load(tl.where(source >= 0, new, old), inside), inside)
