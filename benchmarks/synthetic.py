"""Checkpoints of the published sizes with random weights: what speed is measured on where the real ones are not.

`python -m benchmarks.synthetic FOLDER --size 1.7B --mode custom_voice` writes every file of the published repository.
The weights are drawn on the card where there is one, so that gigabytes take seconds. Their utterances never end by
themselves (benchmarks/layout/ending.py): what is compared has to be equally long.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.layout.draw import Draw, Tensors, key_digest
from benchmarks.layout.files import write_drawn
from benchmarks.layout.published import PUBLISHED
from benchmarks.layout.spec import MODES

SPEECH_TOKENIZER = "speech_tokenizer/model.safetensors"


@dataclass(frozen=True)
class TorchDraw(Draw):
    """The same distributions from torch's generators, where gigabytes would take numpy minutes."""

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
    """Write one checkpoint in bfloat16, its speech tokenizer in float32 as published."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    write_drawn(folder, PUBLISHED[size], mode, TorchDraw(seed, place), "bfloat16")


def main() -> int:
    """Write a checkpoint a mode; their speech tokenizers are one file on the disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with several modes: a folder of each mode's name is made in it")
    parser.add_argument("--size", choices=list(PUBLISHED), default="1.7B")
    parser.add_argument("--mode", choices=MODES, action="append", help="may be given more than once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="where the numbers are drawn: cpu, cuda; a card where there is one")
    arguments = parser.parse_args()
    modes = arguments.mode or ["custom_voice"]
    first: Path | None = None
    for mode in modes:
        start = time.perf_counter()
        folder = arguments.folder / mode if len(modes) > 1 else arguments.folder
        write_synthetic(folder, arguments.size, mode, arguments.seed, arguments.device)
        if first is not None:
            (folder / SPEECH_TOKENIZER).unlink()
            os.link(first / SPEECH_TOKENIZER, folder / SPEECH_TOKENIZER)
        first = first or folder
        print(f"{arguments.size} {mode} in {folder}: {time.perf_counter() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
