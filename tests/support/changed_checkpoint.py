"""Functions that change the weights, shards or configuration of a checkpoint in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]


def rewrite(path: Path, change: Callable[[Tensors], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def shard(folder: Path, count: int, stem: str = "model") -> None:
    """Split model.safetensors of a checkpoint folder into `count` shards with an index.

    The reference implementation saves large checkpoints in this format.
    """
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index: dict[str, str] = {}
    for number in range(count):
        name = f"{stem}-{number + 1:05}-of-{count:05}.safetensors"
        part = {key: tensors[key] for key in sorted(tensors)[number::count]}
        save_file(part, folder / name, metadata={"format": "pt"})
        index |= dict.fromkeys(part, name)
    content = {"metadata": {"total_size": 1}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def rewrite_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
