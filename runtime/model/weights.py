"""Loads weights from safetensors files, strict about every key and shape; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.model.config_reader import read_json
from runtime.model.layers import FusedLinear

NAMED_AT_MOST = 5  # keys listed in one sentence of complaint

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "model.bin", "model.ckpt")
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})  # others are quantised: they mean something only with their scales


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


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights of a folder: one, or those that an index names.

    Raises:
        CheckpointMissing: there are none, or not all of them.
        CheckpointInvalid: the index is damaged.
    """
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    index = folder / INDEX
    if not index.exists():
        pickled = next((name for name in PICKLES if (folder / name).exists()), None)
        hint = "Weights are read from safetensors files only."
        if pickled:
            hint += f" {pickled} is a pickle, which is never opened: it could run code. Save it as safetensors."
        raise CheckpointMissing(path=folder, what=WHOLE, hint=hint)
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise CheckpointInvalid(path=index, why="weight_map is not an object that names files")
    names = sorted({name if isinstance(name, str) else "" for name in shards.values()})
    for name in names:
        if not name.endswith(".safetensors") or "/" in name or "\\" in name:
            raise CheckpointInvalid(path=index, why="weight_map names a file that is no safetensors file beside it")
        if not (folder / name).is_file():
            raise CheckpointMissing(path=folder, what=name, hint=f"{INDEX} names it.")
    return [folder / name for name in names]


def load_weights(
    paths: Sequence[Path],
    networks: dict[str, nn.Module],
    device: torch.device,
    dtypes: dict[str, torch.dtype],
) -> None:
    """Fill the networks, built on the meta device, from one file or several shards.

    Args:
        networks: key prefix (``talker.``) -> network; together they must own every key of the files.
        dtypes: key prefix -> dtype of that network's weights.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: not a safetensors file, or keys are missing, unexpected, misshaped or no floats (named).
    """
    places = {
        key: (prefix, place)
        for prefix, network in networks.items()
        for key, place in published_places(network, prefix).items()
    }
    path = paths[0] if len(paths) == 1 else paths[0].parent
    with ExitStack() as opened:
        files = [opened.enter_context(open_weights(path)) for path in paths]
        holders = [(key, file) for file in files for key in file.keys()]  # noqa: SIM118
        tensors = dict(holders)
        if len(tensors) < len(holders):
            raise CheckpointInvalid(path=path, why="two of its files hold the same tensor")
        slices = {key: file.get_slice(key) for key, file in tensors.items()}
        found = {key: tuple(tensor.get_shape()) for key, tensor in slices.items()}
        check_keys(path, {key: place.shape for key, (_, place) in places.items()}, found)
        if others := sorted(
            f"{key} ({tensor.get_dtype()})" for key, tensor in slices.items() if tensor.get_dtype() not in FLOATS
        ):
            raise CheckpointInvalid(
                path=path, why=f"{_list_some('not floating point:', others)}; quantised weights are not read"
            )
        targets = {prefix: _allocate(network, device, dtypes[prefix]) for prefix, network in networks.items()}
        for key, (prefix, place) in places.items():
            target = targets[prefix][place.target]
            (target if place.rows is None else target[place.rows]).copy_(tensors[key].get_tensor(key))


def _allocate(network: nn.Module, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Give a network that was built on the meta device memory that holds nothing yet; returns it by the names."""
    # Made from shapes: what torch makes from a tensor of the meta device takes it a second's imports.
    made = {
        name: torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype, device=device)
        for name, tensor in network.state_dict(keep_vars=True).items()
    }
    network.load_state_dict(made, assign=True)
    network.requires_grad_(False)
    network.eval()
    return made


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


@contextmanager
def on_meta() -> Iterator[None]:
    """Build networks without memory: ``with on_meta(): Talker(config)``."""
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Fills no new parameter: there is no memory to fill, and torch would import its compiler for it, for a second."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _list_some(what: str, names: list[str]) -> str:
    rest = len(names) - NAMED_AT_MOST
    shown = ", ".join(names[:NAMED_AT_MOST])
    return f"{what} {shown}" + (f" and {rest} more" if rest > 0 else "")
