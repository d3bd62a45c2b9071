"""LoRA adapters in PEFT's format, merged into the published weights when they are loaded.

A merged tensor has the values of PEFT's ``merge_and_unload`` in float32: ``W + (B @ A) * scale``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from runtime.errors import CheckpointInvalid, CheckpointUnsupported
from runtime.model.checkpoints.config_reader import read_json, require_condition
from runtime.model.checkpoints.files import ADAPTER_CONFIG
from runtime.model.checkpoints.headers import list_some

# Name of the published tensor whose rows are codes, special tokens and speakers.
TABLE = "talker.model.codec_embedding.weight"
MERGED_DTYPE = "F32"  # Dtype of merged tensors in the notation of safetensors.
PEFT_PREFIX = "base_model.model."  # Prefix of all tensor names in PEFT's files.
# Possible prefixes of module names. The prefix depends on which module the training script has passed to PEFT.
PARENTS = ("", "talker.", "talker.model.")

# Kinds of adapter tensors. `ENDS` maps the ending of a tensor name to the kind.
LOW, HIGH, EMBEDDED_LOW, EMBEDDED_HIGH, ROWS = "A", "B", "embedding_A", "embedding_B", "rows"
ENDS = {
    ".lora_A.weight": LOW,
    ".lora_B.weight": HIGH,
    ".lora_embedding_A": EMBEDDED_LOW,
    ".lora_embedding_B": EMBEDDED_HIGH,
    ".token_adapter.trainable_tokens_delta": ROWS,
    ".trainable_tokens_delta": ROWS,
}
# For each supported kind of adapter (peft_type), the configuration field that lists the changed rows.
KINDS = {"LORA": "trainable_token_indices", "TRAINABLE_TOKENS": "token_indices"}
PAIRS = ((LOW, HIGH), (EMBEDDED_LOW, EMBEDDED_HIGH))
# Configuration fields of unsupported adapters. With these fields, a merged weight is not the sum of a published weight
# and a product, or the adapter needs other base weights.
REFUSED = (
    *("use_dora", "use_qalora", "use_bdlora", "lora_bias", "alora_invocation_tokens", "layer_replication"),
    *("target_parameters", "arrow_config", "kasa_config", "velora_config", "monteclora_config", "megatron_config"),
)
# For each changed row of a table, the file of the adapter and the index of the row in this file.
PlacedRows = dict[int, tuple[Path, int]]

# Methods of initialization that do not change the base weights before the training.
PLAIN_INITS = (True, False, "gaussian", "eva", "orthogonal")


@dataclass(slots=True)
class TensorChange:
    """Changes of one published tensor by an adapter.

    The changes are applied in this order: replace all values, add a product, replace single rows.
    """

    names: dict[str, str] = field(default_factory=dict)  # Names of the adapter's tensors by kind.
    new: str | None = None  # Name of the adapter's tensor that replaces the published tensor.
    shape: tuple[int, ...] = ()  # Shape of the published tensor.
    scale: float = 1.0
    rows: tuple[int, ...] = ()


class MergedTensors:
    """Reader of one tensor that is merged with an adapter at every read.

    The reader has the methods of an open safetensors file and of its slices, so the loader of weights can use either.
    """

    def __init__(self, base: Any, adapter: Any, change: TensorChange) -> None:
        self._base, self._adapter, self._change = base, adapter, change

    def get_slice(self, key: str) -> MergedTensors:
        return self

    def get_shape(self) -> list[int]:
        return list(self._change.shape)

    def get_dtype(self) -> str:
        return MERGED_DTYPE

    def get_tensor(self, key: str) -> Tensor:
        """Return the merged tensor as float32."""
        change = self._change
        merged = (self._adapter.get_tensor(change.new) if change.new else self._base.get_tensor(key)).float()
        for low, high in PAIRS:
            if low in change.names:
                product = (self._part(high) @ self._part(low)) * change.scale
                merged = merged + (product if low == LOW else product.T)
        if change.rows:
            merged = merged.index_copy(0, torch.tensor(change.rows), self._part(ROWS))
        return merged

    def _part(self, part: str) -> Tensor:
        tensor: Tensor = self._adapter.get_tensor(self._change.names[part])
        return tensor.float()


class CodecTableWithSpeakers(MergedTensors):
    """Reader of the codec embedding table with the speaker rows of several adapters.

    All other rows are the rows of the base checkpoint.
    """

    def __init__(self, base: Any, merged: dict[Path, Any], rows: PlacedRows) -> None:
        super().__init__(base, None, TensorChange(shape=tuple(base.get_slice(TABLE).get_shape())))
        self._merged, self._rows = merged, rows

    def get_tensor(self, key: str) -> Tensor:
        """Return the table with the rows of all adapters as float32."""
        table: Tensor = self._base.get_tensor(key).float().clone()
        for place, (path, row) in self._rows.items():
            table[place] = self._merged[path].get_tensor(key)[row]
        return table


@dataclass(frozen=True, slots=True)
class Adapter:
    """Parsed adapter: its changes by key of the published tensor, and its LoRA ranks."""

    changes: dict[str, TensorChange]
    ranks: tuple[int, ...]  # Ranks of the adapter in ascending order, without duplicates.


def open_merged_tensors(files: dict[str, Any], path: Path, adapter: Any) -> dict[str, Any]:
    """Return readers for the tensors that an adapter changes, by key of the published tensor.

    Args:
        files: Open safetensors file of each published tensor, by key.
        path: Path of the adapter's file.
        adapter: Open safetensors file of the adapter.

    Raises:
        CheckpointInvalid: The adapter does not fit the published weights.
        CheckpointUnsupported: This kind of adapter is not supported.
    """
    changes = read_adapter(files, path, adapter).changes
    return {key: MergedTensors(files[key], adapter, change) for key, change in changes.items()}


def read_adapter(files: Mapping[str, Any], path: Path, adapter: Any) -> Adapter:
    """Parse the configuration and the tensor names of an adapter.

    The arguments and errors are the same as for `open_merged_tensors`.
    """
    config_path = path.parent / ADAPTER_CONFIG
    config = read_json(config_path)
    _require_kind(config, config_path)
    named: dict[str, TensorChange] = {}
    for name in adapter.keys():  # noqa: SIM118
        target, part = _parse(name)
        change = named.setdefault(target, TensorChange())
        if part is None:
            change.new = name
        else:
            change.names[part] = name
    parent = next((parent for parent in PARENTS if all(parent + target in files for target in named)), None)
    if parent is None:
        unknown = min(([name for name in named if parent + name not in files] for parent in PARENTS), key=len)
        raise CheckpointInvalid(path=path, why=list_some("its base checkpoint has no tensors", sorted(unknown)))
    require_condition(bool(named), path, "it has no tensors")
    ranks: set[int] = set()
    for target, change in named.items():
        module = target.rpartition(".")[0]
        change.shape = shape = tuple(files[parent + target].get_slice(parent + target).get_shape())
        if rank := _check_shapes(change, adapter, path, target):
            ranks.add(rank)
            alpha = _of_module(config.get("alpha_pattern") or {}, module, config_path, config.get("lora_alpha"))
            require_condition(type(alpha) in (int, float), config_path, "lora_alpha or alpha_pattern is not a number")
            change.scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        if ROWS in change.names:
            change.rows = _rows_of(config, module, config_path, shape)
            count = adapter.get_slice(change.names[ROWS]).get_shape()
            require_condition(count == [len(change.rows), *shape[1:]], path, f"{change.names[ROWS]} has another shape")
    return Adapter({parent + target: change for target, change in named.items()}, tuple(sorted(ranks)))


def _require_kind(config: dict[str, Any], path: Path) -> None:
    kind = config.get("peft_type")
    refused = [name for name in REFUSED if config.get(name)]
    start = config.get("init_lora_weights", True)
    if kind not in KINDS:
        why = f"only adapters of {' and '.join(KINDS)} are merged, and peft_type is {kind!r:.60}"
        raise CheckpointUnsupported(path=path, why=why)
    if refused:
        why = f"an adapter with {', '.join(refused)} is no LoRA that can be added to weights; merge it with PEFT"
        raise CheckpointUnsupported(path=path, why=why)
    if start not in PLAIN_INITS:
        why = f"init_lora_weights {start!r:.60} changed the base weights before training; merge it with PEFT"
        raise CheckpointUnsupported(path=path, why=why)


def _parse(name: str) -> tuple[str, str | None]:
    """Return the name of the published tensor and the kind of change for an adapter tensor."""
    target = name.removeprefix(PEFT_PREFIX)
    for end, part in ENDS.items():
        if target.endswith(end):
            return f"{target.removesuffix(end)}.weight", part
    return target.replace(".base_layer.", "."), None


def _check_shapes(change: TensorChange, adapter: Any, path: Path, target: str) -> int | None:
    """Check the shapes of a change, and return the rank of its product or None."""
    shape = change.shape
    if change.new is not None:
        new = adapter.get_slice(change.new).get_shape()
        require_condition(
            tuple(new) == shape, path, f"{change.new} has the shape {new}, and its base checkpoint {list(shape)}"
        )
    for low, high in PAIRS:
        names = [change.names[part] for part in (low, high) if part in change.names]
        if not names:
            continue
        require_condition(len(names) == 2, path, f"{names[0]} has no matching lora_A or lora_B")
        A, B = (adapter.get_slice(name).get_shape() for name in names)
        fits = len(A) == len(B) == 2 and A[0] == B[1] > 0
        product = (B[0], A[1]) if low == LOW else (A[1], B[0])
        require_condition(
            fits and product == shape, path, f"the shapes of {names[0]} and its other half do not fit {target}"
        )
        return int(A[0])
    return None


def _rows_of(config: dict[str, Any], module: str, path: Path, shape: tuple[int, ...]) -> tuple[int, ...]:
    field = KINDS[config["peft_type"]]
    rows = config.get(field)
    if isinstance(rows, dict):
        rows = _of_module(rows, module, path, None)
    is_valid = isinstance(rows, list) and all(type(row) is int and 0 <= row < shape[0] for row in rows)
    require_condition(is_valid, path, f"{field} names no rows of {module}")
    assert isinstance(rows, list)
    return tuple(rows)


def _of_module(pattern: Any, module: str, path: Path, default: Any) -> Any:
    """Return the value of a module in a PEFT pattern, which maps names to values.

    The first name that equals the module's name or is a suffix of it applies. PEFT also allows regular expressions,
    which are refused here.
    """
    require_condition(isinstance(pattern, dict), path, "a pattern is not an object")
    for name, value in pattern.items():
        plain = name.removeprefix("^")
        if not plain.replace(".", "").replace("_", "").isalnum():
            why = f"a pattern is the name of a module here, no regular expression like {name!r:.60}"
            raise CheckpointUnsupported(path=path, why=why)
        if module == plain or (plain == name and module.endswith(f".{plain}")):
            return value
    return default


def describe_changes(adapter: Adapter) -> Iterator[str]:
    """Yield a short description of each kind of change, such as "rank 16 on 196 layers"."""
    changes = adapter.changes.values()
    products = sum(change.names.keys() - {ROWS} != set() for change in changes)
    if products:
        yield f"rank {', '.join(map(str, adapter.ranks))} on {products} layers"
    if rows := sum(len(change.rows) for change in changes):
        yield f"{rows} rows"
    if new := sum(change.new is not None for change in changes):
        yield f"{new} new tensors"
