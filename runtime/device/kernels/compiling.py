"""Parallel compilation of kernels, because a first start compiles about a hundred.

All work to be captured runs once with launches that do nothing. Each kernel is compiled on a thread, which mostly waits
for other processes (ptxas and the C compiler of the launcher).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from triton import AsyncCompileMode, JITFunction

from runtime.device.kernels import (
    convolution,
    decode_attention,
    frame_io,
    gemm,
    medium_m_gemm,
    pointwise,
    prefill_attention,
    residual_unit,
    sample,
    small_m_gemm,
    split_k,
    window,
)

log = logging.getLogger(__name__)

THREADS = 16  # Maximum number of compiler threads.
# Launchers are extension modules with the same name. When loaded in parallel, a kernel once got another's launcher.
LOADING = threading.Lock()
MODULES = (
    convolution,
    decode_attention,
    frame_io,
    gemm,
    medium_m_gemm,
    pointwise,
    prefill_attention,
    residual_unit,
    sample,
    small_m_gemm,
    split_k,
    window,
)


class PendingKernel:
    """Placeholder for a kernel that is being compiled, whose launch does nothing."""

    function = packed_metadata = None

    def result(self) -> PendingKernel:
        return self

    def launch_metadata(self, *_: Any) -> None:
        """Return no metadata."""

    def run(self, *_: Any) -> None:
        """Do nothing."""


PENDING_KERNEL = PendingKernel()


class Precompiling(AsyncCompileMode):  # type: ignore[misc]  # Triton has no types
    """Mode in which kernels are compiled and not launched.

    A failed compilation is repeated at the first real launch.
    """

    def submit(self, key: str, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> PendingKernel:
        def compile_and_load() -> Any:
            try:
                kernel = compile_fn()
                with LOADING:
                    _ = kernel.run  # Creates the launcher and loads the kernel onto the card.
            except Exception as error:
                log.warning("a kernel could not be compiled: %s: %s", type(error).__name__, error)
                return None
            return kernel

        super().submit(key, compile_and_load, finalize_fn)
        finalize_fn(PENDING_KERNEL)  # Progress is reported once all kernels are compiled.
        return PENDING_KERNEL


def compile_all(works: Iterable[Callable[[], object]]) -> int:
    """Compile the kernels that some work launches, and return their number.

    The results of the work are undefined, so it must not use a kernel's output on the host or as an index. Nothing is
    compiled if this process has already launched a kernel, because that kernel would run on undefined data. No other
    thread may launch kernels during the call.
    """
    if any(kernel_cache for kernel in _kernels() for kernel_cache, *_ in kernel.device_caches.values()):
        return 0
    device, count = torch.cuda.current_device(), min(THREADS, os.cpu_count() or 1)
    with (
        ThreadPoolExecutor(count, "compile", initializer=torch.cuda.set_device, initargs=(device,)) as threads,
        Precompiling(threads) as precompiling,
        torch.inference_mode(),
    ):
        for work in works:
            work()
        return len(precompiling.future_kernels)


def _kernels() -> list[JITFunction[Any]]:
    found = (value for module in MODULES for value in vars(module).values())
    return [value for value in found if isinstance(value, JITFunction)]
