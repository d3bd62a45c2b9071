"""Triton kernels, each with a plain twin that tests hold it against. Nothing here is imported where Triton is missing."""

from __future__ import annotations


def available() -> bool:
    """Whether Triton can be imported; a CPU build of torch, or another maker's, may come without it."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
