"""Tests for adapters that share the weights of one base checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn

from runtime.device.quantized import Quantization
from runtime.engine.capacity.doctor import check_checkpoints, diagnose
from runtime.engine.loading.registry import Registry
from runtime.errors import CheckpointInvalid, InvalidSetting
from runtime.model.checkpoints import composition
from runtime.model.checkpoints.adapters import TABLE, Adapter, read_adapter
from runtime.model.checkpoints.checkpoint import Checkpoint, find_source, fingerprint, load_checkpoint
from runtime.model.checkpoints.composition import combine_adapters, compose_config
from runtime.model.checkpoints.files import CheckpointSource
from runtime.model.checkpoints.quantize import quantize
from runtime.model.checkpoints.weights import open_weight_files
from runtime.request import Mode, ModelCard, Sampling
from runtime.settings import EngineSettings, Limits, Settings
from tests.conftest import FolderOf
from tests.support.engines import cloned, custom_voice, engine_of, speak, speak_together

ROWS = "base_model.model.model.codec_embedding.token_adapter.trainable_tokens_delta"
LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
# Codes of the checkpoint "brief": a code without a meaning, the last code of audio, and EOS.
ROW, LAST_CODE, EOS = 1000, 63, 166
CPU = EngineSettings(device="cpu", dtype="float32", max_slots=2, max_model_len=256)
DRAWN = Sampling(temperature=1.0, top_k=8)


@pytest.fixture
def base(folder_of: FolderOf, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "base"))


@pytest.fixture
def cloner(folder_of: FolderOf, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("brief", "base"), tmp_path / "cloner"))


def write_adapter(base: Path, name: str, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    folder = base.parent / name
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    plain = {"peft_type": "LORA", "base_model_name_or_path": str(base), "lora_alpha": 8}
    (folder / "adapter_config.json").write_text(json.dumps(plain | config))
    return folder


def tuned(
    base: Path, name: str, rows: Sequence[int] = (ROW,), speakers: dict[str, int] | None = None, **config: Any
) -> Path:
    """Write a LoRA adapter with new rows of the table codec_embedding, and optional speakers."""
    width = load_file(base / "model.safetensors")[TABLE].shape[1]
    values = torch.randn(len(rows), width, generator=torch.Generator().manual_seed(sum(name.encode())))
    folder = write_adapter(base, name, {ROWS: values}, trainable_token_indices={"codec_embedding": list(rows)})
    if speakers is not None:
        talker = {"spk_id": speakers, "spk_is_dialect": config.pop("dialects", {})}
        (folder / "config.json").write_text(json.dumps({"tts_model_type": "custom_voice", "talker_config": talker}))
    return folder


def shared(*folders: Path) -> CheckpointSource:
    return reduce(combine_adapters, (find_source(str(folder)) for folder in folders))


def loaded(source: Path | CheckpointSource, **kwargs: Any) -> Checkpoint:
    reference = source if isinstance(source, CheckpointSource) else str(source)
    return load_checkpoint(reference, torch.device("cpu"), torch.float32, **kwargs)


def codes_of(checkpoint: Checkpoint, voice: str) -> NDArray[np.int64]:
    return speak(engine_of(checkpoint), custom_voice(voice=voice, sampling=DRAWN)).codes


def table_of(source: CheckpointSource) -> torch.Tensor:
    with open_weight_files(source.weights, compose_config(source).rows) as files:
        table: torch.Tensor = files[TABLE].get_tensor(TABLE)
    return table.float()


def card_of(*folders: Path) -> ModelCard:
    (card,) = Registry.read(tuple(map(str, folders))).cards("cpu", Limits())
    return card


@pytest.mark.parametrize("kind", [None, Quantization.INT8], ids=str)
def test_speakers_of_combined_adapters_speak_as_with_one_adapter(base: Path, kind: Quantization | None) -> None:
    folders = {
        "alice": tuned(base, "alice-lora", speakers={"alice": ROW}),
        "bob": tuned(base, "bob-lora", speakers={"bob": ROW}),
        "carol": tuned(base, "carol"),
    }
    alone = {name: codes_of(loaded(folder, quantization=kind), name) for name, folder in folders.items()}
    alone["serena"] = codes_of(loaded(base, quantization=kind), "serena")
    assert len({codes.tobytes() for codes in alone.values()}) == 4

    together = loaded(shared(base, *folders.values()), quantization=kind)
    assert together.name == "base"
    assert {*alone} < {*together.config.talker.spk_id}
    requests = [custom_voice(voice=name, sampling=DRAWN) for name in alone]
    for name, recorder in zip(alone, speak_together(engine_of(together), *requests), strict=True):
        assert np.array_equal(recorder.codes, alone[name]), name
        assert np.array_equal(codes_of(together, name), alone[name]), name


def test_speaker_keeps_its_embedding_row_if_the_row_is_free(base: Path) -> None:
    sources = [find_source(str(tuned(base, name, speakers={name: row}))) for name, row in (("a", ROW), ("b", ROW + 1))]
    talker = compose_config(combine_adapters(*sources)).config.talker
    assert talker.spk_id == {"a": ROW, "b": ROW + 1}


def test_retrained_base_speaker_is_served_in_addition_to_the_original_speaker(base: Path) -> None:
    taken = compose_config(find_source(str(base))).config.talker.spk_id["serena"]
    folder = tuned(base, "mine", [taken], {"mine": taken})
    alone, together = codes_of(loaded(folder), "mine"), loaded(shared(base, folder))
    assert np.array_equal(codes_of(together, "mine"), alone)
    assert np.array_equal(codes_of(together, "serena"), codes_of(loaded(base), "serena"))
    assert not np.array_equal(alone, codes_of(together, "serena"))


def test_unnamed_speaker_row_is_named_after_the_checkpoint_folder(base: Path) -> None:
    for rows, names in (([ROW], ["mine"]), ([ROW, ROW + 1], [f"mine-{ROW}", f"mine-{ROW + 1}"])):
        config = compose_config(find_source(str(tuned(base, "mine", rows)))).config
        assert [name for name in config.talker.spk_id if name.startswith("mine")] == names
    retrained = compose_config(find_source(str(tuned(base, "mine", [1080])))).config
    assert retrained.talker.spk_id == compose_config(find_source(str(base))).config.talker.spk_id


def test_adapter_of_a_cloning_checkpoint_adds_speakers_to_the_checkpoint(cloner: Path) -> None:
    folders = [tuned(cloner, name, speakers=speakers) for name, speakers in (("a", {"a": ROW}), ("b", None))]
    assert [compose_config(find_source(str(folder))).config.modes for folder in folders] == [
        (Mode.CUSTOM_VOICE,),
        (Mode.BASE, Mode.CUSTOM_VOICE),
    ]
    together = loaded(shared(folders[0], cloner, folders[1]))
    assert {*together.config.modes} == {Mode.CUSTOM_VOICE, Mode.BASE}
    for folder, name in zip(folders, "ab", strict=True):
        assert np.array_equal(codes_of(together, name), codes_of(loaded(folder), name))
    request = cloned(max_frames=6)
    assert np.array_equal(speak(engine_of(together), request).codes, speak(engine_of(loaded(cloner)), request).codes)


def test_speaker_of_an_adapter_keeps_its_dialect(base: Path) -> None:
    folders = [
        tuned(base, "a", speakers={"a": ROW}, dialects={"a": "sichuan_dialect"}),
        tuned(base, "b", speakers={"b": ROW}),
    ]
    assert compose_config(shared(*folders)).config.talker.spk_is_dialect == {"a": "sichuan_dialect"}


def test_registry_has_one_entry_for_adapters_of_one_base(base: Path, cloner: Path) -> None:
    folders = [tuned(base, "a-lora", speakers={"a": ROW}), tuned(base, "b-lora", speakers={"b": ROW})]
    card = card_of(*folders)
    assert (card.name, card.modes, card.speakers) == ("base", (Mode.CUSTOM_VOICE,), ("a", "b"))
    assert card.adapters == {"a-lora": ("a",), "b-lora": ("b",)}
    assert [entry.name for entry in Registry.read((str(cloner), *map(str, folders))).entries] == ["cloner", "base"]
    checked = check_checkpoints(Settings(models=tuple(map(str, folders)), engine=CPU))
    assert (checked.names, checked.modes) == (("base",), (Mode.CUSTOM_VOICE,))
    alone = check_checkpoints(Settings(models=(str(base),), engine=CPU))
    assert checked.need == alone.need


def test_adapters_of_one_name_list_each_speaker_once(base: Path) -> None:
    speakers = compose_config(find_source(str(base))).config.talker.spk_id
    folders = []
    for row, name in enumerate("ab", ROW):
        (base.parent / name).mkdir()
        folders.append(tuned(base, f"{name}/lora", [row], speakers | {name: row}))
    assert card_of(*folders).adapters == {"lora": (*speakers, "a", "b")}


def test_every_adapter_is_read_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tuned(base, name, speakers={name: ROW}) for name in "abcd"]
    read: list[Path] = []

    def counted(files: Any, path: Path, adapter: Any) -> Adapter:
        read.append(path.parent)
        return read_adapter(files, path, adapter)

    monkeypatch.setattr(composition, "read_adapter", counted)
    assert card_of(*folders[:2], base, *folders[2:]).speakers[-4:] == ("a", "b", "c", "d")
    assert read == folders
    read.clear()
    combine_adapters(*map(find_source, map(str, folders)))
    assert read == folders


def test_fingerprint_depends_on_every_adapter_and_its_speakers(base: Path) -> None:
    a, b = (tuned(base, name, speakers={name: ROW}) for name in "ab")
    prints = {fingerprint(shared(*folders)) for folders in ((a, b), (b, a), (base, a))} | {
        fingerprint(find_source(str(a)))
    }
    tuned(base, "b", speakers={"c": ROW})
    prints.add(fingerprint(shared(a, b)))
    tuned(base, "b", [ROW + 1], {"c": ROW + 1})
    prints.add(fingerprint(shared(a, b)))
    assert len(prints) == 6


def test_doctor_command_names_the_adapters_and_their_speakers(base: Path) -> None:
    folders = [tuned(base, "a-lora", speakers={"a": ROW}), tuned(base, "b-lora", speakers={"b": ROW})]
    diagnosis = diagnose(str(folders[0]), CPU, [str(folders[1])])
    assert (diagnosis.servable, diagnosis.name) == (True, "base")
    assert diagnosis.served is not None
    assert diagnosis.served.speakers == ("a", "b")
    assert [(adapter.folder, adapter.speakers) for adapter in diagnosis.adapters] == [
        (str(folder), (name,)) for folder, name in zip(folders, "ab", strict=True)
    ]
    assert {"a-lora/adapter_model.safetensors", "b-lora/config.json"} <= diagnosis.files.read.keys()

    values = load_file(folders[0] / "adapter_model.safetensors")
    values[ROWS][0, 0] = float("nan")
    save_file(values, folders[0] / "adapter_model.safetensors")
    assert "not finite" in str(diagnose(str(folders[0]), CPU, [str(folders[1])]).problems)


def test_quantized_checkpoint_copies_keep_the_speakers_of_the_adapters(base: Path, tmp_path: Path) -> None:
    folder = tuned(base, "alice", speakers={"alice": ROW})
    quantize(str(folder), Quantization.INT8, tmp_path / "int8")
    alone = codes_of(loaded(folder, quantization=Quantization.INT8), "alice")
    assert np.array_equal(codes_of(loaded(tmp_path / "int8"), "alice"), alone)

    quantize(str(base), Quantization.INT8, tmp_path / "base8")
    others = [tuned(tmp_path / "base8", name, speakers={name: ROW}) for name in ("alice", "bob")]
    assert np.array_equal(codes_of(loaded(shared(*others)), "alice"), alone)


def test_embedding_table_with_one_changed_row_adds_a_speaker(base: Path) -> None:
    table = load_file(base / "model.safetensors")[TABLE].clone()
    table[ROW] += 1
    first = write_adapter(base, "first", {"base_model.model.model.codec_embedding.weight": table})
    second = tuned(base, "second")
    talker = compose_config(combine_adapters(find_source(str(first)), find_source(str(second)))).config.talker
    assert torch.equal(table_of(shared(first, second))[talker.spk_id["first"]], table[ROW])


def low_rank(base: Path) -> Path:
    wide, high = load_file(base / "model.safetensors")["talker.model.layers.0.self_attn.q_proj.weight"].shape
    tensors = {f"{LAYER}.lora_A.weight": torch.ones(2, high), f"{LAYER}.lora_B.weight": torch.ones(wide, 2)}
    return write_adapter(base, "other", tensors)


def linked(base: Path) -> Path:
    (base.parent / "link").symlink_to(base.parent / "first")
    return base.parent / "link"


def of_another_base(base: Path) -> Path:
    return tuned(Path(shutil.copytree(base, base.parent / "base2")), "other")


RENAME = "rename one in spk_id of its config.json."


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (low_rank, "other changes more than speakers: talker.model.layers.0.self_attn.q_proj.weight"),
        (of_another_base, "other is of the base checkpoint"),
        (lambda base: tuned(base, "other", [LAST_CODE]), "row 63 of codec_embedding, which is not a speaker's"),
        (lambda base: tuned(base, "other", [ROW, EOS]), "row 166 of codec_embedding, which is not a speaker's"),
        (
            lambda base: tuned(base, "other", speakers={"Alice": ROW}),
            f"both have a speaker Alice; {RENAME}",
        ),
        (
            lambda base: tuned(base, "other", speakers={"alice": 1080}),
            f"both have a speaker alice; {RENAME}",
        ),
        (lambda base: base.parent / "first", "it is named twice; name it once."),
        (linked, "it is named twice; name it once."),
    ],
)
def test_adapters_that_cannot_share_a_checkpoint_are_refused_in_one_sentence(
    base: Path, other: Callable[[Path], Path], words: str
) -> None:
    first = tuned(base, "first", speakers={"alice": ROW})
    with pytest.raises(InvalidSetting) as caught:
        Registry.read((str(first), str(other(base))))
    message = str(caught.value)
    assert words in message
    assert "custom_voice is served by first already, and " in message
    assert message.count("; ") == 1
    assert message.endswith(words if words.endswith(".") else "; a second runtime can serve it.")
    assert ". " not in message
    assert "\n" not in message


def test_adapter_with_layer_weights_is_served_next_to_another_mode(base: Path, cloner: Path) -> None:
    assert len(Registry.read((str(cloner), str(low_rank(base)))).entries) == 2


def test_shared_checkpoint_serves_no_mode_of_another_checkpoint(cloner: Path, folder_of: FolderOf) -> None:
    folder, other = tuned(cloner, "a", speakers={"a": ROW}), str(folder_of("brief", "base"))
    with pytest.raises(InvalidSetting, match="base is served by brief-base-1 already"):
        Registry.read((str(folder), other, str(cloner)))


@pytest.mark.parametrize("row", [5000, -1, "7", None])
def test_speaker_id_outside_the_embedding_table_is_refused_with_its_file(base: Path, row: Any) -> None:
    folder = tuned(base, "mine", speakers={"mine": row})
    with pytest.raises(CheckpointInvalid, match=r"mine/config\.json: "):
        Registry.read((str(folder),))


def test_full_embedding_table_has_no_row_for_another_speaker(base: Path) -> None:
    talker = compose_config(find_source(str(base))).config.talker
    used = {*talker.special_ids.values(), *talker.spk_id.values()}
    free = [row for row in range(talker.codes, talker.vocab_size) if row not in used]
    full = tuned(base, "full", free, {f"speaker {row}": row for row in free})
    with pytest.raises(InvalidSetting, match="no free row"):
        combine_adapters(find_source(str(full)), find_source(str(tuned(base, "more"))))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([LAST_CODE, EOS, 90, 889, ROW, ROW + 1, 1080, 1087]), unique=True, max_size=3),
            st.none() | st.dictionaries(st.sampled_from("abcdA"), st.integers(880, 1090), min_size=1, max_size=3),
        ),
        min_size=2,
        max_size=3,
    )
)
def test_adapters_keep_every_speaker_embedding_or_are_refused(
    base: Path, drawn: list[tuple[list[int], dict[str, int] | None]]
) -> None:
    folders = [base.parent / f"adapter{index}" for index in range(len(drawn))]
    for folder, (rows, speakers) in zip(folders, drawn, strict=True):
        shutil.rmtree(folder, ignore_errors=True)
        tuned(base, folder.name, rows, speakers)
    parts = [find_source(str(folder)) for folder in folders]
    try:
        together = reduce(combine_adapters, parts)
    except (InvalidSetting, CheckpointInvalid) as error:
        message = str(error)
    else:
        message = ""
    assert ". " not in message
    if message:
        return
    table, config = table_of(together), compose_config(together).config
    talker = config.talker
    assert torch.equal(table[: talker.codes], table_of(find_source(str(base)))[: talker.codes])
    for part in parts:
        own, speakers = table_of(part), compose_config(part).config.talker.spk_id
        for name, row in speakers.items():
            assert torch.equal(table[talker.spk_id[name]], own[row])
        for index in talker.special_ids.values():
            assert torch.equal(table[index], own[index])


def test_merged_speaker_rows_equal_the_rows_merged_by_peft(base: Path) -> None:
    """The test needs the independent implementation: ``pip install --no-deps peft``."""
    peft = pytest.importorskip("peft")
    weights = load_file(base / "model.safetensors")
    folders, rows = [], []
    for index, name in enumerate(("a", "b")):
        network = nn.ModuleDict({"model": nn.ModuleDict({"codec_embedding": nn.Embedding(*weights[TABLE].shape)})})
        network["model"]["codec_embedding"].weight = nn.Parameter(weights[TABLE].clone())  # type: ignore[index]
        config = peft.TrainableTokensConfig(target_modules=["codec_embedding"], token_indices=[ROW])
        torch.manual_seed(index)
        trained = peft.get_peft_model(network, config)
        with torch.no_grad():
            for part in trained.parameters():
                if part.requires_grad:
                    part.add_(torch.randn_like(part))
        folder = base.parent / name
        trained.save_pretrained(folder)
        content = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(content | {"base_model_name_or_path": "../base"}))
        folders.append(folder)
        rows.append(trained.merge_and_unload()["model"]["codec_embedding"].weight.detach())
    source = shared(*folders)
    table, speakers = table_of(source), compose_config(source).config.talker.spk_id
    for name, row in zip(("a", "b"), rows, strict=True):
        assert not torch.equal(row[ROW], weights[TABLE][ROW].float())
        assert torch.equal(table[speakers[name]], row[ROW])
        assert torch.equal(table_of(find_source(str(base.parent / name))), row)
