"""Tests for the selection of a checkpoint's files by name, in folders and on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.errors import CheckpointMissing, CheckpointUnsupported
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import (
    CONFIG,
    CheckpointSource,
    FileChoice,
    choose_files,
    list_files,
    unapplied_adapters,
)

ROOT = ("config.json", "generation_config.json", "vocab.json", "merges.txt", "tokenizer_config.json")
SPEECH = ("speech_tokenizer/config.json", "speech_tokenizer/model.safetensors")
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def chosen(*names: str, **shards: str) -> FileChoice:
    def index_of(name: str) -> dict[str, Any]:
        assert name == INDEX
        return {"weight_map": shards}

    return choose_files("here", names, index_of)


def test_only_files_needed_by_the_runtime_are_selected() -> None:
    others = (
        *("README.md", "tokenizer.json", "special_tokens_map.json", "chat_template.jinja", "model.fp16.safetensors"),
        *("pytorch_model.bin", "model-old.safetensors", "checkpoint-500/", "speech_tokenizer/configuration.json"),
    )
    choice = chosen(*others, *ROOT, WHOLE, *SPEECH)
    assert sorted(choice.read) == sorted((*ROOT, WHOLE, *SPEECH))
    assert (sorted(choice.ignored), choice.missing) == (sorted(others), ())


def test_weight_shards_are_those_named_by_the_index() -> None:
    named = {"a": "talker-1.safetensors", "b": "talker-2.safetensors", "c": "talker-1.safetensors"}
    choice = chosen(
        *ROOT, INDEX, "talker-1.safetensors", "talker-2.safetensors", "model-3.safetensors", *SPEECH, **named
    )
    assert {INDEX, "talker-1.safetensors", "talker-2.safetensors"} <= set(choice.read)
    assert choice.ignored == ("model-3.safetensors",)
    choice = chosen(*ROOT, INDEX, "talker-1.safetensors", *SPEECH, **named)
    assert choice.missing == ("talker-2.safetensors",)
    assert [str(problem) for problem in choice.problems] == [
        f"here: talker-2.safetensors is missing. {INDEX} names it."
    ]


@pytest.mark.parametrize("name", [*ROOT, WHOLE, *SPEECH])
def test_missing_file_error_contains_the_relative_path(name: str) -> None:
    choice = chosen(*({*ROOT, WHOLE, *SPEECH} - {name}))
    assert choice.missing == (name,)
    (problem,) = choice.problems
    assert isinstance(problem, CheckpointMissing)
    assert name.rpartition("/")[2] in str(problem)


@pytest.mark.parametrize("gone", [("vocab.json",), ("vocab.json", "merges.txt", "tokenizer_config.json")])
def test_single_file_tokenizer_is_used_if_there_is_no_vocabulary_file(gone: tuple[str, ...]) -> None:
    choice = chosen(*(set(ROOT) - set(gone)), "tokenizer.json", WHOLE, *SPEECH)
    assert "tokenizer.json" in choice.read
    assert choice.missing == ()


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("diffusion_model.safetensors",), "Rename diffusion_model.safetensors to it"),
        (("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"), f"if {INDEX} names them"),
        ((), "in one format only"),
    ],
    ids=["renamed", "shards without an index", "no weights"],
)
def test_missing_weights_error_suggests_the_existing_files(names: tuple[str, ...], hint: str) -> None:
    (problem,) = chosen(*ROOT, *names, *SPEECH).problems
    assert isinstance(problem, CheckpointMissing)
    assert "model.safetensors is missing" in str(problem)
    assert hint in str(problem)


@pytest.mark.parametrize(
    "names",
    [
        ("checkpoint-epoch-0/", "checkpoint-epoch-1/", "README.md"),  # Names in a local folder.
        ("checkpoint-epoch-0/config.json", "checkpoint-epoch-1/config.json"),  # Names in a repository on the Hub.
    ],
)
def test_error_for_a_parent_folder_of_checkpoints_suggests_one_checkpoint(names: tuple[str, ...]) -> None:
    assert "Give one of the checkpoints in it, such as checkpoint-epoch-1." in str(chosen(*names).problems[0])


def test_error_for_a_repository_in_the_hub_cache_suggests_its_snapshot(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "5ecdb672").mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    hint = "Give one of the checkpoints in it, such as snapshots/5ecdb672."
    assert hint in str(chosen(*list_files(tmp_path)).problems[0])
    with pytest.raises(CheckpointMissing, match=hint):
        read_json(tmp_path / CONFIG)


def test_adapter_without_a_configuration_is_reported_and_not_applied(tmp_path: Path) -> None:
    for name in (WHOLE, "adapter_model.safetensors", "adapter_old.safetensors"):
        (tmp_path / name).touch()
    assert unapplied_adapters(CheckpointSource(tmp_path)) == ["adapter_model.safetensors", "adapter_old.safetensors"]
    assert unapplied_adapters(CheckpointSource(tmp_path, (tmp_path,))) == ["adapter_old.safetensors"]


@pytest.mark.parametrize(
    "name", ["pytorch_lora_weights.safetensors", "My-LoRA.safetensors", "adapter/adapter_model.safetensors"]
)
def test_adapter_with_another_name_or_in_a_subfolder_is_reported(tmp_path: Path, name: str) -> None:
    for file in (WHOLE, "speech_tokenizer/model.safetensors", "checkpoint-epoch-1/model.safetensors", name):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert unapplied_adapters(CheckpointSource(tmp_path)) == [name]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("pytorch_model.bin", "pickle"),
        ("pytorch_model-00001-of-00002.bin", "pickle"),
        ("model.pth", "pickle"),
        ("adapter_model.safetensors", "adapter"),
        ("qwen3-tts-Q4_K.gguf", "llama.cpp"),
        ("talker.onnx", "ONNX"),
    ],
)
def test_weights_in_an_unsupported_format_are_reported(name: str, word: str) -> None:
    (problem,) = chosen(*ROOT, name, *SPEECH).problems
    assert isinstance(problem, CheckpointUnsupported)
    assert name in str(problem)
    assert word in str(problem)
