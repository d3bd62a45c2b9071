"""Fused operations of the frame in Triton, each with a plain twin that its test compares it with.

All are pure functions over tensors: no host sync, no shape that depends on a value, so that a graph can hold them; and
a row's bits depend neither on how many rows there are nor on which. Triton is imported by the modules of this package
alone, each of which needs it; ask ``available`` before importing one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

HOPPER = 9
PDL_CAPABILITY = HOPPER  # and later; kernels may start before the one ahead of them has ended
READS_SHARED = (HOPPER, 10)  # capabilities whose tensor cores take the stage at work from shared memory, too
PLENTY = 2**20  # bytes, where there is no card to ask


@cache
def available() -> bool:
    """Whether kernels can run here: Triton imports, and there is a CUDA device or Triton's interpreter."""
    try:
        import triton
    except ImportError:
        return False
    return torch.cuda.is_available() or bool(triton.knobs.runtime.interpret)


@cache
def pdl() -> bool:
    """Whether kernels overlap their start with the end of the one ahead (programmatic dependent launch)."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= PDL_CAPABILITY


@cache
def wgmma() -> bool:
    """Whether tensor cores multiply for four warps at once, which Hopper's alone do."""
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
    """Whether the stage at work lies in shared memory with those on their way; elsewhere it lies in registers."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] in READS_SHARED


def stages(wanted: int, stage_bytes: int) -> int:
    """How many stages of a loop fit this card, at most as many as are best where there is room. They change no bit.

    Args:
        stage_bytes: what a step of the loop loads for its products.
    """
    return max(1, min(wanted, shared_memory() // stage_bytes + (not keeps_all_stages())))


def launch_options() -> dict[str, Any]:
    """What every launch is told: whether to overlap, and that no product is fused with a sum, as torch rounds."""
    return {"PDL": pdl(), "launch_pdl": pdl(), "enable_fp_fusion": False}
