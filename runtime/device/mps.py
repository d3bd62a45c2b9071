"""MPS device: the reference implementation on torch's Metal backend.

This device has not been run on a Mac. A test checks that torch has a Metal kernel for each operator that the engine
uses (tests/unit/device/test_mps.py). Dtypes are float32 and, on request, bfloat16, because Metal has no float64. All
work is in one command queue, and the host waits for the queue at every read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Event


class QueueEmptyEvent:
    """Event that is complete when the Metal queue is empty.

    A query waits for the queue and then returns True.
    """

    def query(self) -> bool:
        self.synchronize()
        return True

    def synchronize(self) -> None:
        torch.mps.synchronize()


class MpsDevice(CpuDevice):
    """MPS device, which runs the operations of `CpuDevice` on Apple's GPU.

    Attention is computed row by row. The device has no graphs and no launches in flight.
    """

    name = "mps"
    unit_norm = None  # `None` selects the norm that the networks compute with torch operations.

    def __init__(self) -> None:
        self.torch_device = torch.device("mps")

    def record_event(self) -> Event:
        return QueueEmptyEvent()

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor)  # The copy is synchronous, because host memory is not pinned.

    def free_bytes(self) -> int:
        return max(0, self.total_bytes() - torch.mps.driver_allocated_memory())

    def total_bytes(self) -> int:
        """Return the unified memory in bytes that Metal recommends for the GPU."""
        return torch.mps.recommended_max_memory()
