"""Tests for matrix multiplications with quantized weights, which must be batch-invariant."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from runtime.device import native
from runtime.device import quantized as subject
from runtime.device.quantized import (
    CACHED_ROWS,
    GROUP_WEIGHTS,
    MAX_INT8,
    MIN_SCALE,
    DequantizedInt8,
    DynamicInt8,
    Int4,
    Int8,
    Product,
    Quantization,
    WeightOnlyFloat16,
    WeightOnlyInt4,
    WeightOnlyInt8,
    cpu_quantizations,
    quantized_bytes,
    quantized_product,
    supports_float16,
    supports_int4,
)

N, K = 192, 96
ROUNDS_ROWS = pytest.mark.skipif(not subject.quantizes_activations(), reason="fbgemm is x86's")
FLOAT16 = pytest.mark.skipif(not supports_float16(), reason="fbgemm has no such products here")
PRODUCTS = [
    pytest.param(lambda weight: (WeightOnlyFloat16(weight), weight.half().float()), marks=FLOAT16),
    pytest.param(lambda weight: (DynamicInt8(Int8.of(weight)), Int8.of(weight).weight()), marks=ROUNDS_ROWS),
    lambda weight: (WeightOnlyInt8(Int8.of(weight)), Int8.of(weight).weight()),
    lambda weight: (WeightOnlyInt4(Int4.of(weight)), Int4.of(weight).weight()),
]
# Function that takes a weight, and returns its quantized `Product` and the dequantized weights.
Made = Callable[[Tensor], tuple[Product, Tensor]]
each_product = pytest.mark.parametrize("made", PRODUCTS, ids=["float16", "rounded rows", "int8", "int4"])


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def away(found: Tensor, expected: Tensor) -> float:
    """Return the relative distance between two tensors."""
    return float((found - expected).norm() / expected.norm())


@each_product
def test_product_equals_the_product_with_dequantized_weights(made: Made) -> None:
    product, weight = made(numbers(N, K, seed=1))
    rows = numbers(40, K) * torch.logspace(-3, 3, 40)[:, None]
    expected = rows @ weight.t()
    # Number of integer levels to which a row is rounded. On processors without VNNI, it is about half of MAX_INT8.
    levels = product.levels if isinstance(product, DynamicInt8) else MAX_INT8
    # Maximum relative error of a result, whose row is rounded to this number of levels or to bfloat16.
    max_error = 0.012 * MAX_INT8 / levels
    for found, row in zip(product(rows), expected, strict=True):
        assert away(found, row) < max_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gpu_reference_accumulates_in_float32_before_scaling(dtype: torch.dtype) -> None:
    weight, rows = Int8.of(numbers(N, K)), numbers(5, K, seed=2).to(dtype)
    made = DequantizedInt8(weight)(rows)
    assert made.dtype is dtype
    truth = rows.double() @ weight.values.double().t() * weight.scales.double()
    torch.testing.assert_close(made.double(), truth, rtol=2**-7 if dtype is torch.bfloat16 else 1e-5, atol=1e-5)


@FLOAT16
def test_published_weights_in_float16_equal_those_in_float32() -> None:
    weight, rows = numbers(3072, 1024, seed=1).mul_(0.02).bfloat16().float(), numbers(5, 1024)
    assert away(WeightOnlyFloat16(weight)(rows), (rows.double() @ weight.double().t()).float()) < 2e-6


@each_product
@pytest.mark.parametrize("shape", [(N, K), (48, 1024)])
def test_quantized_product_is_batch_invariant(made: Made, shape: tuple[int, int]) -> None:
    product, _ = made(numbers(*shape, seed=1))
    rows = numbers(140, shape[1]) * torch.logspace(-2, 2, 140)[:, None]
    whole = product(rows)
    for start, size in ((0, 1), (5, 1), (6, 2), (9, 3), (0, 4), (7, 5), (30, 8), (100, 17), (3, 130)):
        assert torch.equal(product(rows[start : start + size]), whole[start : start + size])


@ROUNDS_ROWS
def test_product_of_rounded_rows_has_exact_integer_sums() -> None:
    rounded = Int8.of(numbers(N, K, seed=1))
    product = DynamicInt8(rounded)
    rows = numbers(9, K)
    most = rows.abs().amax(dim=1, keepdim=True)
    sums = (rows / most * product.levels).round().double() @ rounded.values.double().t()
    torch.testing.assert_close(product(rows), (sums * most / product.levels * rounded.scales).float())


@ROUNDS_ROWS
def test_without_vnni_the_sum_of_two_products_fits_into_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    weight, rows = torch.ones(N, K), torch.ones(3, K)
    product = DynamicInt8(Int8.of(weight))
    assert 2 * (2 * product.levels + 1) * subject.MAX_INT8 < 2**15
    torch.testing.assert_close(product(rows), rows @ weight.t())


@each_product
def test_non_finite_row_affects_no_other_row_and_zeros_stay_zero(made: Made) -> None:
    product, _ = made(numbers(N, K, seed=1))
    rows = numbers(4, K)
    sane = product(rows)
    rows[1, 7], rows[2] = torch.nan, 0
    broken = product(rows)
    assert torch.equal(broken[[0, 3]], sane[[0, 3]])
    assert broken[1].isnan().all()
    assert not broken[2].any()
    rows[1, 7] = torch.inf
    assert not product(rows)[1].isfinite().any()


def test_quantized_weights_are_rounded_to_the_nearest_value() -> None:
    weight = numbers(N, K, seed=1)
    eight, four = Int8.of(weight), Int4.of(weight)
    assert ((eight.weight() - weight).abs() <= eight.scales[:, None] / 2 + MIN_SCALE).all()
    # The limits of a group may exceed its values by the rounding error of the group's offset in bfloat16.
    scales = four.scales.float().repeat_interleave(GROUP_WEIGHTS, dim=1)
    assert ((four.weight() - weight).abs() <= scales / 2 + 0.03 * weight.abs().amax()).all()
    assert away(eight.weight(), weight) < 0.01
    assert away(four.weight(), weight) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_matrix_quantized_in_pieces_equals_the_matrix_quantized_at_once(dtype: torch.dtype) -> None:
    weight = numbers(2 * CACHED_ROWS + 3, 48, seed=2).to(dtype)
    made, whole = Int8.of(weight), weight.float()
    scales = whole.abs().amax(dim=1) / MAX_INT8
    assert torch.equal(made.scales, scales)
    assert torch.equal(made.values, (whole / scales[:, None]).round().to(torch.int8))


@pytest.mark.parametrize("kind", cpu_quantizations())
def test_weight_channel_of_zeros_has_quantization_scale_one(kind: Quantization) -> None:
    weight = numbers(N, K)
    weight[3] = 0
    assert not quantized_product(weight, kind)(numbers(2, K, seed=2))[:, 3].any()


def test_int4_is_used_only_for_shapes_with_a_kernel() -> None:
    assert supports_int4(16, 32)
    for shape in ((24, 32), (16, 48)):
        assert not supports_int4(*shape)
        rows, weight = numbers(5, shape[1]), numbers(*shape, seed=1)
        assert away(quantized_product(weight, Quantization.INT4)(rows), rows @ weight.t()) < 0.02


@pytest.mark.parametrize("rounds", [pytest.param(True, marks=ROUNDS_ROWS), False])
def test_every_matrix_shape_has_a_product_on_every_processor(monkeypatch: pytest.MonkeyPatch, rounds: bool) -> None:
    monkeypatch.setattr(native, "is_loaded", lambda: False)
    monkeypatch.setattr(subject, "quantizes_activations", lambda: rounds)
    kinds = {shape: type(quantized_product(numbers(*shape), Quantization.INT8)) for shape in ((N, K), (N, 64))}
    assert set(kinds.values()) == {DynamicInt8 if rounds else WeightOnlyInt8}


def test_arm64_uses_no_fbgemm_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """On arm64, one of the fbgemm kernels crashes without SVE, and another kernel is missing."""
    monkeypatch.setattr(native, "is_loaded", lambda: False)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(subject, "_BY_FBGEMM", None)
    assert not subject.supports_float16.__wrapped__()
    for shape in ((N, K), (N + 1, K), (N, K + 1)):
        rows, weight = numbers(5, shape[1]), numbers(*shape, seed=1)
        assert away(quantized_product(weight, Quantization.INT8)(rows), rows @ weight.t()) < 0.02


def test_byte_counts_of_a_quantized_matrix_include_its_scales() -> None:
    assert 1 < quantized_bytes(3072, 1024, Quantization.INT8) / (3072 * 1024) < 1.02
    assert quantized_bytes(3072, 1024, Quantization.FLOAT16) == 3072 * 1024 * 2
    assert quantized_bytes(3072, 1024, Quantization.INT4) == 3072 * 1024 * (4 + 32 / GROUP_WEIGHTS) / 8
