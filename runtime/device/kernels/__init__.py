"""Fused operations of a frame in Triton, each tested against a plain twin.

All are pure functions over tensors: no host sync, no shape that depends on a value, so that a graph can hold them; and
a row's bits depend neither on how many rows there are nor on which. Triton is imported by the modules of this package
alone, each of which needs it; ask ``available`` before importing one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

HOPPER = 9
PDL_CAPABILITY = HOPPER  # From this capability on, a kernel may start before the previous one has ended.
READS_SHARED = (HOPPER, 10)  # Capabilities whose tensor cores read the current stage from shared memory.
PLENTY = 2**20  # Bytes of shared memory assumed without a card.


@cache
def available() -> bool:
    """True if kernels can run: Triton imports, and a CUDA device or Triton's interpreter is available."""
    try:
        import triton
    except ImportError:
        return False
    return torch.cuda.is_available() or bool(triton.knobs.runtime.interpret)


@cache
def pdl() -> bool:
    """True if kernels overlap their start with the end of the previous one (programmatic dependent launch)."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= PDL_CAPABILITY


@cache
def wgmma() -> bool:
    """True if tensor cores multiply for four warps at once, as only Hopper's do."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == HOPPER


@cache
def shared_memory() -> int:
    """Bytes that a program may hold in a multiprocessor's memory: 227 KiB on an H200, 99 KiB on consumer cards."""
    if not torch.cuda.is_available():
        return PLENTY
    from triton.compiler.compiler import max_shared_mem

    most: int = max_shared_mem(torch.cuda.current_device())
    return most


@cache
def keeps_all_stages() -> bool:
    """True if the stage in use is in shared memory with the prefetched ones; otherwise it is in registers."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] in READS_SHARED


def stages(wanted: int, stage_bytes: int) -> int:
    """Return the number of loop stages that fit this card, at most ``wanted``. They do not change results.

    Args:
        stage_bytes: what a step of the loop loads for its products.
    """
    return max(1, min(wanted, shared_memory() // stage_bytes + (not keeps_all_stages())))


def launch_options() -> dict[str, Any]:
    """Return the options of every launch: overlap, and no fused multiply-add, which torch does not use either."""
    return {"PDL": pdl(), "launch_pdl": pdl(), "enable_fp_fusion": False}
