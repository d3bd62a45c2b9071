"""MPS device: the reference implementation by torch's Metal backend. It has never run on a Mac.

What is held without one: that all operations of an engine's turn have a Metal kernel in torch's own table
(tests/unit/device/test_mps.py). Numbers are float32, or bfloat16 where it is asked for; nothing here is of 64-bit
floating point, which Metal lacks. There is one queue of work, and the host waits for it wherever it reads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Event


class Finished:
    """The event of a queue that can only be waited for as a whole."""

    def query(self) -> bool:
        self.synchronize()
        return True

    def synchronize(self) -> None:
        torch.mps.synchronize()


class MpsDevice(CpuDevice):
    """As the CPU's, with tensors elsewhere: attention row by row, no graphs, nothing in flight."""

    name = "mps"
    unit_norm = None  # The networks use their own norms.

    def __init__(self) -> None:
        self.torch_device = torch.device("mps")

    def mark(self) -> Event:
        return Finished()

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor)  # Synchronous, because host memory is not pinned.

    def free_bytes(self) -> int:
        return max(0, self.total_bytes() - torch.mps.driver_allocated_memory())

    def total_bytes(self) -> int:
        """Return the memory that Metal recommends, out of that which processor and GPU share."""
        return torch.mps.recommended_max_memory()
