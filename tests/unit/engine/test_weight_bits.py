"""Which weights a machine takes is measured before they are here: the most exact that speak in real time."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.layout.published import PUBLISHED as SPECS
from runtime.device import open_device
from runtime.device.cpu import CpuDevice, multiplies_bfloat16
from runtime.device.open_device import choose_sound_dtype
from runtime.device.quantized import Quantization, multiplies_float16
from runtime.engine import weight_bits
from runtime.engine.engine import Engine
from runtime.engine.frame_shape import FrameShape, Weights, layer_bytes, layer_size
from runtime.engine.memory import _bytes_of
from runtime.engine.offers import CardSpeed, card_rtf, shape_of, weight_bytes
from runtime.engine.probe import Probe, together
from runtime.engine.probe_timing import Run, Timing, computing_with, repeating, timing
from runtime.engine.weight_bits import Pace, choose_pace, weights_of
from runtime.model.code2wav import Code2Wav
from runtime.model.config import DecoderConfig
from runtime.model.config_files import read_model_config
from runtime.model.layers import DecoderStack
from runtime.model.products import Linear, narrowed_names
from runtime.model.talker import Talker
from runtime.model.weights import on_meta
from runtime.published import PUBLISHED, SOUND_NARROWED
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.support.patience import until
from tests.unit.model.published import speech_tokenizer_config, write_configs

FLOAT16, INT8, INT4 = Quantization
SMALL = DecoderConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_code_groups=4, vocab_size=64)
PUBLISHED_SHAPE = shape_of(PUBLISHED[0])


def ladder(*rtfs: float) -> Iterator[Pace]:
    return (Pace(kind, rtf) for kind, rtf in zip((None, INT8, INT4), rtfs, strict=True))


@pytest.mark.parametrize("kind", [None, FLOAT16, INT8, INT4])
def test_a_layer_is_as_large_as_it_is_held(kind: Quantization | None) -> None:
    """Of four bits the probe took half as many layers as no cache holds, and told too fast a pace."""
    config = DecoderConfig(
        hidden_size=1024, intermediate_size=3072, num_hidden_layers=1, num_code_groups=4, vocab_size=64
    )
    with on_meta():
        stack = DecoderStack(config)
    told = layer_bytes(config, torch.bfloat16, kind)
    assert told == pytest.approx(_bytes_of(stack, torch.bfloat16.itemsize, kind), rel=0.02)


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


def test_the_shapes_of_the_probe_are_the_published_ones() -> None:
    for checkpoint in PUBLISHED:
        shape, spec = shape_of(checkpoint), SPECS[checkpoint.size]
        for config, stack in ((shape.talker, spec.talker), (shape.predictor, spec.predictor)):
            assert (config.hidden_size, config.intermediate_size) == (stack.hidden, stack.intermediate)
            assert config.num_hidden_layers == stack.layers
            heads = (config.num_attention_heads, config.num_key_value_heads, config.head_dim)
            assert heads == (stack.heads, stack.kv_heads, stack.head_dim)
        assert shape.predictor.num_code_groups == spec.code_groups


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


def test_what_is_multiplied_in_fewer_bits_of_published_sound_is_counted_where_it_is() -> None:
    with on_meta():
        code2wav = Code2Wav(speech_tokenizer_config().code2wav)
    for word, numbers in SOUND_NARROWED.items():
        names = narrowed_names(code2wav, getattr(torch, word)) if word != "float32" else []
        assert sum(code2wav.get_parameter(f"{name}.weight").numel() for name in names) == numbers


def test_the_numbers_that_a_frame_reads_are_those_of_its_products() -> None:
    with on_meta():
        stack = DecoderStack(SMALL)
    products = [module for module in stack.modules() if isinstance(module, Linear)]
    assert SMALL.num_hidden_layers * layer_size(SMALL) == sum(module.weight.numel() for module in products)
    reads = FrameShape(SMALL, SMALL).reads
    assert reads == 4 * SMALL.num_hidden_layers * layer_size(SMALL) + 4 * SMALL.vocab_size * SMALL.hidden_size


@pytest.mark.parametrize("weights", [(torch.float32, None), (torch.bfloat16, None), (torch.float32, INT8)])
def test_a_frame_takes_as_long_as_its_layers_and_passes_and_is_measured_once(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.engine.probe_timing.MEASURE_S", 0.0)
    probe = Probe(open_device("cpu"))
    few = probe.frame_s(FrameShape(SMALL, SMALL), weights)
    assert 0 < few == probe.frame_s(FrameShape(SMALL, SMALL), weights)
    sound = probe.sound_s(weights)
    assert 0 < sound == probe.sound_s(weights)
    slower = probe.slower(FrameShape(SMALL, SMALL), weights)
    told = probe.rtf(FrameShape(SMALL, SMALL), weights, 0.08)
    assert told == round(together(few, sound, slower) / 0.08, 3)
    assert told <= probe.rtf_now(FrameShape(SMALL, SMALL), weights, 0.08)


def test_other_work_is_in_what_it_takes_now_and_not_in_what_it_takes() -> None:
    runs = [Run(clock=3.0, processor=1.1), Run(clock=2.0, processor=1.0), Run(clock=9.0, processor=1.2)]
    assert Timing.of(runs, by_processor=True) == Timing(best=1.0, middle=3.0)
    assert Timing.of(runs, by_processor=False) == Timing(best=2.0, middle=3.0)


def test_of_one_thread_others_work_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.probe_timing.ROUNDS", 1)

    def work() -> torch.Tensor:
        time.sleep(0.02)  # as if others had the core meanwhile
        return torch.zeros(())

    if sys.platform == "win32":
        pytest.skip("its processor time is told in steps of 16 ms")
    with computing_with(1):
        assert timing(work).best < 0.01 < 0.02 <= timing(work).middle
    with computing_with(2):
        assert timing(work).best >= 0.02


def test_sound_with_a_core_of_its_own_costs_what_it_slows_frames_down_by() -> None:
    assert together(frame=1.0, sound=0.4, slower=1.0) == 1.0
    assert together(frame=1.0, sound=0.4, slower=2.0) == 1.2  # in which frames went on at half the pace
    assert together(frame=0.2, sound=0.4, slower=1.0) == 0.4
    assert together(frame=1.0, sound=0.4, slower=math.inf) == 1.4


@pytest.mark.parametrize(("cores", "threads"), [(1, 0), (2, 2)])
def test_frames_wait_for_sound_where_they_share_cores(
    cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.engine.probe_timing.MEASURE_S", 0.0)
    monkeypatch.setattr("runtime.engine.probe.CORES", cores)
    probe, shape, weights = Probe(open_device("cpu"), threads), FrameShape(SMALL, SMALL), (torch.float32, INT8)
    assert probe.slower(shape, weights) == math.inf
    behind = probe.frame_s(shape, weights) + probe.sound_s(weights)
    assert probe.rtf(shape, weights, 0.08) == round(behind / 0.08, 3)


def test_sound_is_made_while_frames_are_measured_beside_it() -> None:
    made: list[int] = []

    def make() -> torch.Tensor:
        made.append(torch.get_num_threads())
        return torch.zeros(())

    before = torch.get_num_threads()
    with repeating(make, threads=1):
        assert made
        assert torch.get_num_threads() == before
        several = len(made) + 2
        until(lambda: len(made) > several)
    stopped = len(made)
    assert set(made) == {1}
    assert stopped == len(made)


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


def test_sound_is_measured_in_the_dtype_that_it_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.probe_timing.MEASURE_S", 0.0)
    asked: list[torch.dtype] = []
    monkeypatch.setattr(Probe, "_unit", lambda probe, dtype: asked.append(dtype) or (lambda: torch.zeros(())))
    own, whole = Probe(open_device("cpu")), Probe(open_device("cpu"), sound_dtype="float32")
    for probe in (own, whole):
        for weights in ((torch.float32, None), (torch.float32, INT8), (torch.bfloat16, None)):
            probe.sound_s(weights)
    fewer = choose_sound_dtype("auto", open_device("cpu"), torch.bfloat16, None)
    assert asked == [*dict.fromkeys((torch.float32, fewer)), torch.float32]


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
