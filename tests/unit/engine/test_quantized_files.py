"""Tests for quantized checkpoint files: their output equals that of quantization at load."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.device.quantized import Quantization
from runtime.engine.capacity.doctor import check_checkpoints, diagnose
from runtime.engine.engine import Engine
from runtime.errors import CheckpointInvalid, CheckpointUnsupported, InvalidSetting, StorageFailed
from runtime.model.checkpoints import weights
from runtime.model.checkpoints.checkpoint import choose_loaded_quantization, load_checkpoint
from runtime.model.checkpoints.inspection import inspect_folder
from runtime.model.checkpoints.quantize import quantize as write
from runtime.model.products import MappedEmbedding
from runtime.quantize import quantize
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.support.engines import custom_voice, engine_of, seeded, speak

KINDS = {Quantization.INT8: 8, Quantization.INT4: 4}
CPU = torch.device("cpu")
REQUEST = custom_voice("Hello world, the old phone is slow.", max_frames=9, **seeded(3))


@pytest.fixture(params=list(KINDS), scope="module")
def kind(request: pytest.FixtureRequest) -> Quantization:
    return Quantization(request.param)


@pytest.fixture(scope="module")
def written(kind: Quantization, folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rounded") / str(kind)
    write(str(folder_of("tiny", "custom_voice")), kind, out)
    return out


@pytest.mark.slow("int8-torch.float32", "int4-torch.float32", "int4-torch.bfloat16")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_quantized_file_gives_the_codes_of_quantization_at_load(
    kind: Quantization, written: Path, folder_of: FolderOf, dtype: torch.dtype
) -> None:
    origin = load_checkpoint(str(folder_of("tiny", "custom_voice")), CPU, dtype, quantization=kind)
    again = load_checkpoint(str(written), CPU, dtype)
    assert again.quantization is kind
    assert again.talker.dtype is dtype
    first, second = speak(engine_of(origin, slots=1), REQUEST), speak(engine_of(again, slots=1), REQUEST)
    assert np.array_equal(first.codes, second.codes)
    assert np.array_equal(first.pcm, second.pcm)


def test_quantized_folder_is_self_contained_and_smaller(kind: Quantization, written: Path, folder_of: FolderOf) -> None:
    origin = folder_of("tiny", "custom_voice")
    assert (written / "model.safetensors").stat().st_size < (origin / "model.safetensors").stat().st_size
    names = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert names == set(inspect_folder(origin).files.read)
    assert not any(path.is_symlink() for path in written.rglob("*"))
    assert [path.name for path in written.parent.iterdir()] == [written.name]


def test_model_card_doctor_command_and_check_option_recognise_a_quantized_file(
    kind: Quantization, written: Path
) -> None:
    diagnosis = diagnose(str(written), EngineSettings(device="cpu"))
    assert diagnosis.servable
    assert [(row.dtype, row.is_chosen) for row in diagnosis.memory.rows] == [(kind, True)]
    settings = EngineSettings(device="cpu", max_slots=1, max_model_len=256)
    assert check_checkpoints(Settings(models=(str(written),), engine=settings)).need > 0
    (card,) = Engine.open(Settings(models=(str(written),), engine=settings)).cards
    assert card.dtype == kind


def test_conversion_to_another_quantization_is_refused(kind: Quantization, written: Path, tmp_path: Path) -> None:
    (other,) = set(KINDS) - {kind}
    engine = EngineSettings(device="cpu", quantize=other)
    with pytest.raises(CheckpointUnsupported, match=f"its weights are {kind}, and cannot be converted to {other}"):
        load_checkpoint(str(written), CPU, torch.float32, quantization=other)
    with pytest.raises(CheckpointUnsupported, match=str(kind)):
        check_checkpoints(Settings(models=(str(written),), engine=engine))
    assert [problem.code for problem in diagnose(str(written), engine).problems] == ["checkpoint_unsupported"]
    with pytest.raises(CheckpointUnsupported, match="already"):
        quantize(str(written), KINDS[other], tmp_path / "again")
    assert not list(tmp_path.iterdir())


def test_devices_without_quantized_products_refuse_a_quantized_file(kind: Quantization, written: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match=f"the device is meta, and {kind} needs a CPU"):
        load_checkpoint(str(written), torch.device("meta"), torch.float32)


def test_gpu_loads_int8_checkpoint_files_and_refuses_int4_files() -> None:
    assert choose_loaded_quantization("here", Quantization.INT8, None, "cuda") is Quantization.INT8
    with pytest.raises(CheckpointUnsupported, match="the device is cuda, and int4 needs a CPU"):
        choose_loaded_quantization("here", Quantization.INT4, None, "cuda")


def test_existing_folder_is_not_overwritten(written: Path, folder_of: FolderOf) -> None:
    before = (written / "config.json").read_bytes()
    with pytest.raises(InvalidSetting, match="not an empty folder"):
        quantize(str(folder_of("tiny", "custom_voice")), 8, written)
    assert (written / "config.json").read_bytes() == before


@pytest.mark.parametrize("field", ["int2", 8, True])
def test_unknown_quantization_is_refused(folder_of: FolderOf, tmp_path: Path, field: object) -> None:
    folder = shutil.copytree(folder_of("tiny", "custom_voice"), tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"voicewright_quantization": field}))
    with pytest.raises(CheckpointInvalid, match="voicewright_quantization is not of int8, int4"):
        load_checkpoint(str(folder), CPU, torch.float32)


def test_quantized_file_with_tensors_of_a_wrong_dtype_is_refused(
    kind: Quantization, written: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(written, tmp_path / "damaged")
    tensors = load_file(folder / "model.safetensors")
    tensors["talker.codec_head.values"] = tensors["talker.codec_head.values"].to(torch.int16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointUnsupported, match=r"of the wrong type: talker.codec_head.values \(I16\)"):
        load_checkpoint(str(folder), CPU, torch.float32)
    assert not diagnose(str(folder), EngineSettings(device="cpu")).servable


@pytest.mark.slow("int4")
def test_embedding_tables_in_their_stored_dtype_give_the_same_codes(
    written: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = shutil.copytree(written, tmp_path / "bfloat16")
    tensors = load_file(folder / "model.safetensors")
    tables = [key for key in tensors if "_embedding" in key]
    save_file(tensors | {key: tensors[key].bfloat16() for key in tables}, folder / "model.safetensors")
    kept = load_checkpoint(str(folder), CPU, torch.float32)
    with monkeypatch.context() as mapping:
        mapping.setattr(weights, "MIN_MAPPED_BYTES", 0)
        mapped = load_checkpoint(str(folder), CPU, torch.float32)
    monkeypatch.setattr(weights, "is_exact", lambda stored, dtype: False)
    cast = load_checkpoint(str(folder), CPU, torch.float32)
    expected = speak(engine_of(cast, slots=1), REQUEST).codes
    for checkpoint, dtype in ((cast, torch.float32), (kept, torch.bfloat16), (mapped, torch.bfloat16)):
        talker = checkpoint.talker
        for table in (talker.model.text_embedding, *talker.code_predictor.model.codec_embedding):
            assert isinstance(table, MappedEmbedding)
            assert table.weight.dtype is dtype
        assert torch.equal(talker.model.text_embedding.rows, cast.talker.model.text_embedding.rows)
        assert np.array_equal(speak(engine_of(checkpoint, slots=1), REQUEST).codes, expected)


def test_empty_working_directory_is_accepted_as_target(
    folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    quantize(str(folder_of("tiny", "custom_voice")), 8, Path())
    assert (here / "model.safetensors").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="a process has no limit of a file's size there")
def test_full_disk_is_reported_and_leaves_no_files(folder_of: FolderOf, tmp_path: Path) -> None:
    import resource  # Windows does not have this module.

    origin, whole, out = folder_of("odd", "custom_voice"), tmp_path / "whole", tmp_path / "out"
    quantize(str(origin), 8, whole)
    # Limit of the file size. No file that is copied is larger.
    allowed = max(path.stat().st_size for path in origin.glob("speech_tokenizer/*"))
    assert (whole / "model.safetensors").stat().st_size > allowed, "what is rounded does not"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, before[1]))
    try:
        with pytest.raises(StorageFailed):
            quantize(str(origin), 8, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == [whole]
