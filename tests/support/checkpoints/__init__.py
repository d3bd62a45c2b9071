"""Checkpoints with random weights in the published layout, tiny or of published size.

A specification and a seed determine a checkpoint. Only `torch_draw.py` needs torch, so the environments of the product
and of the reference can create the same files.
"""

from __future__ import annotations

from dataclasses import replace

from tests.support.checkpoints.files import GENERATION, model_config, write_checkpoint
from tests.support.checkpoints.published import LARGE
from tests.support.checkpoints.spec import MODES, CheckpointSpec
from tests.support.checkpoints.tiny import BRIEF, ODD, SPECS, TINY, TINY_0B6, TINY_EOS

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
    """Return a spec with the widths of 1.7B, few layers and the tiny checkpoint's vocabulary."""
    return replace(
        LARGE,
        name=name,
        talker=replace(LARGE.talker, layers=layers),
        predictor=replace(LARGE.predictor, layers=layers),
        tokens=TINY.tokens,
        special_tokens=TINY.special_tokens,
        text_rows=TINY.text_rows,
    )
