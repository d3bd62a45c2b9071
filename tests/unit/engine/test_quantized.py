"""Tests for the engine with quantized weights: batch invariance and estimated memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from runtime.device.quantized import NativeTiles, Quantization, cpu_quantizations, quantized_bytes
from runtime.engine.capacity.doctor import check_checkpoints, diagnose
from runtime.engine.engine import Engine
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint, speech_tokenizer_networks
from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.checkpoints.weights import load_weights, on_meta
from runtime.model.products import Linear
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf, Loaded
from tests.support.engines import custom_voice, engine_of, seeded, speak, speak_together

KINDS = cpu_quantizations()
# Kinds that users can select. The engine itself selects float16 on some machines.
SAID = [kind for kind in KINDS if kind is not Quantization.FLOAT16]
REQUESTS = [
    custom_voice("Hello world, the old phone is slow.", max_frames=9, **seeded(3)),
    custom_voice("a", voice="ryan", max_frames=14),
    custom_voice("你好，今天的声音很清楚。", voice="eric", instruct="Speak low.", max_frames=5, **seeded(5)),
    custom_voice("The harbour was quiet.", max_frames=7, **seeded(8)),
]


@pytest.fixture(params=KINDS, scope="module")
def rounded(request: pytest.FixtureRequest, folder_of: FolderOf) -> Checkpoint:
    folder = str(folder_of("tiny", "custom_voice"))
    return load_checkpoint(folder, torch.device("cpu"), torch.float32, quantization=request.param)


def products(network: nn.Module) -> Iterator[Linear]:
    return (module for module in network.modules() if isinstance(module, Linear))


@pytest.mark.slow("int4", "float16")
def test_quantized_request_is_batch_invariant(rounded: Checkpoint) -> None:
    alone = [speak(engine_of(rounded, slots=1), request) for request in REQUESTS]
    for apart in (0, 2):
        together = speak_together(engine_of(rounded, slots=4), *REQUESTS, apart=apart)
        for single, other in zip(alone, together, strict=True):
            assert np.array_equal(single.codes, other.codes)
            assert np.array_equal(single.pcm, other.pcm)


def test_every_talker_product_is_quantized_and_frees_its_original(rounded: Checkpoint, loaded: Loaded) -> None:
    whole = loaded("tiny", "custom_voice")
    for mine, published in zip(products(rounded.talker), products(whole.talker), strict=True):
        assert mine.product is not None
        assert mine.weight.untyped_storage().nbytes() == 0
        rows = torch.randn(3, mine.in_features, generator=torch.Generator().manual_seed(1))
        assert (mine(rows) - published(rows)).norm() < 0.12 * published(rows).norm()
    for linear in products(rounded.speech_tokenizer.code2wav):
        if linear.product is not None:
            assert isinstance(linear.product, NativeTiles)
            assert linear.product.tiles.dtype is torch.float32


@pytest.mark.parametrize("cores", [1, 3])
def test_unquantized_weights_in_memory_are_bounded_by_the_core_count(
    folder_of: FolderOf, loaded: Loaded, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.model.checkpoints.weights.CORE_COUNT", cores)
    others: list[int] = []
    with on_meta():
        talker = type(loaded("tiny", "custom_voice").talker)(loaded("tiny", "custom_voice").config)
    linears = list(products(talker))

    def unrounded(among: list[Linear]) -> list[Linear]:
        return [linear for linear in among if not linear.weight.is_meta and linear.product is None]

    def finish(module: nn.Module) -> None:
        if isinstance(module, Linear):
            module.quantize(Quantization.INT8)
            # Other threads may quantize layers during the first scan. The second scan removes these layers, so all
            # counted layers were unquantized at the same time.
            others.append(len(unrounded(unrounded(linears))))

    paths = [folder_of("tiny", "custom_voice") / "model.safetensors"]
    load_weights(paths, {"talker.": talker}, torch.device("cpu"), {"talker.": torch.float32}, {"talker.": finish})
    assert len(others) == len(linears)
    assert max(others) < cores


def test_largest_modules_are_loaded_first(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end, no thread should load a large module while the others have no work."""
    monkeypatch.setattr("runtime.model.checkpoints.weights.CORE_COUNT", 1)
    folder, sizes = folder_of("tiny", "custom_voice"), list[int]()

    def finish(module: nn.Module) -> None:
        sizes.append(sum(part.numel() for part in (*module.parameters(False), *module.buffers(False))))

    networks = speech_tokenizer_networks(read_speech_tokenizer_config(folder / "speech_tokenizer"))
    paths, kinds = [folder / "speech_tokenizer" / "model.safetensors"], dict.fromkeys(networks, torch.float32)
    load_weights(paths, networks, torch.device("cpu"), kinds, {"decoder.": finish}, unloaded=["encoder."])
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_equal_for_any_number_of_loader_threads(
    folder_of: FolderOf, kind: Quantization, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, engine = str(folder_of("tiny", "custom_voice")), torch.backends.quantized.engine

    def multiplied(cores: int) -> list[Tensor]:
        monkeypatch.setattr("runtime.model.checkpoints.weights.CORE_COUNT", cores)
        talker = load_checkpoint(folder, torch.device("cpu"), torch.float32, quantization=kind).talker
        return [linear(torch.ones(2, linear.in_features)) for linear in products(talker)]

    for alone, beside in zip(multiplied(1), multiplied(3), strict=True):
        assert torch.equal(alone, beside)
    assert torch.backends.quantized.engine == engine


@pytest.mark.parametrize("kind", SAID)
def test_loaded_weights_match_the_quantize_setting(folder_of: FolderOf, loaded: Loaded, kind: Quantization) -> None:
    folder, plain = str(folder_of("quick", "custom_voice")), loaded("quick", "custom_voice")
    settings = EngineSettings(device="cpu", quantize=kind, max_slots=1, max_model_len=256)
    engine = Engine.open(Settings(models=(folder,), engine=settings))
    (card,) = engine.cards
    assert card.dtype == kind
    requests = [custom_voice(max_frames=40, **seeded(seed)) for seed in range(4)]
    quantized = load_checkpoint(folder, torch.device("cpu"), torch.float32, quantization=kind)
    codes, expected, unquantized = (
        [speak(each, request).codes.tolist() for request in requests]
        for each in (engine, engine_of(quantized), engine_of(plain))
    )
    assert codes == expected != unquantized


def test_doctor_command_and_check_option_account_for_quantization(folder_of: FolderOf, rounded: Checkpoint) -> None:
    folder = str(folder_of("tiny", "custom_voice"))
    settings = EngineSettings(device="cpu", max_slots=3, sound_dtype="float32")
    rows = {row.dtype: row for row in diagnose(folder, settings).memory.rows}
    saved = {
        kind: sum(
            4 * linear.out_features * linear.in_features
            - quantized_bytes(linear.out_features, linear.in_features, kind)
            for linear in products(rounded.talker)
        )
        for kind in KINDS
    }
    for kind in KINDS:
        assert rows["float32"].once - rows[kind].once == saved[kind]
        assert rows[kind].slot == rows["float32"].slot
    for kind in SAID:
        engine = replace(settings, quantize=kind)
        assert [row.dtype for row in diagnose(folder, engine).memory.rows if row.is_chosen] == [kind]
        assert (
            check_checkpoints(Settings(models=(folder,), engine=engine)).need == rows[kind].once + 3 * rows[kind].slot
        )
