"""Tests for Code2Wav's kernels in Triton's interpreter, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.kernels.code2wav.convolution import ConvolutionTile, PackedConvolution, convolve, tile_for
from runtime.device.kernels.code2wav.residual_unit import PackedUnit, residual_unit, split_channels
from runtime.device.kernels.code2wav.snake import Snake
from runtime.device.kernels.code2wav.streams import PastInputs
from tests.support import interpreting
from tests.support.cuda import interpreted

pytestmark = interpreted

SLOTS = 4
ROWS = torch.tensor([[2, 1, 0], [0, 0, 0]], dtype=torch.int32)  # Columns: slot, parity of the call, number of frames.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    with interpreting.patch_interpreter():
        yield


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def snaked(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return x + (x * alpha.exp()).sin() ** 2 / (beta.exp() + 1e-9)


def past_of(memory: Tensor, left: int) -> Tensor:
    """Return the convolution state that the kernel reads for the rows ROWS.

    Shapes: memory [2, SLOTS, left * C]; result [2, left, C].
    """
    return torch.stack([memory[1, 2], memory[0, 0]]).view(2, left, -1)


def written(memory: Tensor, left: int) -> Tensor:
    """Return the convolution state that the kernel has written for the rows ROWS."""
    return torch.stack([memory[0, 2], memory[1, 0]]).view(2, left, -1)


@pytest.mark.parametrize(("T", "dilation"), [(5, 1), (2, 3), (70, 9)])
@pytest.mark.parametrize("C", [20, 32])
def test_convolution_reads_and_advances_the_state_of_its_stream(
    random: torch.Generator, C: int, T: int, dilation: int
) -> None:
    """Chunks are shorter or longer than the convolution state.

    The taps of a convolution are within one tile or in two tiles.
    """
    N, left = 24, 6 * dilation
    weight, bias = torch.randn(N, C, 7, generator=random) / 10, torch.randn(N, generator=random)
    memory, x = torch.randn(2, SLOTS, left * C, generator=random), torch.randn(2, T, C, generator=random)
    before = memory.clone()
    seen = torch.cat((past_of(memory, left), x), dim=1)
    truth = F.conv1d(seen.transpose(1, 2), weight, bias, dilation=dilation).transpose(1, 2)
    packed = PackedConvolution(weight.permute(0, 2, 1).flatten(1).contiguous(), bias, C, 7, dilation)
    ours = convolve(packed, x, ROWS, PastInputs(memory, left), tile=ConvolutionTile(64, 16, 4, 3)).values
    torch.testing.assert_close(ours, truth, **TOLERANCE)
    assert torch.equal(written(memory, left), seen[:, -left:])
    for copy, slot in ((1, 2), (0, 0), (0, 1), (1, 1), (0, 3), (1, 3)):
        assert torch.equal(memory[copy, slot], before[copy, slot]), "memory that is not this chunk's to write"


@pytest.mark.parametrize("C", [12, 20, 48, 64])
def test_fused_residual_unit_equals_its_two_convolutions(random: torch.Generator, C: int) -> None:
    """The channels fill one tile, a part of one tile, or two tiles."""
    T, dilation = 40, 3
    left, tiles = 6 * dilation, split_channels(C)
    beyond = sum(tiles) - C
    wide, point = torch.randn(C, C, 7, generator=random) / 10, torch.randn(C, C, generator=random) / 5
    biases = torch.randn(2, C, generator=random)
    alphas, betas = torch.randn(2, C, generator=random) / 3, torch.randn(2, C, generator=random) / 3
    memory, x = torch.randn(2, SLOTS, left * C, generator=random), torch.randn(2, T, C, generator=random)
    a = torch.randn(2, T, C, generator=random)
    seen = torch.cat((past_of(memory, left), a), dim=1).transpose(1, 2)
    middle = snaked(F.conv1d(seen, wide, biases[0], dilation=dilation).transpose(1, 2), alphas[0], betas[0])
    truth = middle @ point.t() + biases[1] + x
    matrix = wide.permute(0, 2, 1).flatten(1)
    unit = PackedUnit(
        PackedConvolution(F.pad(matrix, (0, 0, 0, beyond)), F.pad(biases[0], (0, beyond)), C, 7, dilation),
        Snake.of(alphas[0], betas[0]).padded(beyond),
        F.pad(point, (0, beyond, 0, beyond)),
        F.pad(biases[1], (0, beyond)),
        tiles,
    )
    made = residual_unit(unit, x, a, ROWS, PastInputs(memory, left), Snake.of(alphas[1], betas[1]), plain=True)
    torch.testing.assert_close(made.values, truth, **TOLERANCE)
    torch.testing.assert_close(made.after_snake, snaked(truth, alphas[1], betas[1]), **TOLERANCE)
    assert torch.equal(written(memory, left), seen.transpose(1, 2)[:, -left:])


def test_snake_is_accurate_for_large_inputs(random: torch.Generator) -> None:
    """The kernel's own sine has five exact digits for arguments of several hundred periods."""
    x = 300 * torch.randn(1, 33, 16, generator=random)
    alpha, beta = torch.randn(16, generator=random), torch.randn(16, generator=random)
    identity = PackedConvolution(torch.eye(16), None, 16)
    made = convolve(identity, x, ROWS[:1], next_snake=Snake.of(alpha, beta))
    torch.testing.assert_close(made.after_snake, snaked(x.double(), alpha, beta).float(), rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize(
    ("M", "N", "tile"),
    [(12288, 6144, (128, 256)), (245760, 288, (128, 128)), (1, 512, (64, 16)), (384, 3072, (64, 128))],
)
def test_tile_size_keeps_the_gpu_occupied(M: int, N: int, tile: tuple[int, int]) -> None:
    chosen = tile_for(M, N)
    assert (chosen.rows, chosen.columns) == tile


@pytest.mark.parametrize(
    ("channels", "tiles"), [(96, (64, 32)), (192, (128, 64)), (64, (64, 0)), (12, (16, 0)), (20, (32, 0)), (4, (16, 0))]
)
def test_channels_are_split_into_one_or_two_tiles(channels: int, tiles: tuple[int, int]) -> None:
    assert split_channels(channels) == tiles
