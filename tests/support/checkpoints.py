"""Tiny random checkpoints, made on the fly from a spec and a seed; the writer is the one that benchmarks use.

Needs numpy only, so that the product's environment and the reference's make the same files.
"""

from __future__ import annotations

from benchmarks.layout.files import GENERATION, model_config, write_checkpoint
from benchmarks.layout.spec import MODES, CheckpointSpec
from tests.support.checkpoint_spec import ODD, SPECS, TINY, TINY_0B6, TINY_EOS

__all__ = [
    "GENERATION",
    "MODES",
    "ODD",
    "SPECS",
    "TINY",
    "TINY_0B6",
    "TINY_EOS",
    "CheckpointSpec",
    "model_config",
    "write_checkpoint",
]
