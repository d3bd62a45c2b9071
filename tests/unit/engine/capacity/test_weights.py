"""Tests for the choice of weights: the least quantized ones that decode in real time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from runtime.device import open_device
from runtime.device.cpu import CpuDevice, has_bfloat16_instructions
from runtime.device.quantized import Quantization, supports_float16
from runtime.engine.capacity import weights as weighing
from runtime.engine.capacity.offers import inspect_published
from runtime.engine.capacity.probe import Probe, Weights
from runtime.engine.capacity.weights import WeightsRtf, WeightsSelector, choose_real_time_weights
from runtime.engine.engine import Engine
from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.config import ModelConfig
from runtime.published import PUBLISHED
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf

FLOAT16, INT8, INT4 = Quantization
PUBLISHED_CONFIG = inspect_published(PUBLISHED[0]).config
assert PUBLISHED_CONFIG is not None
SMALL_CONFIG = replace(
    PUBLISHED_CONFIG,
    talker=replace(PUBLISHED_CONFIG.talker, num_hidden_layers=1),
    predictor=replace(PUBLISHED_CONFIG.predictor, hidden_size=64, num_hidden_layers=1),
)


def weights_of(dtype: str, config: ModelConfig, bits: Quantization | None) -> Weights:
    return WeightsSelector(EngineSettings(dtype=dtype), open_device("cpu")).with_quantization(config, bits)


def ladder(*rtfs: float) -> Iterator[WeightsRtf]:
    return (((torch.float32, kind), rtf) for kind, rtf in zip((None, INT8, INT4), rtfs, strict=True))


@pytest.mark.parametrize(
    ("rtfs", "taken"),
    [
        ((0.7, 0.4, 0.3), None),
        ((1.1, 0.7, 0.3), INT8),
        ((0.9, 0.8, 0.6), INT4),
        # No format is surely fast enough, so the most exact format that may reach real time is selected.
        ((0.9, 0.8, 0.75), None),
        ((1.1, 0.9, 0.8), INT8),
        ((3.0, 1.1, 0.9), INT4),
        ((3.0, 1.5, 1.1), INT8),  # INT4 would lower the audio quality without reaching real time.
        ((1.2, 1.5, 1.1), None),
    ],
)
def test_most_exact_weights_faster_than_real_time_are_chosen(
    rtfs: tuple[float, float, float], taken: Quantization | None
) -> None:
    assert choose_real_time_weights(ladder(*rtfs))[1] is taken


def test_no_weights_are_measured_after_the_first_that_are_fast_enough() -> None:
    paces = ladder(0.7, 0.4, 0.3)
    choose_real_time_weights(paces)
    assert next(paces)[0][1] is INT8


@pytest.mark.parametrize(
    ("config", "word", "kind", "dtype"),
    [
        (PUBLISHED_CONFIG, "auto", None, torch.bfloat16),
        (PUBLISHED_CONFIG, "auto", INT8, torch.float32),
        (PUBLISHED_CONFIG, "float32", None, torch.float32),
        (PUBLISHED_CONFIG, "bfloat16", INT8, torch.bfloat16),
        (SMALL_CONFIG, "auto", None, torch.float32),
    ],
)
def test_large_checkpoint_keeps_its_published_dtype_if_the_cpu_supports_it(
    config: ModelConfig, word: str, kind: Quantization | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = sys.modules["runtime.device.open_device"]
    monkeypatch.setattr(opening, "has_bfloat16_instructions", lambda: True)
    assert weights_of(word, config, kind) == (dtype, kind)
    monkeypatch.setattr(opening, "has_bfloat16_instructions", lambda: False)
    is_published = kind is None and config is PUBLISHED_CONFIG
    for has in (True, False):
        monkeypatch.setattr(weighing, "supports_float16", lambda has=has: has)
        assert weights_of("auto", config, kind) == (torch.float32, FLOAT16 if is_published and has else kind)
        assert weights_of("float32", config, kind) == (torch.float32, kind)


def test_large_checkpoint_loads_the_chosen_weights_and_reports_them(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(folder_of("brief", "custom_voice"))

    def card_with(few: int, word: str = "auto") -> str:
        monkeypatch.setattr(weighing, "LARGE", few)
        settings = EngineSettings(device="cpu", quantize=word, max_slots=1, max_model_len=256)
        engine = Engine.open(Settings(models=(folder,), engine=settings))
        engine.close()
        return engine.cards[0].dtype

    paces = {None: 3.0, FLOAT16: 3.0, INT8: 0.5}
    published = "bfloat16" if has_bfloat16_instructions() else "float16" if supports_float16() else "float32"
    monkeypatch.setattr(Probe, "rtf", lambda probe, config, weights: paces[weights[1]])
    assert card_with(few=0) == "int8"
    assert card_with(few=0, word="off") == published
    assert card_with(few=10**8) == "float32", "one that any processor speaks in time keeps its weights"


def test_quantization_is_not_chosen_automatically_on_a_gpu(folder_of: FolderOf) -> None:
    class Card(CpuDevice):
        name = "cuda"

    bits = WeightsSelector(EngineSettings(dtype="bfloat16"), Card())
    assert bits.choose(read_model_config(folder_of("brief", "custom_voice")), "any", {"F16"}) == (torch.bfloat16, None)


@pytest.mark.skipif(not supports_float16(), reason="fbgemm has no such products here")
@pytest.mark.parametrize(
    ("settings", "types", "expected"),
    [
        (EngineSettings(), {"F16"}, FLOAT16),
        (EngineSettings(quantize="off"), {"F16"}, FLOAT16),
        (EngineSettings(), {"F16", "F32"}, None),
        (EngineSettings(), {"BF16"}, None),
        (EngineSettings(dtype="float32"), {"F16"}, None),
        (EngineSettings(quantize="int8"), {"F16"}, INT8),
    ],
)
def test_small_checkpoint_keeps_float16_if_lossless(
    settings: EngineSettings, types: set[str], expected: Quantization | None, folder_of: FolderOf
) -> None:
    bits = WeightsSelector(settings, open_device("cpu"))
    found = bits.choose(read_model_config(folder_of("brief", "custom_voice")), "any", types)
    assert found == (torch.float32, expected)
