"""Fused operations as Triton kernels, each tested against a readable version.

They are pure functions of tensors, without host synchronization or data-dependent shapes, so graphs can capture them.
Their results are bitwise independent of the batch. All modules of this package need Triton; call ``available`` before
you import one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

HOPPER = 9
# Minimum CUDA capability with programmatic dependent launch: a kernel may start before the previous one has ended.
PDL_CAPABILITY = HOPPER
READS_SHARED = (HOPPER, 10)  # CUDA capabilities whose tensor cores read the current stage from shared memory.
ASSUMED_SHARED_BYTES = 2**20  # Shared memory to assume if there is no GPU.


@cache
def available() -> bool:
    """True if Triton can be imported, and a CUDA device or its interpreter is available."""
    try:
        import triton
    except ImportError:
        return False
    return torch.cuda.is_available() or bool(triton.knobs.runtime.interpret)


@cache
def pdl() -> bool:
    """True if kernels may overlap: one may start before the previous one has ended (PDL)."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= PDL_CAPABILITY


@cache
def wgmma() -> bool:
    """True if the tensor cores have wgmma instructions (four warps each), as on Hopper."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == HOPPER


@cache
def shared_memory() -> int:
    """Return the shared memory per program in bytes.

    It is 227 KiB on an H200 and 99 KiB on consumer GPUs.
    """
    if not torch.cuda.is_available():
        return ASSUMED_SHARED_BYTES
    from triton.compiler.compiler import max_shared_mem

    most: int = max_shared_mem(torch.cuda.current_device())
    return most


@cache
def keeps_all_stages() -> bool:
    """True if shared memory must hold the current stage in addition to the prefetched stages."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] in READS_SHARED


def stages(wanted: int, stage_bytes: int) -> int:
    """Return the number of loop stages that fit this GPU, at most `wanted`.

    It does not change results.

    Args:
        stage_bytes: Number of bytes that one step of the loop loads.
    """
    return max(1, min(wanted, shared_memory() // stage_bytes + (not keeps_all_stages())))


def launch_options() -> dict[str, Any]:
    """Return the options of all launches.

    Launches overlap. Fused multiply-add is off, because torch does not use it either.
    """
    return {"PDL": pdl(), "launch_pdl": pdl(), "enable_fp_fusion": False}
