"""Generator of random weights with PyTorch, for checkpoints with published tensor shapes.

PyTorch is faster than numpy for tensors of this size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.support.checkpoints.draw import Draw, Tensors, key_digest
from tests.support.checkpoints.files import write_drawn
from tests.support.checkpoints.published import PUBLISHED


@dataclass(frozen=True)
class TorchDraw(Draw):
    """Generator of random tensors with PyTorch.

    It is faster than numpy, which would take minutes for gigabytes.
    """

    device: torch.device

    def spread(self, key: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> Tensor:
        seed = int.from_bytes(key_digest(self.seed, key)[:7], "little")
        generator = torch.Generator(self.device).manual_seed(seed)
        unit = torch.rand(shape, generator=generator, device=self.device)
        return unit.sub_(0.5).mul_(2 * std * 3.0**0.5).add_(mean)

    def save(self, path: Path, tensors: Tensors, dtype: str) -> None:
        kind = {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
        save_file({key: tensor.to(kind).cpu().contiguous() for key, tensor in tensors}, path, {"format": "pt"})


def write_synthetic(folder: Path, size: str, mode: str, seed: int = 0, device: str | None = None) -> None:
    """Write a checkpoint with random bfloat16 weights and a float32 speech tokenizer."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    write_drawn(folder, PUBLISHED[size], mode, TorchDraw(seed, place), "bfloat16")
