"""Loading of weights from safetensors files, with strict checks of keys and shapes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from runtime.device.cpu import CORE_COUNT
from runtime.device.quantized import Quantization, product_function, quantized_product
from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.model.checkpoints.adapters import (
    TABLE,
    Adapter,
    CodecTableWithSpeakers,
    PlacedRows,
    open_merged_tensors,
    read_adapter,
)
from runtime.model.checkpoints.config_reader import refuse_lfs_pointer
from runtime.model.checkpoints.files import ADAPTER_WEIGHTS, CheckpointSource, weight_files
from runtime.model.checkpoints.headers import Headers, TensorHeader, check_headers, list_some
from runtime.model.checkpoints.quantized_files import (
    OFFSETS,
    quantized_headers,
    quantized_linears,
    read_quantized_weights,
)
from runtime.model.layers import FusedLinear
from runtime.model.products import Linear, MappedEmbedding

Finish = Callable[[nn.Module], None]

# Minimum size in bytes of tables that are memory-mapped. Smaller tables are copied, because a mapped file must not
# change.
MIN_MAPPED_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class TensorDestination:
    """Destination of a published tensor: a network tensor, or some rows of a fused tensor.

    A fused tensor combines several published tensors.
    """

    target: str
    shape: tuple[int, ...]
    rows: slice | None = None


def tensor_destinations(network: nn.Module, prefix: str = "") -> dict[str, TensorDestination]:
    """Return where the tensors of a published checkpoint are loaded, by their names.

    A destination is a tensor of the network, or a part of the rows of a fused tensor.

    The network may be on the meta device.
    """
    fused = {name: module for name, module in network.named_modules() if isinstance(module, FusedLinear)}
    places: dict[str, TensorDestination] = {}
    for key, tensor in network.state_dict(keep_vars=True).items():
        owner, _, kind = key.rpartition(".")
        if owner not in fused:
            places[prefix + key] = TensorDestination(key, tuple(tensor.shape))
            continue
        parent = owner.rpartition(".")[0]
        start = 0
        for part, width in fused[owner].parts.items():
            shape = (width, *tensor.shape[1:])
            places[f"{prefix}{parent}.{part}.{kind}"] = TensorDestination(key, shape, slice(start, start + width))
            start += width
    return places


def load_weights(
    paths: Sequence[Path],
    networks: dict[str, nn.Module],
    device: torch.device,
    dtypes: dict[str, torch.dtype],
    finish: Mapping[str, Finish] | None = None,
    rounded: dict[str, Quantization] | None = None,
    rounds: dict[str, Quantization] | None = None,
    rows: PlacedRows | None = None,
    unloaded: Collection[str] = (),
) -> list[str]:
    """Load the weights of networks on the meta device from one file or several shards.

    Args:
        networks: Networks by key prefix (``talker.``).
        dtypes: Dtypes of the networks' weights by key prefix.
        finish: Functions by key prefix that are called with every loaded module before the next module is allocated.
        rounded: Quantization of the stored weights by key prefix. Published weights have no entry.
        rounds: Quantization to apply to published weights by key prefix, one layer at a time.
        rows: See `open_weight_files`.
        unloaded: Key prefixes of networks that are checked, but stay on the meta device.

    Returns:
        Keys in the files that do not belong to any network.

    Raises:
        CheckpointMissing: A file does not exist.
        CheckpointInvalid: A file is not in safetensors format, or keys are missing or have the wrong shape.
        CheckpointUnsupported: The weights are quantized in an unknown way.
    """
    kinds = rounded or {}
    with open_weight_files(paths, rows) as files:
        needed, quantized = required_tensors(networks, kinds)
        extra = check_headers(_place_of(paths), needed, _headers(files), quantized)

        def tensor(key: str) -> Tensor:
            value: Tensor = files[key].get_tensor(key)
            return value

        for prefix, network in networks.items():
            if prefix in unloaded:
                continue
            dtype, done = dtypes[prefix], (finish or {}).get(prefix, _nothing)
            with _parallel_map(device) as each:
                take = partial(_load_quantized, lambda key: tensor(key).to(device), prefix, quantized, dtype)
                deque(each(take, quantized_linears(network) if prefix in kinds else ()), maxlen=0)
                work = partial(_fill, tensor, device, dtype, (rounds or {}).get(prefix), done)
                owners = _by_owner(_as_published(network, prefix, prefix in kinds))
                deque(each(work, map(network.get_submodule, owners), owners.values()), maxlen=0)
            network.requires_grad_(False)
            network.eval()
    return extra


def _load_quantized(
    tensor: Callable[[str], Tensor], prefix: str, quantized: Headers, dtype: torch.dtype, named: tuple[str, Linear]
) -> None:
    """Load the stored quantized weights of one linear layer.

    Args:
        quantized: Headers of all quantized tensors by key.
    """
    name, linear = named
    weights = read_quantized_weights(f"{prefix}{name}", tensor, f"{prefix}{name}.{OFFSETS}" in quantized)
    linear.set_product(product_function(weights), dtype)


def _fill(
    tensor: Callable[[str], Tensor],
    device: torch.device,
    dtype: torch.dtype,
    kind: Quantization | None,
    done: Finish,
    module: nn.Module,
    places: dict[str, TensorDestination],
) -> None:
    """Load the tensors that one module owns.

    Args:
        tensor: Returns a stored tensor by its key.
        kind: Quantization to apply to the weights of a linear layer.
        done: Function to call with the loaded module.
    """
    if isinstance(module, MappedEmbedding) and device.type == "cpu" and _keep_table(module, places, tensor, dtype):
        return
    # The published weights are quantized before any conversion to ``dtype``.
    if isinstance(module, Linear) and kind is not None:
        weights = [key for key, place in places.items() if place.target.rpartition(".")[2] == "weight"]
        # Weights of a fused layer's parts, in the order of its rows.
        rows = [tensor(key).to(device) for key in weights]
        module.set_product(quantized_product(rows[0] if len(rows) == 1 else torch.cat(rows), kind), dtype)
        places = {key: place for key, place in places.items() if key not in weights}
    types = {place.target.rpartition(".")[2]: dtype for place in places.values()}
    mapped = {}
    # The tensor uses the mapped file without a copy, because `done` usually copies the weights later.
    if device.type == "cpu":
        mapped = {place.target.rpartition(".")[2]: tensor(key) for key, place in places.items() if place.rows is None}
        mapped = {name: stored for name, stored in mapped.items() if stored.dtype is dtype}
        module.load_state_dict(mapped, strict=False, assign=True)
    allocated = _allocate(module, device, {name: kind for name, kind in types.items() if name not in mapped})
    for key, place in places.items():
        if (name := place.target.rpartition(".")[2]) in allocated:
            (allocated[name] if place.rows is None else allocated[name][place.rows]).copy_(tensor(key))
    done(module)
    # Tensors that are still mapped are copied now, because the file may change later.
    for name, stored in mapped.items():
        if (parameter := getattr(module, name)).data_ptr() == stored.data_ptr():
            parameter.data = parameter.data.clone()


@contextmanager
def _parallel_map(device: torch.device) -> Iterator[Callable[..., Iterator[None]]]:
    """Context manager that returns a `map` function, which is parallel on a CPU.

    The function uses one thread per core and one module per thread.
    """
    if device.type != "cpu" or CORE_COUNT == 1:
        yield map
        return
    before = torch.get_num_threads()
    with ThreadPoolExecutor(CORE_COUNT, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield pool.map
    # Restore torch's number of threads for threads that start later, because the pool's initializer has changed it.
    torch.set_num_threads(before)


def _keep_table(
    table: MappedEmbedding, places: dict[str, TensorDestination], tensor: Callable[[str], Tensor], dtype: torch.dtype
) -> bool:
    """Keep a table in its stored dtype if the cast to `dtype` is exact.

    A large table is memory-mapped. Later lookups read and cast only a few rows of the table.
    """
    (key,) = places
    rows = tensor(key)
    if not is_exact(rows.dtype, dtype):
        return False
    rows = rows if is_mapped(rows, dtype) else rows.clone()
    table.weight = nn.Parameter(rows, requires_grad=False)
    table.dtype = None if rows.dtype is dtype else dtype
    return True


def is_exact(stored: torch.dtype, dtype: torch.dtype) -> bool:
    """True if the cast of stored weights to `dtype` is exact."""
    return torch.promote_types(stored, dtype) is dtype


def is_mapped(rows: Tensor, dtype: torch.dtype) -> bool:
    """True if a CPU should read a table from the memory-mapped file instead of copying it.

    This is the case for large tables that can be cast to `dtype` without loss.

    Shapes: rows [V, H], also on the meta device.
    """
    return rows.nbytes >= MIN_MAPPED_BYTES and is_exact(rows.dtype, dtype)


def _as_published(network: nn.Module, prefix: str, rounds: bool) -> dict[str, TensorDestination]:
    """Return the destinations of tensors that are stored as published.

    With `rounds`, linear layers are excluded.
    """
    places = tensor_destinations(network, prefix)
    weights = {f"{name}.weight" for name, _ in quantized_linears(network)} if rounds else set()
    return {key: place for key, place in places.items() if place.target not in weights}


def _by_owner(places: dict[str, TensorDestination]) -> dict[str, dict[str, TensorDestination]]:
    """Group destinations by the module that owns the tensor, with the largest module first.

    If the largest module were loaded last, one thread would load it while the other threads have no work.
    """
    owned: dict[str, dict[str, TensorDestination]] = {}
    for key, place in places.items():
        owned.setdefault(place.target.rpartition(".")[0], {})[key] = place
    sizes = {owner: sum(math.prod(place.shape) for place in parts.values()) for owner, parts in owned.items()}
    return {owner: owned[owner] for owner in sorted(owned, key=sizes.__getitem__, reverse=True)}


def _nothing(module: nn.Module) -> None:
    """Do nothing with a loaded module."""


def required_tensors(
    networks: dict[str, nn.Module], rounded: dict[str, Quantization]
) -> tuple[dict[str, tuple[int, ...]], Headers]:
    """Return the tensors that the files of some networks must contain.

    The arguments are the same as for `load_weights`.

    Returns:
        Shapes of tensors that are stored as published, and headers of quantized tensors, by key.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    file_headers: Headers = {}
    for prefix, network in networks.items():
        shapes |= {key: place.shape for key, place in _as_published(network, prefix, prefix in rounded).items()}
        if prefix in rounded:
            file_headers |= quantized_headers(network, prefix, rounded[prefix])
    return shapes, file_headers


def read_headers(paths: Sequence[Path]) -> Headers:
    """Read the tensor headers of a checkpoint's files without loading weights.

    Raises:
        CheckpointMissing: A file does not exist.
        CheckpointInvalid: A file is not in safetensors format, or two files have the same tensor.
    """
    with open_weight_files(paths) as files:
        return _headers(files)


def require_finite(paths: Sequence[Path], rows: PlacedRows | None = None) -> None:
    """Check that all weights in the files are finite.

    The check takes about a second per gigabyte. The arguments are the same as for `open_weight_files`.

    Raises:
        CheckpointInvalid: Weights are NaN or infinite.
    """
    with open_weight_files(paths, rows) as files:
        broken = sorted(key for key, file in files.items() if not torch.isfinite(file.get_tensor(key)).all())
    if broken:
        raise CheckpointInvalid(path=_place_of(paths), why=list_some("numbers that are not finite are in", broken))


@contextmanager
def open_weight_files(paths: Sequence[Path], rows: PlacedRows | None = None) -> Iterator[dict[str, Any]]:
    """Open weight files for the ``with`` block, and yield the open file of each tensor key.

    If an adapter changes a tensor, the merged tensor is read instead.

    Args:
        rows: Speaker rows of several adapters that share all other weights. None if at most one adapter is merged.

    Raises:
        CheckpointMissing, CheckpointInvalid, CheckpointUnsupported: A file or the adapter cannot be read.
    """
    with ExitStack() as stack:
        opened = {path: stack.enter_context(open_weights(path)) for path in paths}
        adapters = {path: file for path, file in opened.items() if path.name == ADAPTER_WEIGHTS}
        files = [file for path, file in opened.items() if path not in adapters]
        holders = [(key, file) for file in files for key in file.keys()]  # noqa: SIM118
        if len(by_key := dict(holders)) < len(holders):
            raise CheckpointInvalid(path=_place_of(paths), why="two of its files hold the same tensor")
        merged = {path: open_merged_tensors(by_key, path, adapter) for path, adapter in adapters.items()}
        if rows is None:
            for changed in merged.values():
                by_key |= changed
        elif rows:
            tables = {path: changed[TABLE] for path, changed in merged.items() if TABLE in changed}
            by_key |= {TABLE: CodecTableWithSpeakers(by_key[TABLE], tables, rows)}
        yield by_key


def read_adapters(source: CheckpointSource) -> Iterator[Adapter]:
    """Yield the parsed adapters of a checkpoint.

    The errors are the same as for `open_weight_files`.
    """
    for path in source.adapter_weights:
        with open_weight_files(weight_files(source.folder)) as files, open_weights(path) as adapter:
            yield read_adapter(files, path, adapter)


def _headers(files: dict[str, Any]) -> Headers:
    slices = {key: file.get_slice(key) for key, file in files.items()}
    return {key: TensorHeader(tuple(part.get_shape()), part.get_dtype()) for key, part in slices.items()}


def _place_of(paths: Sequence[Path]) -> Path:
    return paths[0] if len(paths) == 1 else paths[0].parent


def _allocate(module: nn.Module, device: torch.device, types: dict[str, torch.dtype]) -> dict[str, Tensor]:
    """Allocate uninitialized memory for some tensors of a module on the meta device.

    Returns:
        The tensors by name.
    """
    # The function `empty_like` is not used, because for a meta tensor it makes torch import more modules, which takes 1
    # s.
    allocated = {
        name: torch.empty(
            tensor.shape, dtype=types[name] if tensor.is_floating_point() else tensor.dtype, device=device
        )
        for name, tensor in module.state_dict(keep_vars=True).items()
        if name in types
    }
    module.load_state_dict(allocated, strict=False, assign=True)
    return allocated


def open_weights(path: Path) -> safe_open:
    """Open a safetensors file for reading on the CPU.

    Raises:
        CheckpointMissing: The file does not exist.
        CheckpointInvalid: The file is damaged or has another format.
    """
    if not path.is_file():
        hint = "Weights files are read in one format only (safetensors)."
        raise CheckpointMissing(path=path.parent, what=path.name, hint=hint)
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        refuse_lfs_pointer(path)
        raise CheckpointInvalid(path=path, why=f"it is not a readable safetensors file ({error})") from None


@contextmanager
def on_meta() -> Iterator[None]:
    """Create all networks of the ``with`` block on the meta device, where they use no memory."""
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Function mode that skips the initialization of meta parameters.

    Torch would import its compiler for the initialization, which takes a second.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
