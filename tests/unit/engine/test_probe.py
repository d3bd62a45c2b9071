"""How long a frame and its sound take here is measured before their weights are here."""

from __future__ import annotations

import math

import pytest
import torch

from runtime.device import open_device
from runtime.device.open_device import choose_sound_dtype
from runtime.device.quantized import Quantization
from runtime.engine.frame_shape import FrameShape, Weights
from runtime.engine.probe import Probe, together
from runtime.model.config import DecoderConfig

INT8 = Quantization.INT8
SMALL = DecoderConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_code_groups=4, vocab_size=64)


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
