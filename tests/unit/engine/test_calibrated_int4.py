"""Tests for int4 quantization that is calibrated with measured inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from runtime.device.calibrated_int4 import DAMPING, _fitted, _rounded, quantize_gptq
from runtime.device.quantized import GROUP_WEIGHTS, Int4, Quantization
from runtime.engine.engine import Engine
from runtime.engine.input_moments import measure_inputs
from runtime.model.checkpoints.quantize import Moments
from runtime.model.checkpoints.quantize import quantize as write
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.support.engines import custom_voice, seeded, speak

REQUEST = custom_voice("Hello world, the old phone is slow.", max_frames=9, **seeded(3))
SETTINGS = EngineSettings(device="cpu", max_slots=1, max_model_len=256)


def correlated(rows: int, count: int, seed: int) -> Tensor:
    """Return random inputs whose energy is concentrated in a few directions.

    Shapes: [rows, count].
    """
    mixing = torch.randn((count, count), generator=torch.Generator().manual_seed(7)) * torch.logspace(0, -2, count)
    return torch.randn((rows, count), generator=torch.Generator().manual_seed(seed)) @ mixing.t()


def textbook(weight: Tensor, moments: Tensor) -> Tensor:
    """Quantize weights and dequantize them, directly with the equations of the paper.

    For every column, this computes a matrix inverse.
    """
    rest, count = weight.double().clone(), len(moments)
    damped = moments.double() + torch.eye(count) * DAMPING * moments.diagonal().mean().double()
    for place in range(count):
        if place % GROUP_WEIGHTS == 0:
            step, middle = _fitted(rest[:, place : place + GROUP_WEIGHTS].float())
        inverse = torch.linalg.inv(damped[place:, place:])
        value = _rounded(rest[:, place : place + 1].float(), step, middle)[:, 0] * step[:, 0] + middle[:, 0]
        rest[:, place:] -= torch.outer((rest[:, place] - value) / inverse[0, 0], inverse[0])
        rest[:, place] = value.double()
    return rest.float()


def test_calibrated_weights_equal_the_equations_of_the_paper() -> None:
    weight = torch.randn((16, 96), generator=torch.Generator().manual_seed(1))
    inputs = correlated(400, 96, seed=2)
    found, expected = quantize_gptq(weight, inputs.t() @ inputs).weight(), textbook(weight, inputs.t() @ inputs)
    different = (found - expected).abs() > 1e-4
    assert different.double().mean() < 0.01  # Ties may be rounded in another direction.


def test_calibration_reduces_the_error_of_products_with_other_inputs() -> None:
    weight = torch.randn((64, 256), generator=torch.Generator().manual_seed(3))
    inputs, others = correlated(1000, 256, seed=4), correlated(500, 256, seed=5)
    error = others @ (quantize_gptq(weight, inputs.t() @ inputs).weight() - weight).t()
    nearest = others @ (Int4.of(weight).weight() - weight).t()
    assert error.square().mean() < 0.5 * nearest.square().mean()


def test_weights_without_measured_inputs_are_rounded_to_the_nearest_value() -> None:
    weight = torch.cat([torch.randn((15, 64), generator=torch.Generator().manual_seed(6)), torch.zeros(1, 64)])
    found = quantize_gptq(weight, torch.zeros(64, 64)).weight()
    assert (found - weight).square().mean() <= (Int4.of(weight).weight() - weight).square().mean()
    assert torch.equal(found[15], torch.zeros(64))


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
def test_inputs_of_all_layers_are_measured_in_every_mode(folder_of: FolderOf, mode: str) -> None:
    moments = measure_inputs(str(folder_of("tiny", mode)), requests=2, frames=4)
    assert moments
    for name, total in moments.items():
        assert total.isfinite().all(), name
        assert (total.diagonal() > 0).any(), name


def test_calibrated_checkpoint_speaks(folder_of: FolderOf, tmp_path: Path) -> None:
    kwargs: list[str] = []

    def measure(reference: str) -> Moments:
        kwargs.append(reference)
        return measure_inputs(reference, requests=2, frames=4)

    folder = str(folder_of("tiny", "custom_voice"))
    write(folder, Quantization.INT4, tmp_path / "calibrated", measure)
    write(folder, Quantization.INT4, tmp_path / "nearest")
    assert kwargs == [folder]
    replies = [
        speak(Engine.open(Settings(models=(str(tmp_path / name),), engine=SETTINGS)), REQUEST).codes
        for name in ("calibrated", "nearest")
    ]
    assert all(len(codes) == 9 for codes in replies)
    assert (replies[0] != replies[1]).any()
