"""Tests for fine-tuned checkpoints: values are equal to those of the official package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.checkpoints.weights import is_exact
from runtime.model.text.text_tokenizer import TextTokenizer
from tests.conftest import FolderOf
from tests.support.changed_checkpoint import Tensors, rewrite, rewrite_config
from tests.support.engines import custom_voice, engine_of, speak

WEIGHTS, SOUND = "model.safetensors", "speech_tokenizer/model.safetensors"
TEXT = "McDonald's iPhone 12, 你好"


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return the folder with a copy of a Base checkpoint for fine-tuning."""
    return Path(shutil.copytree(folder_of("brief", "base"), tmp_path / "tuned"))


def load(folder: Path) -> Checkpoint:
    return load_checkpoint(str(folder), torch.device("cpu"), torch.float32)


def make_custom_voice(folder: Path, speakers: dict[str, int]) -> None:
    """Convert a Base checkpoint in the same way as the official fine-tuning script.

    The result has speakers but no speaker encoder.
    """

    def change(content: dict[str, Any]) -> None:
        content["tts_model_type"] = "custom_voice"
        content["talker_config"]["spk_id"] = speakers
        content["talker_config"]["spk_is_dialect"] = dict.fromkeys(speakers, False)

    rewrite_config(folder, change)
    kept = {key: part for key, part in load_file(folder / WEIGHTS).items() if not key.startswith("speaker_encoder")}
    save_file(kept, folder / WEIGHTS)  # The file lacks the metadata that transformers writes.


@pytest.mark.parametrize("speakers", [{"speaker_test": 1000}, {"Alice": 900, "bob": 901, "speaker 3": 902}], ids=len)
def test_output_of_the_official_fine_tuning_script_speaks(folder: Path, speakers: dict[str, int]) -> None:
    make_custom_voice(folder, speakers)
    checkpoint = load(folder)
    assert checkpoint.speaker_encoder is None
    takes = {speak(engine_of(checkpoint), custom_voice(voice=name, max_frames=8)).codes.tobytes() for name in speakers}
    assert len(takes) == len(speakers)


def test_unneeded_tensors_are_ignored_and_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Some scripts keep the speaker encoder in a CustomVoice checkpoint."""
    encoder = {key: part for key, part in load_file(folder / WEIGHTS).items() if key.startswith("speaker_encoder")}
    make_custom_voice(folder, {"zoe": 1000})
    count = {"talker.model.steps": torch.tensor([7])}
    rewrite(folder / WEIGHTS, lambda tensors: tensors.update(encoder | count))
    with caplog.at_level("INFO"):
        load(folder)
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("configuration of")]
    assert "unused tensors: speaker_encoder." in line
    assert f"and {len(encoder) + 1 - 5} more" in line


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_in_other_float_types_are_converted(folder: Path, dtype: torch.dtype) -> None:
    """Embedding tables are converted by each lookup, if the conversion is exact."""
    whole = load(folder)

    def convert(tensors: Tensors) -> None:
        tensors.update({key: part.to(dtype) for key, part in tensors.items()})

    for name in (WEIGHTS, SOUND):
        rewrite(folder / name, convert)
    converted = load(folder)
    for one, other in (
        (whole.talker, converted.talker),
        (whole.speech_tokenizer.encoder, converted.speech_tokenizer.encoder),
    ):
        for (name, wanted), got in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
            is_table = "text_embedding." in name or "codec_embedding." in name
            assert got.dtype is (dtype if is_table and is_exact(dtype, torch.float32) else torch.float32), name
            assert torch.equal(got.float(), wanted.to(dtype).float()), name


def tokenizer_of(folder: Path) -> TextTokenizer:
    return TextTokenizer(folder, read_model_config(folder))


def added_tokens(folder: Path, added: dict[str, Any]) -> None:
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text())
    content["added_tokens_decoder"] |= {index: {"content": token} for token, index in added.items()}
    path.write_text(json.dumps(content))


def test_added_tokens_may_have_any_ids(folder: Path) -> None:
    before = tokenizer_of(folder)
    added_tokens(folder, {"<laugh>": before.ids + 20, "<sigh>": before.ids + 3})
    after = tokenizer_of(folder)
    assert after.encode("<sigh>a<laugh>") == [before.ids + 3, *after.encode("a"), before.ids + 20]
    assert after.ids == before.ids + 21
    assert (after.encode_text(TEXT), after.encode_instruct(TEXT)) == (
        before.encode_text(TEXT),
        before.encode_instruct(TEXT),
    )
    assert after.reserved_in("a <laugh>")


def test_gap_before_the_control_tokens_shifts_their_ids(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text())
    listed = content["added_tokens_decoder"]
    content["added_tokens_decoder"] = {str(int(index) + 7): token for index, token in listed.items()}
    path.write_text(json.dumps(content))
    rewrite_config(folder, lambda config: config.update(im_start_token_id=config["im_start_token_id"] + 7))
    tokenizer = tokenizer_of(folder)
    assert tokenizer.encode("<|im_start|>") == [read_model_config(folder).im_start_token_id]


@pytest.mark.parametrize("merges", [str, list])
@pytest.mark.parametrize("has_config", [True, False])
def test_tokenizer_in_a_single_file_equals_the_tokenizer_in_three_files(
    folder: Path, merges: type, has_config: bool
) -> None:
    before = tokenizer_of(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    lines = [line for line in (folder / "merges.txt").read_text().split("\n")[1:] if line]
    content = {
        "added_tokens": [
            {"id": int(index), **token, "special": False} for index, token in config["added_tokens_decoder"].items()
        ],
        "pre_tokenizer": {"type": "Whitespace"},  # Some loaders write the pre-tokenizer of another model.
        "model": {
            "type": "BPE",
            "vocab": json.loads((folder / "vocab.json").read_text()),
            "merges": lines if merges is str else [line.split(" ") for line in lines],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    for name in ("vocab.json", "merges.txt", *(() if has_config else ("tokenizer_config.json",))):
        (folder / name).unlink()
    if has_config:  # Version 5 of transformers writes this file.
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    after = tokenizer_of(folder)
    assert (after.encode_text(TEXT), after.encode_instruct(TEXT), after.ids) == (
        before.encode_text(TEXT),
        before.encode_instruct(TEXT),
        before.ids,
    )
    assert set(after.reserved) == set(before.reserved)


def test_added_tokens_are_read_from_the_older_file_added_tokens_json(folder: Path) -> None:
    before = tokenizer_of(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    older = {token["content"]: int(index) for index, token in config["added_tokens_decoder"].items()}
    (folder / "added_tokens.json").write_text(json.dumps(older))
    (folder / "tokenizer_config.json").unlink()
    assert tokenizer_of(folder).encode_instruct(TEXT) == before.encode_instruct(TEXT)
