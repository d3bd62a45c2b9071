"""Conversion of a checkpoint to int8 or int4 weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from runtime.device.calibrated_int4 import quantize_gptq
from runtime.device.quantized import Quantization, quantize_weight, supports_int4
from runtime.errors import CheckpointUnsupported, InvalidSetting, StorageFailed
from runtime.model.checkpoints.checkpoint import TALKER, model_networks, resolve_folder
from runtime.model.checkpoints.files import CONFIG, INDEX, WHOLE
from runtime.model.checkpoints.inspection import Inspection, inspect_folder
from runtime.model.checkpoints.quantized_files import quantized_linears, quantized_tensors
from runtime.model.checkpoints.weights import open_weight_files, tensor_destinations

QUANTIZATION_FIELD = "voicewright_quantization"  # Name of a field in config.json.

Moments = dict[str, Tensor]  # For each linear layer by name, the sum of the outer products of its inputs.


def quantize(reference: str, kind: Quantization, out: Path, measure: Callable[[str], Moments] | None = None) -> int:
    """Write a quantized copy of a checkpoint to a new folder.

    Without `measure`, the weights are equal to the weights that `--quantize` computes at every start.

    Args:
        reference: Local folder, or Hub id.
        kind: int8 or int4.
        out: Path of the new folder, which may exist if it is empty.
        measure: Function that returns the moments of the inputs of the talker's linear layers. Int4 weights are
            calibrated for these moments.

    Returns:
        The number of bytes written.

    Raises:
        SetUpError: The checkpoint is missing or cannot be served.
        CheckpointUnsupported: The weights are already quantized.
        InvalidSetting: `out` exists and is not an empty folder.
        StorageFailed: The new folder cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidSetting(name="--out", value=repr(str(out)), why="it exists and is not an empty folder")
    out = out.resolve()  # The resolved path has a folder name even if `out` is a link or ends with "..".
    folder = resolve_folder(reference)
    inspection = inspect_folder(folder)
    inspection.require()
    if inspection.quantization is not None:
        raise CheckpointUnsupported(path=folder, why=f"its weights are {inspection.quantization} already")
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _write(inspection, kind, unfinished, measure(reference) if measure else {})
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    except (OSError, SafetensorError) as error:  # A SafetensorError means that the disk is full.
        shutil.rmtree(unfinished, ignore_errors=True)
        raise StorageFailed(what=str(out), why=getattr(error, "strerror", None) or str(error)) from None
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def _write(inspection: Inspection, kind: Quantization, out: Path, moments: Moments) -> None:
    paths = inspection.source.weights
    replaced = {path.name for path in paths} | {INDEX, CONFIG}
    for name in inspection.files.read:
        if name not in replaced:
            (out / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(inspection.folder / name, out / name)
    config = inspection.content | {QUANTIZATION_FIELD: kind}
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    with open_weight_files(paths) as by_key:
        save_file(dict(_tensors(inspection, kind, by_key, moments)), out / WHOLE, {"format": "pt"})


@torch.inference_mode()
def _tensors(
    inspection: Inspection, kind: Quantization, files: dict[str, Any], moments: Moments
) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors of the new file.

    The weights of linear layers are quantized. All other tensors are unchanged.
    """
    assert inspection.config is not None
    for prefix, network in model_networks(inspection.config).items():
        parts: dict[str, list[Tensor]] = {}
        products = (
            {f"{name}.weight": f"{prefix}{name}" for name, _ in quantized_linears(network)} if prefix == TALKER else {}
        )
        for key, place in tensor_destinations(network, prefix).items():
            if place.target in products:
                parts.setdefault(products[place.target], []).append(files[key].get_tensor(key))
            else:
                yield key, files[key].get_tensor(key)
        for name in list(parts):
            weight, measured = torch.cat(parts.pop(name)), moments.get(name.removeprefix(prefix))
            if measured is not None and supports_int4(*weight.shape):
                yield from quantized_tensors(name, quantize_gptq(weight, measured)).items()
            else:
                yield from quantized_tensors(name, quantize_weight(weight, kind)).items()
