"""Fused operations of the frame in Triton, each with a plain twin that its test compares it with.

All are pure functions over tensors: no host sync, no shape that depends on a value, so that a graph can hold them; and
a row's bits depend neither on how many rows there are nor on which. Triton is imported by the modules of this package
alone, each of which needs it; ask ``available`` before importing one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

PDL_CAPABILITY = 9  # Hopper; kernels may start before the one ahead of them has ended


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


def launch_options() -> dict[str, Any]:
    """What every launch is told: whether to overlap, and that no product is fused with a sum, as torch rounds."""
    return {"PDL": pdl(), "launch_pdl": pdl(), "enable_fp_fusion": False}
