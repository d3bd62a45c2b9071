"""Tests for LoRA adapters: the merged weights are equal to those of PEFT."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from runtime.device.quantized import Quantization
from runtime.engine.capacity.doctor import diagnose
from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointUnsupported
from runtime.model.checkpoints.checkpoint import find_source, load_checkpoint
from runtime.model.checkpoints.quantize import quantize
from runtime.model.checkpoints.weights import open_weight_files
from runtime.settings import EngineSettings
from tests.conftest import FolderOf
from tests.support.changed_checkpoint import Tensors
from tests.support.engines import custom_voice, engine_of, speak

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
LAYER = "model.layers.0.self_attn.q_proj"
ROW = "model.codec_embedding"
SETTINGS = EngineSettings(device="cpu", dtype="float32")


@pytest.fixture
def base(folder_of: FolderOf, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "base"))


def low_rank(weights: Tensors, name: str, rank: int = 2, seed: int = 0) -> Tensors:
    """Return random LoRA matrices A and B of a layer, with PEFT's key names."""
    rows, columns = weights[f"talker.{name}.weight"].shape
    draw = torch.Generator().manual_seed(seed)
    A, B = torch.randn(rank, columns, generator=draw), torch.randn(rows, rank, generator=draw)
    return {f"base_model.model.{name}.lora_A.weight": A, f"base_model.model.{name}.lora_B.weight": B}


def write_adapter(folder: Path, tensors: Tensors, **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    plain = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "init_lora_weights": True}
    (folder / CONFIG).write_text(json.dumps(plain | config))
    return folder


def weights_of(folder: Path) -> Tensors:
    return load_file(folder / "model.safetensors")


def merged(folder: Path) -> Tensors:
    """Return all tensors of a checkpoint as the loader reads them."""
    with open_weight_files(find_source(str(folder)).weights) as files:
        return {key: file.get_tensor(key) for key, file in files.items()}


@pytest.mark.parametrize("is_beside", [True, False], ids=["beside", "pointing"])
def test_adapter_speaks_as_the_merged_checkpoint(base: Path, tmp_path: Path, is_beside: bool) -> None:
    weights = weights_of(base)
    names = [LAYER, "model.layers.0.mlp.down_proj", "code_predictor.model.layers.0.self_attn.v_proj"]
    halves = {key: half for name in names for key, half in low_rank(weights, name).items()}
    whole = Path(shutil.copytree(base, tmp_path / "whole"))
    for name in names:
        A, B = (halves[f"base_model.model.{name}.lora_{half}.weight"] for half in "AB")
        weights[f"talker.{name}.weight"] += (B @ A) * 4.0
    save_file(weights, whole / "model.safetensors", {"format": "pt"})

    folder = write_adapter(base if is_beside else tmp_path / "tuned", halves, base_model_name_or_path="../base")
    request = custom_voice(max_frames=8)
    takes = []
    for place in (folder, whole):
        checkpoint = load_checkpoint(str(place), torch.device("cpu"), torch.float32)
        takes.append(speak(engine_of(checkpoint), request).codes.tolist())
    assert takes[0] == takes[1]
    if not is_beside:
        plain = load_checkpoint(str(base), torch.device("cpu"), torch.float32)
        assert takes[0] != speak(engine_of(plain), request).codes.tolist()


@pytest.mark.parametrize("parent", ["", "talker."], ids=["talker", "whole model"])
def test_adapter_rank_alpha_and_new_tensors_follow_its_configuration(base: Path, tmp_path: Path, parent: str) -> None:
    weights = weights_of(base)
    other = "model.layers.1.self_attn.q_proj"
    tensors = low_rank(weights, LAYER, rank=4) | low_rank(weights, other, rank=2)
    head, rows = (
        torch.full_like(weights["talker.codec_head.weight"], 0.5),
        torch.ones(2, weights[f"talker.{ROW}.weight"].shape[1]),
    )
    tensors |= {
        "base_model.model.codec_head.weight": head,
        f"base_model.model.{ROW}.token_adapter.trainable_tokens_delta": rows,
    }
    named = {key.replace("base_model.model.", f"base_model.model.{parent}"): part for key, part in tensors.items()}
    folder = write_adapter(
        tmp_path / "tuned",
        named,
        base_model_name_or_path=str(base),
        use_rslora=True,
        alpha_pattern={"layers.1.self_attn.q_proj": 3},
        trainable_token_indices={"codec_embedding": [5, 2]},
        modules_to_save=["codec_head"],
    )
    got = merged(folder)
    for name, scale in ((LAYER, 8 / math.sqrt(4)), (other, 3 / math.sqrt(2))):
        A, B = (tensors[f"base_model.model.{name}.lora_{half}.weight"] for half in "AB")
        assert torch.equal(got[f"talker.{name}.weight"], weights[f"talker.{name}.weight"] + (B @ A) * scale)
    assert torch.equal(got["talker.codec_head.weight"], head)
    wanted = weights[f"talker.{ROW}.weight"].clone()
    wanted[[5, 2]] = rows
    assert torch.equal(got[f"talker.{ROW}.weight"], wanted)


def test_adapter_weights_equal_the_weights_merged_by_peft(base: Path, tmp_path: Path) -> None:
    """The test needs the independent implementation: ``pip install --no-deps peft``."""
    peft = pytest.importorskip("peft")
    network = _network_of(weights_of(base))
    config = peft.LoraConfig(
        r=4,
        lora_alpha=6,
        use_rslora=True,
        target_modules=r".*\.(q_proj|down_proj)|model\.codec_embedding",
        modules_to_save=["codec_head"],
        rank_pattern={"down_proj": 3, "layers.0.self_attn.q_proj": 8},
        alpha_pattern={"q_proj": 9, "model.codec_embedding": 5},
        trainable_token_indices={"model.text_embedding": [1, 4]},
        fan_in_fan_out=True,
    )
    torch.manual_seed(3)
    tuned = peft.get_peft_model(network.get_submodule("talker"), config)
    with torch.no_grad():
        for part in tuned.parameters():
            if part.requires_grad:
                part.add_(torch.randn_like(part))
    folder = tmp_path / "tuned"
    tuned.save_pretrained(folder)
    content = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(content | {"base_model_name_or_path": str(base)}))
    wanted = tuned.merge_and_unload().state_dict()
    got = {key.removeprefix("talker."): part for key, part in merged(folder).items() if key.startswith("talker.")}
    assert got.keys() == wanted.keys()
    before = weights_of(base)
    changed = {key for key in wanted if not torch.equal(wanted[key], before[f"talker.{key}"])}
    assert len(changed) > 6
    for key in wanted:
        torch.testing.assert_close(got[key], wanted[key], rtol=1e-6, atol=1e-6, msg=key)


def _network_of(weights: Tensors) -> nn.Module:
    """Return a network with a checkpoint's weights and module types that PEFT supports."""
    root = nn.Module()
    for key, tensor in weights.items():
        *path, leaf, kind = key.split(".")
        parent = root
        for name in path:
            if not hasattr(parent, name):
                parent.add_module(name, nn.Module())
            parent = parent.get_submodule(name)
        if not hasattr(parent, leaf):
            made: nn.Module = nn.Module()
            if kind == "weight" and tensor.dim() == 2:
                rows, columns = tensor.shape
                is_table = "embedding" in key
                made = nn.Embedding(rows, columns) if is_table else nn.Linear(columns, rows, bias=False)
            parent.add_module(leaf, made)
        setattr(parent.get_submodule(leaf), kind, nn.Parameter(tensor))
    return root


def test_doctor_command_reports_the_adapter(base: Path, tmp_path: Path) -> None:
    weights = weights_of(base)
    tensors = low_rank(weights, LAYER)
    folder = write_adapter(tmp_path / "tuned", tensors, base_model_name_or_path=str(base))
    diagnosis = diagnose(str(folder), SETTINGS)
    assert (diagnosis.servable, diagnosis.name) == (True, "tuned")
    (adapter,) = diagnosis.adapters
    assert (adapter.folder, adapter.base) == (str(folder), str(base))
    assert adapter.changes == ("rank 2 on 1 layers",)
    assert {WEIGHTS, CONFIG} <= diagnosis.files.read.keys()

    tensors[f"base_model.model.{LAYER}.lora_A.weight"][0, 0] = math.nan
    write_adapter(folder, tensors, base_model_name_or_path=str(base))
    assert "not finite" in str(diagnose(str(folder), SETTINGS).problems)


def test_quantized_copy_has_the_merged_weights(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "tuned", low_rank(weights_of(base), LAYER), base_model_name_or_path=str(base))
    quantize(str(folder), Quantization.INT8, tmp_path / "int8")
    quantize(str(base), Quantization.INT8, tmp_path / "plain")
    device, request = torch.device("cpu"), custom_voice(max_frames=8)
    at_load = load_checkpoint(str(folder), device, torch.float32, quantization=Quantization.INT8)
    stored, plain = (load_checkpoint(str(tmp_path / name), device, torch.float32) for name in ("int8", "plain"))
    takes = [speak(engine_of(one), request).codes.tolist() for one in (at_load, stored, plain)]
    assert takes[0] == takes[1] != takes[2]


def test_fingerprint_depends_on_the_adapter_and_its_scale(base: Path, tmp_path: Path) -> None:
    tensors = low_rank(weights_of(base), LAYER)
    prints = {load_checkpoint(str(base), torch.device("cpu"), torch.float32).fingerprint}
    for alpha in (8, 9):
        folder = write_adapter(tmp_path / "tuned", tensors, base_model_name_or_path=str(base), lora_alpha=alpha)
        prints.add(load_checkpoint(str(folder), torch.device("cpu"), torch.float32).fingerprint)
    assert len(prints) == 3


def drop_half(tensors: Tensors) -> None:
    del tensors[f"base_model.model.{LAYER}.lora_B.weight"]


def narrow(tensors: Tensors) -> None:
    key = f"base_model.model.{LAYER}.lora_B.weight"
    tensors[key] = tensors[key][:-1].contiguous()


def rename(tensors: Tensors) -> None:
    tensors["base_model.model.model.layers.99.mlp.x.weight"] = torch.ones(2)


def magnitude(tensors: Tensors) -> None:
    tensors[f"base_model.model.{LAYER}.lora_magnitude_vector"] = torch.ones(2)


@pytest.mark.parametrize(
    ("config", "change", "kind", "words"),
    [
        ({"use_dora": True}, None, CheckpointUnsupported, "an adapter with use_dora"),
        ({"peft_type": "LOHA"}, None, CheckpointUnsupported, "peft_type is 'LOHA'"),
        ({"init_lora_weights": "pissa"}, None, CheckpointUnsupported, "'pissa' changed the base weights"),
        ({"alpha_pattern": {"(a+)+$": 3}}, None, CheckpointUnsupported, "no regular expression"),
        ({"lora_alpha": "much"}, None, CheckpointInvalid, "is not a number"),
        ({}, drop_half, CheckpointInvalid, "no matching lora"),
        ({}, narrow, CheckpointInvalid, "do not fit"),
        ({}, rename, CheckpointInvalid, "no tensors model.layers.99.mlp.x.weight"),
        ({}, magnitude, CheckpointInvalid, "lora_magnitude_vector"),
        ({}, dict.clear, CheckpointInvalid, "it has no tensors"),
        ({"base_model_name_or_path": None}, None, CheckpointMissing, "Put the adapter's two files"),
        ({"base_model_name_or_path": "/nowhere/base"}, None, CheckpointMissing, "/nowhere/base"),
        ({"base_model_name_or_path": "."}, None, CheckpointUnsupported, "is an adapter, too"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:30]),
)
def test_adapters_that_cannot_be_merged_are_refused(
    base: Path,
    tmp_path: Path,
    config: dict[str, Any],
    change: Callable[[Tensors], None] | None,
    kind: type[Exception],
    words: str,
) -> None:
    tensors = low_rank(weights_of(base), LAYER)
    if change is not None:
        change(tensors)
    folder = write_adapter(tmp_path / "tuned", tensors, **{"base_model_name_or_path": str(base)} | config)
    with pytest.raises(kind) as caught:
        load_checkpoint(str(folder), torch.device("cpu"), torch.float32)
    assert words in str(caught.value)
    assert len(str(caught.value).split(". ")) <= 2


def test_pickled_adapter_is_never_opened(base: Path) -> None:
    write_adapter(base, low_rank(weights_of(base), LAYER))
    (base / WEIGHTS).rename(base / "adapter_model.bin")
    with pytest.raises(CheckpointMissing, match=r"adapter_model\.safetensors is missing"):
        load_checkpoint(str(base), torch.device("cpu"), torch.float32)
