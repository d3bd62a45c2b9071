"""Script that compiles two kernels on a machine without a GPU, for test_compiling.py."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from runtime.device.kernels import compiling, gemm

launched: list[str] = []
loaders: set[str] = set()


class Launcher:
    """Kernel launcher that records which kernels were loaded and launched."""

    def __init__(self, source: Any, metadata: Any) -> None:
        loaders.add(threading.current_thread().name.split("_")[0])
        self.name = metadata.name

    def __call__(self, *_: Any) -> None:
        launched.append(self.name)


class FakeGpu:
    """Minimal Triton driver for compiling and launching kernels."""

    launcher_cls = Launcher
    utils = SimpleNamespace(
        get_device_properties=lambda _: {"max_shared_mem": 232448},
        load_binary=lambda *_: (object(), object(), 0, 0, 1024),
    )

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


driver.set_active(FakeGpu())
torch.cuda.current_device = lambda: 0
torch.cuda.set_device = lambda device: None
weight, x = torch.zeros(64, 64, dtype=torch.bfloat16), torch.zeros(4, 64, dtype=torch.bfloat16)
good = gemm.Tiles(16, 64, 1, 4, 2)
bad = gemm.Tiles(16, 24, 1, 4, 2)  # A tile size of 24 is invalid.


def product() -> None:
    gemm.gemm(gemm.gemm(x, weight, tiles=good), weight, residual=x, tiles=good)


def launch_invalid_kernel() -> None:
    gemm.gemm(x, weight, tiles=bad)


print(
    "asked", compiling.compile_all([product, launch_invalid_kernel, product]), "launched", len(launched), "by", *loaders
)
product()
print("launched", len(launched))
print("again", compiling.compile_all([product]))
try:
    launch_invalid_kernel()
except Exception as error:
    print("hopeless", type(error).__name__)
