"""Triton kernels of the fused operations, tested against PyTorch implementations.

The kernels are pure functions of tensors. CUDA graphs can capture every kernel, because no kernel synchronizes with the
host or has data-dependent shapes. Results are bitwise independent of the batch. All modules of this package need
Triton. Call ``available`` before you import such a module.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

HOPPER = 9
# Minimum CUDA capability (major version) for programmatic dependent launch, which starts a kernel before the previous
# kernel has ended.
PDL_CAPABILITY = HOPPER
READS_SHARED = (HOPPER, 10)  # CUDA capabilities (major versions) of GPUs whose tensor cores read from shared memory.
ASSUMED_SHARED_BYTES = 2**20  # Bytes of shared memory that are assumed if there is no GPU.


@cache
def available() -> bool:
    """True if Triton is installed, and a CUDA device or Triton's interpreter is available."""
    try:
        import triton
    except ImportError:
        return False
    return torch.cuda.is_available() or bool(triton.knobs.runtime.interpret)


@cache
def pdl() -> bool:
    """True if the GPU can start a kernel before the previous kernel has ended.

    This CUDA feature is called programmatic dependent launch (PDL).
    """
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= PDL_CAPABILITY


@cache
def wgmma() -> bool:
    """True if the GPU has the wgmma instructions, the tensor core instructions of Hopper."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == HOPPER


@cache
def shared_memory() -> int:
    """Return the shared memory per program in bytes, for example 227 KiB on an H200."""
    if not torch.cuda.is_available():
        return ASSUMED_SHARED_BYTES
    from triton.compiler.compiler import max_shared_mem

    most: int = max_shared_mem(torch.cuda.current_device())
    return most


@cache
def keeps_all_stages() -> bool:
    """True if all stages of a pipelined loop need shared memory, including the current stage.

    On other GPUs, the current stage is in registers.
    """
    return not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] in READS_SHARED


def count_stages(max_stages: int, stage_bytes: int) -> int:
    """Return the number of pipeline stages of a loop that fit into shared memory.

    The result is at most `max_stages`. The number of stages does not change the kernel's results.

    Args:
        max_stages: Maximum number of stages.
        stage_bytes: Number of bytes that a stage of the loop loads.
    """
    return max(1, min(max_stages, shared_memory() // stage_bytes + (not keeps_all_stages())))


def launch_options() -> dict[str, Any]:
    """Return the options that every Triton launch gets.

    Launches overlap if the GPU supports PDL. Fused multiply-add is off, because torch does not use it.
    """
    return {"PDL": pdl(), "launch_pdl": pdl(), "enable_fp_fusion": False}
