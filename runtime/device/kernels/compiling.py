"""Parallel compilation of all kernels (about a hundred) at first startup.

To find the kernels, each function to capture is called once with kernel launches disabled. Each kernel is compiled on a
separate thread, which mostly waits for other processes (ptxas and the C compiler for the launcher).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from triton import AsyncCompileMode, JITFunction

log = logging.getLogger(__name__)

MAX_COMPILER_THREADS = 16
# Lock that prevents a kernel from loading the launcher of another kernel. All launchers are extension modules with the
# same name.
LOADING = threading.Lock()


class PendingKernel:
    """Placeholder for a kernel that is still being compiled.

    Launching the placeholder does nothing.
    """

    function = packed_metadata = None

    def result(self) -> PendingKernel:
        return self

    def launch_metadata(self, *_: Any) -> None:
        """Return None, because a placeholder has no metadata."""

    def run(self, *_: Any) -> None:
        """Do nothing, because the kernel is not compiled yet."""


PENDING_KERNEL = PendingKernel()


class Precompiling(AsyncCompileMode):  # type: ignore[misc]  # Triton has no type annotations.
    """Context manager in which launched kernels are compiled on other threads but do not run.

    If a compilation fails, the first real launch compiles the kernel again.
    """

    def submit(self, key: str, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> PendingKernel:
        def compile_and_load() -> Any:
            try:
                kernel = compile_fn()
                with LOADING:
                    _ = kernel.run  # The access to `run` creates the launcher and loads the kernel onto the GPU.
            except Exception as error:
                log.warning("a kernel could not be compiled: %s: %s", type(error).__name__, error)
                return None
            return kernel

        super().submit(key, compile_and_load, finalize_fn)
        finalize_fn(PENDING_KERNEL)  # Triton uses this placeholder until the kernel is compiled.
        return PENDING_KERNEL


def compile_all(functions: Iterable[Callable[[], object]]) -> int:
    """Compile all kernels that the given functions launch, and return the number of kernels.

    The functions are called with kernel launches disabled. Therefore they must not use a kernel's output on the host or
    as an index. If this process has already launched a kernel, nothing is compiled, because that kernel would run on
    undefined data. No other thread may launch kernels during the call.
    """
    if any(kernel_cache for kernel in _kernels() for kernel_cache, *_ in kernel.device_caches.values()):
        return 0
    device, count = torch.cuda.current_device(), min(MAX_COMPILER_THREADS, os.cpu_count() or 1)
    with (
        ThreadPoolExecutor(count, "compile", initializer=torch.cuda.set_device, initargs=(device,)) as threads,
        Precompiling(threads) as precompiling,
        torch.inference_mode(),
    ):
        for function in functions:
            function()
        return len(precompiling.future_kernels)


def _kernels() -> list[JITFunction[Any]]:
    """Return the Triton functions in all imported modules of this package."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(f"{__package__}.")]
    values = (value for module in modules for value in list(vars(module).values()))
    return [value for value in values if isinstance(value, JITFunction)]
