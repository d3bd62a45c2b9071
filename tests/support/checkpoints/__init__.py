"""Random checkpoints in the published format, with tiny or published tensor shapes.

A specification and a seed determine all files of a checkpoint. Only `torch_draw.py` needs PyTorch. Therefore, the
Python environments of the runtime and of the reference implementation can create the same files.
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
    """Return the specification of a checkpoint with the layer widths of 1.7B but fewer layers.

    The vocabulary is that of the tiny checkpoints.
    """
    return replace(
        LARGE,
        name=name,
        talker=replace(LARGE.talker, layers=layers),
        predictor=replace(LARGE.predictor, layers=layers),
        tokens=TINY.tokens,
        special_tokens=TINY.special_tokens,
        text_rows=TINY.text_rows,
    )
