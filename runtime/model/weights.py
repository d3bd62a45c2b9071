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
from runtime.model.headers import Headers, TensorHeader, check_headers
from runtime.model.layers import FusedLinear

Finish = Callable[[nn.Module], None]


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
    paths: Sequence[Path],
    networks: dict[str, nn.Module],
    device: torch.device,
    dtypes: dict[str, torch.dtype],
    finish: dict[str, Finish] | None = None,
) -> list[str]:
    """Fill the networks, built on the meta device, from one file or several shards.

    Args:
        networks: key prefix (``talker.``) -> network.
        dtypes: key prefix -> dtype of that network's weights.
        finish: key prefix -> what is done with each module of that network that has weights of its own, as soon as
            it holds them and before the next one has memory for its own.

    Returns:
        The keys of the files that belong to none of the networks.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: not a safetensors file, or keys are missing or misshaped (named).
        CheckpointUnsupported: weights are quantised.
    """
    with _opened(paths) as files:
        extra = check_headers(_place_of(paths), wanted_shapes(networks), _headers(files))
        for prefix, network in networks.items():
            done = (finish or {}).get(prefix, _nothing)
            for owner, places in _by_owner(published_places(network, prefix)).items():
                module = network.get_submodule(owner)
                made = _allocate(module, device, dtypes[prefix])
                for key, place in places.items():
                    target = made[place.target.rpartition(".")[2]]
                    (target if place.rows is None else target[place.rows]).copy_(files[key].get_tensor(key))
                done(module)
            network.requires_grad_(False)
            network.eval()
    return extra


def _by_owner(places: dict[str, Place]) -> dict[str, dict[str, Place]]:
    """Places by the module whose own tensors they are."""
    owned: dict[str, dict[str, Place]] = {}
    for key, place in places.items():
        owned.setdefault(place.target.rpartition(".")[0], {})[key] = place
    return owned


def _nothing(module: nn.Module) -> None:
    """Weights stay as they are read."""


def wanted_shapes(networks: dict[str, nn.Module]) -> dict[str, tuple[int, ...]]:
    """The tensors that networks need, by key; ``networks`` as for `load_weights`."""
    return {
        key: place.shape
        for prefix, network in networks.items()
        for key, place in published_places(network, prefix).items()
    }


def read_headers(paths: Sequence[Path]) -> Headers:
    """What the files of a checkpoint say of their tensors; no weight is read.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: not a safetensors file, or a tensor is in two of them.
    """
    with _opened(paths) as files:
        return _headers(files)


@contextmanager
def _opened(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The file of each key."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_weights(path)) for path in paths]
        holders = [(key, file) for file in files for key in file.keys()]  # noqa: SIM118
        if len(by_key := dict(holders)) < len(holders):
            raise CheckpointInvalid(path=_place_of(paths), why="two of its files hold the same tensor")
        yield by_key


def _headers(files: dict[str, Any]) -> Headers:
    slices = {key: file.get_slice(key) for key, file in files.items()}
    return {key: TensorHeader(tuple(part.get_shape()), part.get_dtype()) for key, part in slices.items()}


def _place_of(paths: Sequence[Path]) -> Path:
    return paths[0] if len(paths) == 1 else paths[0].parent


def _allocate(module: nn.Module, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Give a module's own tensors, built on the meta device, memory that holds nothing yet; returns it by the names."""
    # Made from shapes: what torch makes from a tensor of the meta device takes it a second's imports.
    made = {
        name: torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype, device=device)
        for name, tensor in module.state_dict(keep_vars=True).items()
        if "." not in name
    }
    module.load_state_dict(made, strict=False, assign=True)
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
