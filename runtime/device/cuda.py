"""NVIDIA GPUs, eager for now: the CPU's operations on the card. Graphs and kernels come behind the same interface."""

from __future__ import annotations

import torch

from runtime.device.cpu import CpuDevice


class CudaDevice(CpuDevice):
    name = "cuda"
    dtype = torch.bfloat16

    def __init__(self) -> None:
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
