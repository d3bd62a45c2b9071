"""Tests for checkpoint loading: strict keys and shapes, and only safetensors files.

Checkpoints with equal speech tokenizers share one copy in memory.
"""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file

from runtime.engine.loading.registry import RegistryEntry
from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointUnsupported, SetUpError
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint, resolve_folder
from tests.conftest import FolderOf, Loaded
from tests.support.changed_checkpoint import Tensors, rewrite, rewrite_config, shard
from tests.support.engines import custom_voice, engine_of, speak

CPU = torch.device("cpu")
WEIGHTS = ("model.safetensors", "speech_tokenizer/model.safetensors")
FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "speech_tokenizer/config.json",
    *WEIGHTS,
)


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return the folder with a copy of a checkpoint that a test may damage."""
    return shutil.copytree(folder_of("tiny", "custom_voice"), tmp_path / "damaged")


def load(folder: Path | str, dtype: torch.dtype = torch.float32) -> Checkpoint:
    return load_checkpoint(str(folder), CPU, dtype)


def test_loaded_weights_do_not_change_with_their_files(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of("tiny", "base"), tmp_path / "changed")
    checkpoint = load(folder)
    networks = checkpoint.talker, checkpoint.speech_tokenizer.code2wav, checkpoint.speech_tokenizer.encoder
    before = [weight.clone() for network in networks for weight in network.state_dict().values()]
    for path in folder.rglob("*.safetensors"):
        # Overwrite the file in place. Weights that were mapped to the file would change.
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(bytes(path.stat().st_size // 2))
    after = (weight for network in networks for weight in network.state_dict().values())
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize("name", FILES)
def test_missing_file_error_contains_its_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointMissing) as caught:
        load(folder)
    assert Path(name).name in str(caught.value)
    assert str((folder / name).parent) in str(caught.value)


@pytest.mark.parametrize(
    ("file", "key"),
    [
        (WEIGHTS[0], "talker.codec_head.weight"),
        (WEIGHTS[0], "talker.model.layers.1.self_attn.k_proj.weight"),
        (WEIGHTS[0], "talker.code_predictor.lm_head.14.weight"),
        (WEIGHTS[1], "decoder.pre_conv.conv.bias"),
        (WEIGHTS[1], "encoder.downsample.conv.weight"),
    ],
)
def test_tensor_key_errors_list_the_keys(folder: Path, file: str, key: str) -> None:
    def change(tensors: Tensors) -> None:
        tensors["talker.surprise"] = torch.zeros(1)
        tensors[key + "_renamed"] = tensors.pop(key)
        other = next(name for name in tensors if name.endswith("norm.weight"))
        tensors[other] = torch.zeros(3, 2)

    rewrite(folder / file, change)
    with pytest.raises(CheckpointInvalid) as caught:
        load(folder)
    sentence = str(caught.value)
    assert f"missing {key}" in sentence
    assert "unexpected" in sentence
    assert "talker.surprise" in sentence
    assert "[3, 2] instead of [" in sentence


def test_long_list_of_key_errors_is_shortened_to_a_count(folder: Path) -> None:
    rewrite(folder / WEIGHTS[0], lambda tensors: [tensors.pop(key) for key in list(tensors)[:40]])
    with pytest.raises(CheckpointInvalid, match="and 35 more") as caught:
        load(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("file", WEIGHTS)
@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "pickle"])
def test_damaged_weights_are_reported(folder: Path, file: str, damage: str) -> None:
    path = folder / file
    whole = path.read_bytes()
    content = {
        "cut": whole[: len(whole) // 2],
        "noise": bytes(range(256)) * 40,
        "empty": b"",
        "pickle": pickle.dumps({"talker.codec_head.weight": [0.0]}),
    }[damage]
    path.write_bytes(content)
    with pytest.raises(CheckpointInvalid, match="not a readable safetensors file"):
        load(folder)


def test_pickle_files_are_never_read(folder: Path) -> None:
    """The weights are missing, and the folder contains a pickled checkpoint instead.

    Loading the pickled checkpoint would run code.
    """
    (folder / WEIGHTS[0]).unlink()
    trap = folder / "opened"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (trap,))

    for name in ("pytorch_model.bin", "model.pt", "model.bin", "speech_tokenizer/pytorch_model.bin"):
        (folder / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointUnsupported, match=r"safetensors files only, and model.bin is a pickle"):
        load(folder)
    assert not trap.exists()


def test_sharded_weights_equal_a_single_file(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of("tiny", "base"), tmp_path / "sharded")
    whole = load(folder)
    shard(folder, 3)
    shard(folder / "speech_tokenizer", 2)
    apart = load(folder)
    for one, other in ((whole.talker, apart.talker), *zip(speech_networks(whole), speech_networks(apart), strict=True)):
        for (name, wanted), (_, read) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
            assert torch.equal(wanted, read), name
    assert apart.fingerprint not in ("", whole.fingerprint)
    shared = load_checkpoint(str(folder), CPU, torch.float32, [apart])
    assert shared.speech_tokenizer is apart.speech_tokenizer


def speech_networks(checkpoint: Checkpoint) -> tuple[torch.nn.Module, torch.nn.Module]:
    return checkpoint.speech_tokenizer.code2wav, checkpoint.speech_tokenizer.encoder


def index_of(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    shard(folder, 2)
    path = folder / "model.safetensors.index.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda index: index.pop("weight_map"), CheckpointInvalid, "weight_map is not an object"),
        (lambda index: index["weight_map"].update(x="../model.safetensors"), CheckpointInvalid, "in its folder"),
        (lambda index: index["weight_map"].update(x="pytorch_model.bin"), CheckpointInvalid, "not a safetensors file"),
        (lambda index: index["weight_map"].update(x=5), CheckpointInvalid, "not a safetensors file"),
        (lambda index: index["weight_map"].update(x="more.safetensors"), CheckpointMissing, "more.safetensors"),
    ],
)
def test_invalid_shard_index_is_reported(
    folder: Path, change: Callable[[dict[str, Any]], object], error: type[SetUpError], words: str
) -> None:
    index_of(folder, change)
    for read in (load, lambda where: RegistryEntry.read(str(where))):
        with pytest.raises(error, match=words):
            read(folder)


def test_tensor_in_two_shards_is_refused(folder: Path) -> None:
    shard(folder, 2)
    first, second = sorted(folder.glob("model-*.safetensors"))
    rewrite(second, lambda tensors: tensors.update(list(load_file(first).items())[:1]))
    with pytest.raises(CheckpointInvalid, match="the same tensor"):
        load(folder)


@pytest.mark.parametrize("file", WEIGHTS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.bool])
def test_foreign_quantized_weights_are_refused(folder: Path, file: str, dtype: torch.dtype) -> None:
    def quantise(tensors: Tensors) -> None:
        key = sorted(key for key in tensors if key.endswith("v_proj.weight"))[0]
        tensors[key] = tensors[key].to(dtype)

    rewrite(folder / file, quantise)
    with pytest.raises(
        CheckpointUnsupported, match=r"not floating point: \S+v_proj.weight \(.*quantized weights are not supported"
    ):
        load(folder)


@pytest.mark.parametrize("name", WEIGHTS)
def test_missing_weights_are_reported_before_loading(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointMissing, match=r"model\.safetensors is missing"):
        RegistryEntry.read(str(folder))


def test_defaulted_and_unknown_configuration_fields_are_logged_in_one_line(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def change(content: dict[str, Any]) -> None:
        del content["talker_config"]["hidden_act"]
        content["talker_config"]["frobnicate"] = 3

    rewrite_config(folder, change)
    with caplog.at_level("INFO"):
        load(folder)
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("configuration of")]
    assert "defaults are used for talker_config.hidden_act" in line
    assert "unknown and ignored: talker_config.frobnicate" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", "not json"),
        ("vocab.json", '{"a": 0}'),
        ("vocab.json", '{"a": [0]}'),
        ("vocab.json", '{"a": "0"}'),
        ("merges.txt", "#version: 0.2\nnot a b c\n"),
        ("merges.txt", "#version: 0.2\nzz yy\n"),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {"content": "<a>"}}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"0": {"content": "<|im_start|>"}}}'),
        ("tokenizer_config.json", "{}"),
    ],
)
def test_damaged_text_tokenizer_is_reported(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointInvalid) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


def test_speech_tokenizer_with_another_codebook_count_is_refused(folder_of: FolderOf, folder: Path) -> None:
    shutil.rmtree(folder / "speech_tokenizer")
    shutil.copytree(folder_of("odd", "custom_voice") / "speech_tokenizer", folder / "speech_tokenizer")
    with pytest.raises(CheckpointInvalid, match="num_quantizers and encoder_valid_num_quantizers disagree"):
        load(folder)


def test_codes_outside_the_speech_tokenizer_are_refused(folder: Path) -> None:
    """On a GPU, a read outside of a codebook's table would crash the process."""

    def widen(tensors: Tensors) -> None:
        for key in ("talker.codec_head.weight", "talker.model.codec_embedding.weight"):
            tensors[key] = torch.cat((tensors[key], tensors[key][:1]))

    rewrite(folder / WEIGHTS[0], widen)
    rewrite_config(folder, lambda content: content["talker_config"].update(vocab_size=1089))
    with pytest.raises(CheckpointInvalid, match="more codes than the speech tokenizer"):
        load(folder)


def test_text_embedding_smaller_than_the_tokenizer_is_refused(folder: Path) -> None:
    rows = 475
    ids = {"im_start_token_id": 472, "tts_pad_token_id": 474, "tts_bos_token_id": 474, "tts_eos_token_id": 474}
    rewrite_config(folder, lambda content: content.update(ids))
    rewrite_config(folder, lambda content: content["talker_config"].update(text_vocab_size=rows))
    key = "talker.model.text_embedding.weight"
    rewrite(folder / WEIGHTS[0], lambda tensors: tensors.update({key: tensors[key][:rows].clone()}))
    with pytest.raises(CheckpointInvalid, match="more ids than"):
        load(folder)


def test_encoder_with_another_frame_rate_is_refused(folder: Path) -> None:
    path = folder / "speech_tokenizer" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"encode_downsample_rate": 960}))
    with pytest.raises(CheckpointInvalid, match="downsample"):
        load(folder)


def test_speech_tokenizer_with_another_sample_rate_is_refused(folder: Path) -> None:
    path = folder / "speech_tokenizer" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"output_sample_rate": 16_000}))
    with pytest.raises(CheckpointInvalid, match="24000 Hz"):
        load(folder)


def test_bfloat16_applies_to_talker_and_code_predictor_only(folder: Path, folder_of: FolderOf) -> None:
    checkpoint = load(folder, torch.bfloat16)
    assert {weight.dtype for weight in checkpoint.talker.parameters()} == {torch.bfloat16}
    tokenizer = checkpoint.speech_tokenizer
    for network in (tokenizer.code2wav, tokenizer.encoder):
        assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    recorder = speak(engine_of(checkpoint), custom_voice(max_frames=6))
    assert recorder.codes.shape == (6, 16)
    assert recorder.pcm.any()
    base = load(folder_of("tiny", "base"), torch.bfloat16)
    assert base.speaker_encoder is not None
    assert base.speaker_encoder.fc.weight.dtype is torch.float32


def test_loaded_weights_are_bitwise_equal_and_frozen(folder: Path) -> None:
    talker, stored = load(folder).talker, load_file(folder / WEIGHTS[0])
    layer = talker.model.layers[1].self_attn
    names = ("q_proj", "k_proj", "v_proj")
    rows = torch.cat([stored[f"talker.model.layers.1.self_attn.{name}.weight"] for name in names])
    assert torch.equal(layer.qkv_proj.weight, rows)
    assert torch.equal(talker.codec_head.weight, stored["talker.codec_head.weight"])
    assert not any(weight.requires_grad for weight in talker.parameters())
    assert not talker.training


@pytest.mark.slow
def test_loading_avoids_slow_torch_imports(folder: Path) -> None:
    question = """
import sys
import torch
from runtime.model.checkpoints.checkpoint import load_checkpoint
load_checkpoint(sys.argv[1], torch.device("cpu"), torch.bfloat16)
print(sorted({"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules)))
"""
    assert subprocess.check_output([sys.executable, "-c", question, folder], text=True).strip() == "[]"


def test_checkpoints_with_equal_files_share_a_speech_tokenizer(loaded: Loaded, folder_of: FolderOf) -> None:
    first = loaded("tiny", "custom_voice")
    second = load_checkpoint(str(folder_of("tiny", "base")), CPU, torch.float32, [first])
    other = load_checkpoint(str(folder_of("tiny", "base", 2)), CPU, torch.float32, [first])
    assert second.speech_tokenizer is first.speech_tokenizer
    assert other.speech_tokenizer is not first.speech_tokenizer


def test_speech_encoder_is_loaded_with_the_first_speaker_encoder(folder: Path, folder_of: FolderOf) -> None:
    first, base = load(folder), folder_of("tiny", "base")
    assert not first.speech_tokenizer.encoder.is_loaded
    second = load_checkpoint(str(base), CPU, torch.float32, [first])
    assert second.speech_tokenizer is first.speech_tokenizer
    alone = load(base).speech_tokenizer.encoder.state_dict()
    for name, weight in first.speech_tokenizer.encoder.state_dict().items():
        assert torch.equal(weight, alone[name]), name


def test_folder_is_named_by_its_last_component(folder: Path) -> None:
    assert load(folder).name == "damaged"


@pytest.mark.parametrize("reference", ["/no/such/folder", "./nothing", "~/nothing", "name", "a/b/c", ""])
def test_invalid_hub_id_is_not_requested_from_the_hub(monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    def ask(*_: object, **__: object) -> str:
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", ask)
    with pytest.raises(CheckpointMissing):
        resolve_folder(reference)
