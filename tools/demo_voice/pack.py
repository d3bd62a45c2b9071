"""Pack a checkpoint as float16 in parts of at most 15 MB, and join such parts again.

Run: python pack.py checkpoint.pt folder/name        python pack.py --join folder/name checkpoint.pt
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

LIMIT = 15_000_000


def split(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    parts, size = [{}], 0
    for name, tensor in tensors.items():
        amount = tensor.numel() * tensor.element_size()
        if size + amount > LIMIT and parts[-1]:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += amount
    return parts


def pack(source: Path, stem: Path) -> None:
    state = torch.load(source, map_location="cpu", weights_only=True)
    tensors = {}
    for kind in ("codec", "voice"):
        for name, value in state.get(kind, {}).items():
            keep = "running_" in name or not value.is_floating_point()  # a variance can exceed half precision
            tensors[f"{kind}/{name}"] = value if keep else value.half()
    if "codec" in state:  # rows, not sums: sums and tiny usages would not survive half precision
        usage = state["codec"]["quantizer.usage"].clamp(min=1e-5)
        tensors["codec/quantizer.sums"] = (state["codec"]["quantizer.sums"] / usage[..., None]).half()
        tensors["codec/quantizer.usage"] = torch.ones_like(usage).half()
        tensors["folded"] = torch.tensor([int(state["folded"])])
    told = {"merges": json.dumps(state["merges"])} if "merges" in state else None  # of a voice's text vocabulary
    for i, part in enumerate(split({k: v.contiguous() for k, v in tensors.items()})):
        save_file(part, stem.with_name(f"{stem.name}.{i}.safetensors"), told)


def join(stem: Path, target: Path) -> None:
    tensors: dict[str, Tensor] = {}
    state: dict = {}
    for path in sorted(stem.parent.glob(f"{stem.name}.*.safetensors")):
        tensors.update(load_file(path))
        with safe_open(path, "pt") as part:
            state |= {name: json.loads(told) for name, told in (part.metadata() or {}).items()}
    for name, value in tensors.items():
        if name == "folded":
            state["folded"] = bool(value.item())
            continue
        kind, key = name.split("/", 1)
        state.setdefault(kind, {})[key] = value.float() if value.is_floating_point() else value
    torch.save(state, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--join", action="store_true")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    (join if args.join else pack)(args.source, args.target)


if __name__ == "__main__":
    main()
