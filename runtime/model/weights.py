"""Weights from safetensors files into networks: strict about every key and shape, and nothing is ever unpickled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.model.layers import FusedLinear

NAMED_AT_MOST = 5  # keys listed in one sentence of complaint


@dataclass(frozen=True, slots=True)
class Place:
    """Where one published tensor goes: a whole tensor of the network, or some rows of a fused one."""

    target: str
    shape: tuple[int, ...]
    rows: slice | None = None


def published_places(network: nn.Module, prefix: str = "") -> dict[str, Place]:
    """Published key -> place, for every parameter and stored buffer of a network; works on the meta device."""
    fused = {name: module for name, module in network.named_modules() if isinstance(module, FusedLinear)}
    places: dict[str, Place] = {}
    for key, tensor in network.state_dict(keep_vars=True).items():
        owner, _, kind = key.rpartition(".")
        if owner not in fused:
            places[prefix + key] = Place(key, tuple(tensor.shape))
            continue
        parent = owner.rpartition(".")[0]
        start = 0
        for part, width in fused[owner].parts.items():
            shape = (width, *tensor.shape[1:])
            places[f"{prefix}{parent}.{part}.{kind}"] = Place(key, shape, slice(start, start + width))
            start += width
    return places


def load_weights(
    path: Path,
    networks: dict[str, nn.Module],
    device: torch.device,
    dtypes: dict[str, torch.dtype],
) -> None:
    """Fill the networks, built on the meta device, from one file.

    Args:
        networks: key prefix (``talker.``) -> network; together they must own every key of the file.
        dtypes: key prefix -> dtype of that network's weights.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: not a safetensors file, or keys are missing, unexpected or misshaped (named).
    """
    places = {
        key: (prefix, place)
        for prefix, network in networks.items()
        for key, place in published_places(network, prefix).items()
    }
    with open_weights(path) as tensors:
        found = {key: tuple(tensors.get_slice(key).get_shape()) for key in tensors.keys()}  # noqa: SIM118
        check_keys(path, {key: place.shape for key, (_, place) in places.items()}, found)
        targets: dict[str, dict[str, Tensor]] = {}
        for prefix, network in networks.items():
            network.to_empty(device=device)
            network.to(dtypes[prefix])
            network.requires_grad_(False)
            network.eval()
            targets[prefix] = network.state_dict(keep_vars=True)
        for key, (prefix, place) in places.items():
            target = targets[prefix][place.target]
            (target if place.rows is None else target[place.rows]).copy_(tensors.get_tensor(key))


def open_weights(path: Path) -> safe_open:
    """Open a safetensors file for reading on the CPU.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: the file is damaged or another format.
    """
    if not path.is_file():
        raise CheckpointMissing(path=path.parent, what=path.name, hint="Weights are read from safetensors files only.")
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        raise CheckpointInvalid(path=path, why=f"it is not a readable safetensors file ({error})") from None


def check_keys(path: Path, wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    """Compare key sets and shapes.

    Raises:
        CheckpointInvalid: they differ; the sentence names what and counts the rest.
    """
    misshaped = (
        f"{key} {list(found[key])} instead of {list(wanted[key])}"
        for key in wanted
        if key in found and found[key] != wanted[key]
    )
    complaints = [
        _list_some(what, sorted(keys))
        for what, keys in (
            ("missing", wanted.keys() - found.keys()),
            ("unexpected", found.keys() - wanted.keys()),
            ("misshaped", set(misshaped)),
        )
        if keys
    ]
    if complaints:
        raise CheckpointInvalid(path=path, why="; ".join(complaints))


def on_meta() -> torch.device:
    """Build networks without memory: ``with on_meta(): Talker(config)``."""
    return torch.device("meta")


def _list_some(what: str, names: list[str]) -> str:
    rest = len(names) - NAMED_AT_MOST
    shown = ", ".join(names[:NAMED_AT_MOST])
    return f"{what} {shown}" + (f" and {rest} more" if rest > 0 else "")
