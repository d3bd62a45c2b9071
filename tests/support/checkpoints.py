"""Tiny random checkpoints, made on the fly from a spec and a seed; the writer is the one that benchmarks use.

Needs numpy only, so that the product's environment and the reference's make the same files.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.layout.files import GENERATION, model_config, write_checkpoint
from benchmarks.layout.published import LARGE
from benchmarks.layout.spec import MODES, CheckpointSpec
from tests.support.checkpoint_spec import BRIEF, ODD, SPECS, TINY, TINY_0B6, TINY_EOS

__all__ = [
    "BRIEF",
    "GENERATION",
    "MODES",
    "ODD",
    "SPECS",
    "TINY",
    "TINY_0B6",
    "TINY_EOS",
    "CheckpointSpec",
    "few_layers",
    "model_config",
    "write_checkpoint",
]


def few_layers(name: str, layers: int) -> CheckpointSpec:
    """The published 1.7B's widths with few layers and the tiny checkpoint's words."""
    return replace(
        LARGE,
        name=name,
        talker=replace(LARGE.talker, layers=layers),
        predictor=replace(LARGE.predictor, layers=layers),
        tokens=TINY.tokens,
        special_tokens=TINY.special_tokens,
        text_rows=TINY.text_rows,
    )
