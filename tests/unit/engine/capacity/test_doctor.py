"""Tests for `voicewright doctor`, which reports the capacity and problems of a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from runtime.cli import main
from runtime.device import cpu
from runtime.device.cpu import CpuDevice
from runtime.device.open_device import choose_code2wav_dtype
from runtime.engine.capacity import memory
from runtime.engine.capacity.doctor import CheckResult, Diagnosis, check_checkpoints, diagnose
from runtime.engine.capacity.probe import Probe, Weights, bytes_per_weight, weights_per_frame
from runtime.errors import CheckpointMissing, CheckpointTooLarge, HubUnreachable, InvalidSetting, SetUpError
from runtime.model.checkpoints.checkpoint import DECODER, TALKER, load_checkpoint
from runtime.model.checkpoints.inspection import inspect_folder
from runtime.model.config import ModelConfig
from runtime.model.products import MappedEmbedding, low_precision_modules
from runtime.published import SPEECH_TOKENIZER_BYTES
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.support.changed_checkpoint import Tensors, rewrite, rewrite_config, shard
from tests.support.hub import Hub, asked_here
from tests.unit.model.published import DATA, write_configs

WEIGHTS, SOUND = "model.safetensors", "speech_tokenizer/model.safetensors"
NAME = "somebody/Fine-Tune"
# Dtype of Code2Wav if the dtype of the talker is bfloat16.
NARROW = choose_code2wav_dtype("auto", CpuDevice(), torch.bfloat16, None)
# Number of weights of the published speech tokenizer that Code2Wav stores in each dtype.
NARROWED = {torch.float32: 0, torch.bfloat16: 105_812_640, torch.float16: 73_904_128}
TEXT_TABLE = 151_936 * 2048


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "tuned"))


def diagnosed(reference: object, **settings: Any) -> Diagnosis:
    return diagnose(str(reference), EngineSettings(device="cpu", **settings))


def codes(diagnosis: Diagnosis) -> list[str]:
    return [problem.code for problem in diagnosis.problems]


def test_doctor_command_reports_configuration_and_unknown_tensors(folder: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        del content["talker_config"]["hidden_act"]
        content["talker_config"]["frobnicate"] = 3

    rewrite_config(folder, change)
    rewrite(folder / WEIGHTS, lambda tensors: tensors.update({"speaker_encoder.fc.bias": torch.zeros(3)}))
    (folder / "notes.txt").write_text("hello")
    diagnosis = diagnosed(folder)
    assert (diagnosis.servable, diagnosis.problems, diagnosis.name) == (True, (), "tuned")
    assert diagnosis.served is not None
    assert diagnosis.served.modes == ("custom_voice",)
    assert {"serena", "eric"} <= set(diagnosis.served.speakers)
    assert "english" in diagnosis.served.languages
    assert diagnosis.files.read[WEIGHTS] == (folder / WEIGHTS).stat().st_size
    assert "notes.txt" in diagnosis.files.ignored
    assert diagnosis.weights is not None
    assert diagnosis.speech_tokenizer is not None
    assert diagnosis.weights.unread == ("speaker_encoder.fc.bias",)
    assert sum(diagnosis.weights.dtypes.values()) == diagnosis.weights.tensors
    assert (diagnosis.defaulted, diagnosis.unknown) == (("talker_config.hidden_act",), ("talker_config.frobnicate",))
    assert diagnosis.download is None


def test_doctor_command_and_check_option_report_the_same_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {row.dtype: row for row in diagnosed(folder).memory.rows}
    assert [row.dtype for row in chosen.values() if row.is_chosen] == ["float32"]
    row = chosen["float32"]
    engine = EngineSettings(device="cpu", max_slots=3)
    need = check_checkpoints(Settings(models=(str(folder),), engine=engine)).need
    assert need == row.once + 3 * row.slot
    code2wav = inspect_folder(folder).networks[DECODER]
    names = [] if NARROW is torch.float32 else low_precision_modules(code2wav, NARROW)
    narrowed = sum(code2wav.get_parameter(f"{name}.weight").nbytes for name in names)
    fewer = (folder / WEIGHTS).stat().st_size / 2 + narrowed / 2
    assert row.once - chosen["bfloat16"].once == pytest.approx(fewer, rel=0.05)
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (need, need))
    assert [row.slots for row in diagnosed(folder).memory.rows if row.is_chosen] == [3]
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (need - 1, need))
    assert codes(diagnosed(folder, max_slots=3)) == ["checkpoint_too_large"]
    assert diagnosed(folder).servable


@pytest.mark.parametrize(
    ("variant", "parameters", "chosen"),
    [("0.6B-CustomVoice", 905_788_672, "int8"), ("1.7B-CustomVoice", 1_916_676_352, "int4")],
)
def test_memory_of_a_published_checkpoint_follows_from_its_configuration(
    tmp_path: Path, variant: str, parameters: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rtf(probe: Probe, config: ModelConfig, weights: Weights) -> float:
        """Return the real-time factor of a machine whose only cost is reading weights at 30 GB/s."""
        return weights_per_frame(config) * bytes_per_weight(*weights) / 30e9 / 0.08

    monkeypatch.setattr(Probe, "rtf", rtf)
    write_configs(tmp_path, variant)
    (tmp_path / "speech_tokenizer").mkdir()
    shutil.copy(DATA / "config_speech_tokenizer.json", tmp_path / "speech_tokenizer" / "config.json")
    diagnosis = diagnosed(tmp_path)
    assert codes(diagnosis) == ["checkpoint_missing"] * len(diagnosis.files.missing)
    weights = {row.dtype: row.once - memory.PROCESS_BYTES for row in diagnosis.memory.rows}
    narrower = (4 - NARROW.itemsize) * NARROWED[NARROW]
    modules = inspect_folder(tmp_path).networks[TALKER].modules()
    tables = sum(module.weight.numel() for module in modules if isinstance(module, MappedEmbedding)) - TEXT_TABLE
    assert weights["bfloat16"] == 2 * (parameters - TEXT_TABLE) + SPEECH_TOKENIZER_BYTES - narrower
    assert weights["float32"] == 4 * (parameters - TEXT_TABLE) - 2 * tables + SPEECH_TOKENIZER_BYTES
    assert weights["int4"] < weights["int8"] < weights["float32"]
    rtfs = {row.dtype: row.rtf for row in diagnosis.memory.rows if row.rtf is not None}
    assert rtfs["int4"] < rtfs["int8"] < rtfs["bfloat16"] < rtfs["float32"]
    assert [row.dtype for row in diagnosis.memory.rows if row.is_chosen] == [chosen]


def quantise(tensors: Tensors) -> None:
    tensors["talker.codec_head.weight"] = tensors["talker.codec_head.weight"].to(torch.int8)


def without_a_weight(tensors: Tensors) -> None:
    tensors["talker.other"] = tensors.pop("talker.codec_head.weight")


def with_nan(tensors: Tensors) -> None:
    tensors["talker.codec_head.weight"][3, 1] = torch.nan


LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 1829345112\n"

SPOILERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "all at once": (
        lambda folder: (
            (folder / "vocab.json").unlink(),
            (folder / SOUND).unlink(),
            rewrite(folder / WEIGHTS, without_a_weight),
            (folder / "generation_config.json").write_text("{"),
        ),
        ["checkpoint_missing", "checkpoint_missing", "checkpoint_invalid"],
    ),
    "a weight gone": (lambda folder: rewrite(folder / WEIGHTS, without_a_weight), ["checkpoint_invalid"]),
    "integers": (lambda folder: rewrite(folder / WEIGHTS, quantise), ["checkpoint_unsupported"]),
    "a pickle": (lambda folder: (folder / WEIGHTS).rename(folder / "model.bin"), ["checkpoint_unsupported"]),
    "another type": (
        lambda folder: rewrite_config(folder, lambda config: config.update(model_type="qwen3_omni")),
        ["checkpoint_unsupported"],
    ),
    "no configuration": (lambda folder: (folder / "config.json").unlink(), ["checkpoint_missing"]),
    "a pointer of Git LFS": (lambda folder: (folder / WEIGHTS).write_text(LFS_POINTER), ["checkpoint_invalid"]),
    "cut short": (
        lambda folder: (folder / SOUND).write_bytes((folder / SOUND).read_bytes()[:-9]),
        ["checkpoint_invalid"],
    ),
}


@pytest.mark.parametrize("how", SPOILERS)
def test_doctor_command_lists_all_problems_and_check_option_only_the_first_problem(folder: Path, how: str) -> None:
    spoil, expected = SPOILERS[how]
    spoil(folder)
    diagnosis = diagnosed(folder)
    assert codes(diagnosis) == expected
    assert not diagnosis.servable
    with pytest.raises(SetUpError) as refused:
        check_checkpoints(Settings(models=(str(folder),), engine=EngineSettings(device="cpu")))
    assert refused.value.code in expected


def test_only_headers_are_fetched_from_the_hub(folder: Path, tmp_path: Path) -> None:
    shard(folder, 2, "talker")
    with asked_here(Hub({NAME: folder}), tmp_path / "here") as hub:
        diagnosis = diagnosed(NAME)
        assert (diagnosis.servable, diagnosis.name) == (True, NAME)
        assert diagnosis.weights is not None
        assert diagnosis.weights.files == tuple(f"talker-0000{number}-of-00002.safetensors" for number in (1, 2))
        assert diagnosis.download is not None
        weights = sum(size for name, size in diagnosis.files.read.items() if name.endswith(".safetensors"))
        assert hub.sent < weights / 2
        assert weights <= diagnosis.download.size - diagnosis.download.here < diagnosis.download.room
        local = diagnosed(folder)
        assert (diagnosis.weights, diagnosis.speech_tokenizer, diagnosis.served, diagnosis.memory.rows) == (
            *(local.weights, local.speech_tokenizer, local.served),
            local.memory.rows,
        )


def test_hub_checkpoints_and_folders_report_the_same_problems(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / WEIGHTS, without_a_weight)
    (folder / "vocab.json").unlink()
    (folder / SOUND).write_bytes(b"\xff" * 5000)
    with asked_here(Hub({NAME: folder}), tmp_path / "here") as hub:
        diagnosis = diagnosed(NAME)
        assert codes(diagnosis) == ["checkpoint_missing", "checkpoint_invalid", "checkpoint_invalid"]
        assert diagnosis.files.missing == ("vocab.json",)
        with pytest.raises(CheckpointMissing):
            diagnosed("nobody/nothing")
        hub.status = 503
        with pytest.raises(HubUnreachable):
            diagnosed(NAME)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_doctor_command_prints_the_report_and_sets_the_exit_status(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    command = ["doctor", str(folder), "--device", "cpu", *words]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert (json.loads(said)["servable"] is True) if words else ("can be served" in said.splitlines()[0])
    (folder / "merges.txt").unlink()
    assert main(command) == 2
    said = capsys.readouterr().out
    if words:
        assert [problem["code"] for problem in json.loads(said)["problems"]] == ["checkpoint_missing"]
    else:
        assert "cannot be served" in said.splitlines()[0]
        assert "merges.txt is missing" in said.splitlines()[1]
        assert "[checkpoint_missing]" in said.splitlines()[1]


def test_messages_about_broken_weights_contain_the_cause(folder: Path) -> None:
    rewrite(folder / WEIGHTS, with_nan)
    (folder / SOUND).write_text(LFS_POINTER)
    pointer, nan = (problem.message for problem in diagnosed(folder).problems)
    assert "numbers that are not finite are in talker.codec_head.weight" in nan
    assert "git lfs pull" in pointer


def test_folder_of_several_checkpoints_is_reported_before_loading(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.rename(folder.parent / "checkpoint-epoch-3")
    assert main(["say", "Hello.", "--model", str(folder.parent)]) == 2
    assert "such as checkpoint-epoch-3." in capsys.readouterr().err


def test_adapter_is_reported_as_not_applied(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "adapter_model.safetensors").write_bytes(b"")
    load_checkpoint(str(folder), torch.device("cpu"), torch.float32)
    assert "adapter_model.safetensors is not applied to tuned" in caplog.text
    assert main(["doctor", str(folder), "--device", "cpu"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "not applied" in line]
    assert "adapter_model.safetensors" in line


def test_single_file_is_refused_in_json_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "qwen3-tts-Q4_K.gguf"
    file.write_bytes(b"GGUF")
    assert main(["doctor", str(file), "--device", "cpu", "--json"]) == 2
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["servable"] is False
    assert [problem["code"] for problem in diagnosis["problems"]] == ["checkpoint_missing"]


def test_missing_path_is_reported_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / "nothing"), "--device", "cpu"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_memory_mapped_embedding_table_is_not_counted_as_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def float32() -> int:
        (row,) = [row for row in diagnosed(folder).memory.rows if row.dtype == "float32"]
        return row.once

    table = load_file(folder / WEIGHTS)["talker.model.text_embedding.weight"]
    before = float32()
    monkeypatch.setattr("runtime.model.checkpoints.weights.MIN_MAPPED_BYTES", table.nbytes)
    lying = sum(
        4 * module.weight.numel()
        for module in inspect_folder(folder).networks[TALKER].modules()
        if isinstance(module, MappedEmbedding) and module.weight.numel() * table.element_size() >= table.nbytes
    )
    assert before - float32() == lying >= 4 * table.numel()


def checked(*folders: Path) -> CheckResult:
    return check_checkpoints(Settings(models=tuple(map(str, folders))))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def test_check_option_passes_without_reading_any_weights(folder_of: FolderOf) -> None:
    base, custom = (folder_of("brief", mode) for mode in ("base", "custom_voice"))
    diagnosis = checked(base, custom)
    assert diagnosis.modes == ("base", "custom_voice")
    assert diagnosis.fits_alongside
    assert diagnosis.need > checked(base).need > 2 * (base / WEIGHTS).stat().st_size


def test_two_checkpoints_for_one_mode_are_refused(folder_of: FolderOf) -> None:
    with pytest.raises(InvalidSetting):
        checked(folder_of("brief", "base"), folder_of("tiny", "base"))


def test_checkpoint_over_total_or_free_memory_is_refused(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of("brief", "base")
    need = checked(folder).need
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (2 * need, need - 1))
    assert not checked(folder).fits_alongside
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (memory.PROCESS_BYTES, memory.PROCESS_BYTES))
    with pytest.raises(CheckpointTooLarge, match="GiB"):
        checked(folder)


def test_doctor_command_with_json_output_loads_no_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runtime", "--check", "--model", str(folder), "--device", "cpu"]) == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert (diagnosis["names"], diagnosis["modes"], diagnosis["fits_alongside"]) == (["tuned"], ["custom_voice"], True)
    cut(folder / WEIGHTS)
    assert main(["runtime", "--check", "--model", str(folder), "--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "[checkpoint_invalid]" in said.err
