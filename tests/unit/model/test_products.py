"""Tests for batch-invariant matrix products and convolutions, compared with PyTorch."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device.quantized import Quantization, cpu_quantizations
from runtime.model.products import (
    KERNEL_ROWS,
    MIN_SEPARATE_PRODUCT_ROWS,
    Conv,
    Linear,
    MappedEmbedding,
    TransposedConv,
    lay_out,
    linear,
    silu,
)

ROUNDING = {"rtol": 1e-4, "atol": 1e-4}

MATRICES = [(17, 5), (64, 96), (24, 1), (256, 1280), (640, 256), (1024, 3072)]
CONVS = [(8, 12, 7, 1), (24, 24, 7, 9), (24, 1, 7, 1), (5, 3, 3, 3), (128, 256, 3, 1), (9, 4, 1, 1)]
UPSAMPLERS = [(24, 12, 16, 8), (7, 5, 2, 2), (48, 24, 6, 3), (6, 4, 9, 3)]


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def softmax(x: Tensor) -> Tensor:
    return x.softmax(dim=-1)


@torch.no_grad()
def filled(module: nn.Module) -> nn.Module:
    for serial, parameter in enumerate(module.parameters()):
        parameter.copy_(numbers(*parameter.shape, seed=serial))
    return module.requires_grad_(False)


@pytest.mark.parametrize(("inputs", "outputs"), MATRICES)
@pytest.mark.parametrize("biased", [False, True])
def test_matrix_product_is_batch_invariant(inputs: int, outputs: int, biased: bool) -> None:
    rows, weight = numbers(1024, inputs), numbers(outputs, inputs, seed=1)
    bias = numbers(outputs, seed=2) if biased else None
    whole = linear(rows, weight, bias)
    torch.testing.assert_close(whole, F.linear(rows, weight, bias), **ROUNDING)
    for start, size in ((0, 1), (5, 1), (6, 2), (9, 3), (0, 4), (7, 5), (100, 17), (31, 250), (1, 1023)):
        assert torch.equal(linear(rows[start : start + size], weight, bias), whole[start : start + size])
    batched = rows[:60].view(5, 3, 4, inputs).transpose(0, 1)
    assert torch.equal(linear(batched, weight, bias), whole[:60].view(5, 3, 4, outputs).transpose(0, 1))


@pytest.mark.parametrize("width", [4, 5, 10, 31, 48, 64, 100])
@pytest.mark.parametrize(
    "function", [silu, F.gelu, torch.exp, torch.sin, torch.cos, torch.log, softmax], ids=lambda made: made.__name__
)
def test_elementwise_functions_are_position_independent(function: Callable[[Tensor], Tensor], width: int) -> None:
    """The cases are all functions besides matrix products, additions and multiplications."""
    x = numbers(40, width).abs()
    whole = function(x)
    for start, size in ((0, 1), (3, 1), (2, 2), (5, 7), (39, 1)):
        assert torch.equal(function(x[start : start + size].clone()), whole[start : start + size])


def test_silu_equals_pytorch_except_rounding() -> None:
    x = torch.linspace(-200, 200, 1001)
    torch.testing.assert_close(silu(x), F.silu(x))


@pytest.mark.slow
def test_plain_pytorch_product_is_not_batch_invariant() -> None:
    """Otherwise, the module products.py and the MKL settings would be unnecessary."""
    question = """
import torch
from torch.nn.functional import linear
rows, weight = torch.randn(64, 256), torch.randn(640, 256)
print(torch.equal(linear(rows, weight), torch.cat([linear(row, weight) for row in rows.split(1)])))
"""
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    assert subprocess.check_output([sys.executable, "-c", question], env=environment, text=True).strip() == "False"


def assert_exact(conv: nn.Module, inputs: int, left: int, step: int) -> None:
    """Check that a part of the input gives the same bits as in the complete input.

    The part is computed alone and in a batch.
    """
    x = numbers(3, left + MIN_SEPARATE_PRODUCT_ROWS + 70, inputs, seed=7)
    whole = conv(x)
    for start, size in (
        (0, 1),
        (3, 2),
        (5, 7),
        (8, KERNEL_ROWS),
        (2, MIN_SEPARATE_PRODUCT_ROWS - 1),
        (1, MIN_SEPARATE_PRODUCT_ROWS),
        (4, MIN_SEPARATE_PRODUCT_ROWS + 1),
        (0, MIN_SEPARATE_PRODUCT_ROWS + 70),
    ):
        part = slice(start * step, (start + size) * step)
        for rows in (slice(0, 1), slice(1, 2), slice(1, 3), slice(0, 3)):
            assert torch.equal(conv(x[rows, start : start + left + size]), whole[rows, part]), (start, size, rows)


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "dilation"), CONVS)
def test_convolution_is_batch_invariant_and_equals_pytorch(
    inputs: int, outputs: int, kernel: int, dilation: int
) -> None:
    conv = filled(Conv(inputs, outputs, kernel, dilation=dilation))
    x = numbers(2, 150, inputs, seed=3)
    expected = F.conv1d(x.transpose(1, 2), conv.weight, conv.bias, dilation=dilation).transpose(1, 2)
    torch.testing.assert_close(conv(x), expected, **ROUNDING)
    lay_out(conv)
    torch.testing.assert_close(conv(x), expected, **ROUNDING)
    assert_exact(conv, inputs, (kernel - 1) * dilation, 1)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("channels", [3, 64])
def test_depthwise_convolution_is_batch_invariant_and_equals_pytorch(channels: int, dilation: int) -> None:
    conv = filled(Conv(channels, channels, 7, dilation=dilation, groups=channels))
    x = numbers(2, 80, channels, seed=3)
    expected = F.conv1d(x.transpose(1, 2), conv.weight, conv.bias, dilation=dilation, groups=channels)
    torch.testing.assert_close(conv(x), expected.transpose(1, 2), **ROUNDING)
    assert_exact(conv, channels, 6 * dilation, 1)


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "stride"), UPSAMPLERS)
def test_upsampling_is_batch_invariant_and_equals_pytorch(inputs: int, outputs: int, kernel: int, stride: int) -> None:
    conv = filled(TransposedConv(inputs, outputs, kernel, stride=stride))
    x, left = numbers(2, 90, inputs, seed=3), kernel // stride - 1
    expected = F.conv_transpose1d(x.transpose(1, 2), conv.weight, conv.bias, stride=stride)
    inner = expected[..., left * stride : 90 * stride].transpose(1, 2)
    torch.testing.assert_close(conv(x), inner, **ROUNDING)
    lay_out(conv)
    torch.testing.assert_close(conv(x), inner, **ROUNDING)
    assert_exact(conv, inputs, left, stride)


@pytest.mark.parametrize("conv", [Conv(6, 10, 7), TransposedConv(6, 10, 8, stride=4)], ids=["conv", "transposed"])
def test_packed_weights_keep_their_published_shape_without_a_native_library(
    conv: Conv | TransposedConv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.device.native.supports_convolution", lambda dtype: False)
    filled(conv)
    before, shape = conv.weight.detach().clone(), conv.weight.shape
    lay_out(conv)
    assert conv.weight.shape == shape
    assert torch.equal(conv.weight, before)
    assert conv.weight.untyped_storage().nbytes() == before.untyped_storage().nbytes()
    assert list(conv.state_dict()) == ["weight", "bias"]
    # A product reads the matrix of each tap without a copy.
    taps = conv.weight.permute(2, 0, 1) if isinstance(conv, Conv) else conv.weight.permute(2, 1, 0)
    assert taps.is_contiguous()


def test_linear_layer_is_batch_invariant() -> None:
    layer = filled(Linear(256, 640))
    rows = numbers(9, 256, seed=4)
    assert torch.equal(torch.cat([layer(row) for row in rows.split(1)]), layer(rows))


def test_bfloat16_layer_is_batch_invariant_and_close_to_the_published_layer() -> None:
    published = filled(Linear(256, 640, bias=False)).bfloat16()
    layer = filled(Linear(256, 640, bias=False)).bfloat16()
    layer.pack()
    if layer.product is None:
        pytest.skip("this processor's products of bfloat16 do not keep a row's bits")
    rows = numbers(9, 256, seed=4).bfloat16()
    made, expected = layer(rows), published(rows).float()
    assert (made.dtype, layer.weight.dtype, len(layer.weight)) == (torch.bfloat16, torch.bfloat16, 0)
    assert (made.float() - expected).norm() < 0.01 * expected.norm()
    for size in (1, 2, 5):
        assert torch.equal(torch.cat([layer(part) for part in rows.split(size)]), made)


@pytest.mark.parametrize("kind", cpu_quantizations())
def test_quantized_layer_frees_its_original_weights(kind: Quantization) -> None:
    # The weights require gradients, as in a network that is still being loaded.
    layer = Linear(64, 32, bias=False)
    weight = weakref.ref(layer.weight)
    layer.quantize(kind)
    gc.collect()
    assert weight() is None


def narrow(conv: Conv | TransposedConv) -> nn.Module:
    """Return a bfloat16 convolution as in Code2Wav, or skip the test if it is unsupported."""
    filled(conv)
    conv.lay_out(torch.bfloat16)
    if conv.product is None:
        pytest.skip("this processor's products of bfloat16 do not keep a row's bits")
    return conv


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "dilation"), [(24, 24, 7, 9), (96, 64, 7, 1), (64, 96, 1, 1)])
def test_bfloat16_convolution_is_batch_invariant_and_close_to_float32(
    inputs: int, outputs: int, kernel: int, dilation: int
) -> None:
    conv = narrow(Conv(inputs, outputs, kernel, dilation=dilation))
    whole = filled(Conv(inputs, outputs, kernel, dilation=dilation))
    x = numbers(2, 150, inputs, seed=3)
    expected = whole(x)
    assert conv(x).dtype is torch.float32
    assert (conv(x) - expected).norm() < 0.01 * expected.norm()
    assert_exact(conv, inputs, (kernel - 1) * dilation, 1)


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "stride"), [(24, 12, 16, 8), (48, 24, 6, 3), (32, 32, 2, 2)])
def test_bfloat16_upsampling_is_batch_invariant_and_close_to_pytorch(
    inputs: int, outputs: int, kernel: int, stride: int
) -> None:
    conv = narrow(TransposedConv(inputs, outputs, kernel, stride=stride))
    whole = filled(TransposedConv(inputs, outputs, kernel, stride=stride))
    x = numbers(2, 90, inputs, seed=3)
    expected = whole(x)
    assert (conv(x) - expected).norm() < 0.01 * expected.norm()
    assert_exact(conv, inputs, kernel // stride - 1, stride)


def test_half_precision_embedding_table_gives_the_same_rows() -> None:
    table, published = MappedEmbedding(6, 4), numbers(6, 4).bfloat16()
    table.weight, table.dtype = nn.Parameter(published, requires_grad=False), torch.float32
    ids = torch.tensor([[5, 0], [3, 3]])
    assert torch.equal(table(ids), published.float()[ids])
    assert torch.equal(table.rows, published.float())
