"""Which weights a machine takes is measured before they are here: the most exact that speak in real time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from runtime.device import open_device
from runtime.device.cpu import CpuDevice, multiplies_bfloat16
from runtime.device.quantized import Quantization, multiplies_float16
from runtime.engine import weight_bits
from runtime.engine.engine import Engine
from runtime.engine.frame_shape import FrameShape
from runtime.engine.memory import _bytes_of
from runtime.engine.offers import CardSpeed, card_rtf, shape_of, weight_bytes
from runtime.engine.probe import Probe
from runtime.engine.weight_bits import Pace, choose_pace, weights_of
from runtime.model.config import DecoderConfig
from runtime.model.config_files import read_model_config
from runtime.model.talker import Talker
from runtime.model.weights import on_meta
from runtime.published import PUBLISHED
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.unit.model.published import write_configs

FLOAT16, INT8, INT4 = Quantization
SMALL = DecoderConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_code_groups=4, vocab_size=64)
PUBLISHED_SHAPE = shape_of(PUBLISHED[0])


def ladder(*rtfs: float) -> Iterator[Pace]:
    return (Pace(kind, rtf) for kind, rtf in zip((None, INT8, INT4), rtfs, strict=True))


@pytest.mark.parametrize(
    ("rtfs", "taken"),
    [
        ((0.9, 0.4, 0.3), None),
        ((1.1, 1.0, 0.3), INT8),
        ((3.0, 1.1, 0.9), INT4),
        ((3.0, 1.5, 1.1), INT8),  # four bits cost sound, and would not be in time either
        ((1.2, 1.5, 1.1), None),
    ],
)
def test_the_most_exact_that_is_in_time_is_taken(rtfs: tuple[float, float, float], taken: Quantization | None) -> None:
    assert choose_pace(ladder(*rtfs)).quantization is taken


def test_what_is_less_exact_than_needed_is_not_measured() -> None:
    paces = ladder(0.9, 0.4, 0.3)
    choose_pace(paces)
    assert next(paces).quantization is INT8


@pytest.mark.parametrize("kind", [None, FLOAT16, INT8, INT4])
def test_the_memory_of_an_offer_is_what_its_networks_take(tmp_path: Path, kind: Quantization | None) -> None:
    offered = next(checkpoint for checkpoint in PUBLISHED if checkpoint.id.endswith("1.7B-CustomVoice"))
    write_configs(tmp_path, "1.7B-CustomVoice")
    with on_meta():
        talker = Talker(read_model_config(tmp_path))
    own = _bytes_of(talker, 4, kind)
    assert weight_bytes(offered, torch.float32, kind, on_cpu=False) == pytest.approx(own, rel=0.03)
    table = talker.model.text_embedding.weight.numel()
    assert weight_bytes(offered, torch.float32, kind, on_cpu=True) == pytest.approx(own - 4 * table, rel=0.05)


def test_eight_bits_on_a_card_are_read_in_half_the_time() -> None:
    speed = CardSpeed(reads=1e9, computes=1e30)  # so slowly that nothing else counts
    half, whole = (card_rtf(PUBLISHED[0], speed, (torch.bfloat16, kind)) for kind in (Quantization.INT8, None))
    assert half == pytest.approx(whole / 2, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "word", "kind", "dtype"),
    [
        (PUBLISHED_SHAPE, "auto", None, torch.bfloat16),
        (PUBLISHED_SHAPE, "auto", INT8, torch.float32),
        (PUBLISHED_SHAPE, "float32", None, torch.float32),
        (PUBLISHED_SHAPE, "bfloat16", INT8, torch.bfloat16),
        (FrameShape(SMALL, SMALL), "auto", None, torch.float32),
    ],
)
def test_a_large_checkpoint_is_served_as_it_was_published_where_the_processor_multiplies_that(
    shape: FrameShape, word: str, kind: Quantization | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, opening = open_device("cpu"), sys.modules["runtime.device.open_device"]
    monkeypatch.setattr(opening, "multiplies_bfloat16", lambda: True)
    assert weights_of(word, device, shape, kind) == (dtype, kind)
    monkeypatch.setattr(opening, "multiplies_bfloat16", lambda: False)
    is_published = kind is None and shape is PUBLISHED_SHAPE
    for has in (True, False):
        monkeypatch.setattr(weight_bits, "multiplies_float16", lambda has=has: has)
        assert weights_of("auto", device, shape, kind) == (torch.float32, FLOAT16 if is_published and has else kind)
        assert weights_of("float32", device, shape, kind) == (torch.float32, kind)


def test_a_large_checkpoint_is_loaded_with_what_was_chosen_and_its_card_says_so(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(folder_of("brief", "custom_voice"))

    def card_with(few: int, word: str = "auto") -> str:
        monkeypatch.setattr(weight_bits, "FEW", few)
        settings = EngineSettings(device="cpu", quantize=word, max_slots=1, max_model_len=256)
        engine = Engine.open(Settings(models=(folder,), engine=settings))
        engine.close()
        return engine.cards[0].dtype

    paces = {None: 3.0, FLOAT16: 3.0, INT8: 0.5}
    published = "bfloat16" if multiplies_bfloat16() else "float16" if multiplies_float16() else "float32"
    monkeypatch.setattr(Probe, "rtf", lambda probe, shape, weights, frame_s: paces[weights[1]])
    assert card_with(few=0) == "int8"
    assert card_with(few=0, word="off") == published
    assert card_with(few=10**8) == "float32", "one that any processor speaks in time keeps its weights"


def test_only_a_processor_is_asked(folder_of: FolderOf) -> None:
    class Card(CpuDevice):
        name = "cuda"

    bits = weight_bits.WeightBits(EngineSettings(dtype="bfloat16"), Card())
    assert bits.of(read_model_config(folder_of("brief", "custom_voice")), "any", {"F16"}) == (torch.bfloat16, None)


@pytest.mark.skipif(not multiplies_float16(), reason="fbgemm has no such products here")
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
def test_weights_of_a_small_checkpoint_stay_float16_where_that_loses_nothing(
    settings: EngineSettings, types: set[str], expected: Quantization | None, folder_of: FolderOf
) -> None:
    bits = weight_bits.WeightBits(settings, open_device("cpu"))
    found = bits.of(read_model_config(folder_of("brief", "custom_voice")), "any", types)
    assert found == (torch.float32, expected)
