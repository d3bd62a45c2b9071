"""Tests for the speed estimate for a checkpoint without its weights."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace

import pytest
import torch

from runtime.device import open_device
from runtime.device.open_device import choose_code2wav_dtype
from runtime.device.quantized import Quantization
from runtime.engine.capacity import probe as probing
from runtime.engine.capacity.memory import tensor_bytes
from runtime.engine.capacity.offers import inspect_published
from runtime.engine.capacity.probe import Probe, bytes_per_weight, layer_size, parallel_frame_time, weights_per_frame
from runtime.engine.capacity.timing import Run, cpu_threads, fastest, measure_runs, repeat_in_background
from runtime.model.checkpoints.weights import on_meta
from runtime.model.config import DecoderConfig, ModelConfig
from runtime.model.layers import DecoderStack
from runtime.model.products import Linear
from runtime.model.talker import Talker
from runtime.published import PUBLISHED
from tests.support.timeouts import until

FLOAT16, INT8, INT4 = Quantization


def small() -> ModelConfig:
    """Return a published configuration with smaller layers."""
    config = inspect_published(PUBLISHED[0]).config
    assert config is not None
    few = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    talker = replace(config.talker, **few, text_hidden_size=64, text_vocab_size=16)
    return replace(config, talker=talker, predictor=replace(config.predictor, **few))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.capacity.timing.ROUND_S", 0.0)
    monkeypatch.setattr(probing, "COLD_BYTES", 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("weights", [(torch.float32, None), (torch.bfloat16, None), (torch.float32, INT8)])
def test_frame_time_of_the_engine_is_measured_once(weights: probing.Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CORE_COUNT", 2)
    probe, config = Probe(open_device("cpu")), small()
    frame, slowdown = probe.frame_time(config, weights)
    assert frame > 0
    assert probe.frame_time(config, weights) == (frame, slowdown)
    sound = probe.code2wav_time(weights)
    assert sound > 0
    assert probe.rtf(config, weights) == round(parallel_frame_time(frame, sound, slowdown) / 0.08, 3)


def test_audio_decoded_on_separate_cores_only_slows_down_frames() -> None:
    assert parallel_frame_time(frame=1.0, sound=0.4, slowdown=1.0) == 1.0
    # Frames take twice as long while audio is decoded.
    assert parallel_frame_time(frame=1.0, sound=0.4, slowdown=2.0) == 1.2
    assert parallel_frame_time(frame=0.2, sound=0.4, slowdown=1.0) == 0.4
    assert parallel_frame_time(frame=1.0, sound=0.4, slowdown=math.inf) == 1.4


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("cores", "threads"), [(1, 0), (2, 2)])
def test_frames_wait_for_audio_if_cores_are_shared(cores: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CORE_COUNT", cores)
    probe, config, weights = Probe(open_device("cpu"), threads), small(), (torch.float32, INT8)
    frame, slowdown = probe.frame_time(config, weights)
    assert slowdown == math.inf
    assert probe.rtf(config, weights) == round((frame + probe.code2wav_time(weights)) / 0.08, 3)


def test_audio_speed_is_measured_in_its_serving_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.dtype] = []
    monkeypatch.setattr(probing, "_sound_units", lambda dtype: asked.append(dtype) or (lambda: torch.zeros(())))
    own, whole = Probe(open_device("cpu")), Probe(open_device("cpu"), code2wav_dtype="float32")
    for probe in (own, whole):
        for weights in ((torch.float32, None), (torch.float32, INT8), (torch.bfloat16, None)):
            probe.code2wav_time(weights)
    fewer = choose_code2wav_dtype("auto", open_device("cpu"), torch.bfloat16, None)
    assert asked == [*dict.fromkeys((torch.float32, fewer)), torch.float32]


@pytest.mark.parametrize("kind", [None, FLOAT16, INT8, INT4])
def test_estimated_layer_size_equals_the_quantized_size(kind: Quantization | None) -> None:
    """With a wrong size, all layers of the speed estimate would fit into a cache.

    Then the estimated speed of int4 would be too high.
    """
    config = DecoderConfig(num_hidden_layers=1, num_code_groups=4, vocab_size=64)
    with on_meta():
        stack = DecoderStack(config)
    expected_bytes = layer_size(config) * bytes_per_weight(torch.bfloat16, kind)
    assert expected_bytes == pytest.approx(tensor_bytes(stack, torch.bfloat16.itemsize, kind), rel=0.02)


def test_estimated_weights_per_frame_equal_the_weights_of_the_matrix_products() -> None:
    config = small()
    with on_meta():
        talker = Talker(config)

    def products(module: torch.nn.Module) -> int:
        return sum(part.weight.numel() for part in module.modules() if isinstance(part, Linear))

    passes = config.talker.num_code_groups - 1
    again = passes * products(talker.code_predictor.model) + products(talker.code_predictor.lm_head)
    assert weights_per_frame(config) == products(talker.model) + products(talker.codec_head) + again


def test_fastest_run_is_measured_in_cpu_time_with_one_thread() -> None:
    runs = [Run(clock=3.0, processor=1.1), Run(clock=2.0, processor=1.0), Run(clock=9.0, processor=1.2)]
    with cpu_threads(2):
        assert fastest(runs) == 2.0
    if sys.platform != "win32":
        with cpu_threads(1):
            assert fastest(runs) == 1.0


@pytest.mark.skipif(sys.platform == "win32", reason="its processor time has steps of 16 ms")
def test_load_by_other_processes_is_excluded_for_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.capacity.timing.TIMED_ROUNDS", 1)

    def work() -> torch.Tensor:
        time.sleep(0.02)  # Simulate other processes on the core.
        return torch.zeros(())

    with cpu_threads(1):
        runs = measure_runs(work)
        assert fastest(runs) < 0.01 < 0.02 <= min(run.clock for run in runs)


def test_audio_is_decoded_while_frames_are_measured() -> None:
    made: list[int] = []

    def make() -> torch.Tensor:
        made.append(torch.get_num_threads())
        return torch.zeros(())

    before = torch.get_num_threads()
    with repeat_in_background(make, threads=1):
        assert made
        assert torch.get_num_threads() == before
        several = len(made) + 2
        until(lambda: len(made) > several)
    stopped = len(made)
    assert set(made) == {1}
    assert stopped == len(made)
