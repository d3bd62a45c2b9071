"""Parallel compilation of kernels, because a first start compiles about a hundred.

The works that are to be captured are gone through once with launches that do nothing: every kernel that is met is left
to a thread, most of whose time goes into a process of its own (ptxas) or one more (the launcher's C compiler).
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
# Launchers are extension modules of one name. Loaded beside each other, a kernel was once given another's.
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


class Unheard:
    """Stands for a kernel that is being compiled: to launch it does nothing."""

    function = packed_metadata = None

    def result(self) -> Unheard:
        return self

    def launch_metadata(self, *_: Any) -> None:
        """There is none."""

    def run(self, *_: Any) -> None:
        """Nothing runs."""


UNHEARD = Unheard()


class Precompiling(AsyncCompileMode):  # type: ignore[misc]  # Triton has no types
    """Within, kernels are compiled and not launched. One that cannot be compiled is again asked for at its launch."""

    def submit(self, key: str, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> Unheard:
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
        finalize_fn(UNHEARD)  # Progress is reported once all kernels are compiled.
        return UNHEARD


def compile_all(works: Iterable[Callable[[], object]]) -> int:
    """Compile what some works launch, and return how many kernels that were.

    What the works compute is rubbish: whatever they read on the host or look up in torch must not come from a kernel.
    Nothing is done where a kernel was launched before in this process: it would be launched now, on rubbish. Nobody
    may launch any meanwhile.
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
