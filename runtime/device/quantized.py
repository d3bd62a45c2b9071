"""Matrix products with quantized weights, bitwise independent of the batch.

float16: activations and sums are float32. The weights represent all published bfloat16 weights except the very
smallest.

int8: a weight is a multiple of 1/127 of the largest magnitude in its output channel. The C++ operators and, on x86,
fbgemm quantize each row of activations in the same way, and their sums are exact integers. Torch's kernel for other
CPUs uses bfloat16 activations, and the CUDA kernels use activations of any dtype. Both have float32 sums.

int4: 32 adjacent weights of an output channel share a scale and an offset. The C++ operator quantizes activations to
int8, and torch's kernel uses bfloat16 activations.

The CPU kernels are in runtime/device/native and in torch. The CUDA kernels are in runtime/device/kernels.
docs/decisions.md lists the alternatives.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device import native
from runtime.device.cpu import is_x86

GROUP_WEIGHTS = 32  # Number of adjacent int4 weights that share a scale and an offset.
# Minimum number of rows per product. With one or two rows, the float16 kernels of fbgemm add the products in another
# order.
FLOAT16_MIN_ROWS = 3
TESTED_ROWS = range(1, 61)  # Numbers of rows that are compared in the test of batch invariance.
# Maximum number of rows per product. With more rows, torch's weight-only kernels use another algorithm.
MAX_CALL_ROWS = 4
TILE_OUTPUTS = 16  # Tile size of torch's weight-only kernels. N and K must be multiples of the tile size.
CACHED_ROWS = 64  # Number of matrix rows that are quantized at once, so that they fit into the CPU cache.
MAX_INT8 = 127
# Largest magnitude of an int8 value on CPUs that add two products in 16 bits, where larger values could overflow.
MAX_HALF_INT8 = 63
MAX_FLOAT16 = torch.finfo(torch.float16).max
MIN_SCALE = 1e-30  # Lower bound of scales, to avoid a division by zero.


class Quantization(StrEnum):
    """Weight quantizations of the talker and code predictor, from largest to smallest."""

    FLOAT16 = "float16"
    INT8 = "int8"
    INT4 = "int4"


Product = Callable[[Tensor], Tensor]  # Function from rows [M, K] to a result [M, N] of the same dtype.


@dataclass(frozen=True, slots=True)
class Int8:
    """Int8 weight matrix with one scale per output channel.

    Shapes: values [N, K] int8; scales [N] float32.
    """

    values: Tensor
    scales: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> Int8:
        """Quantize a weight matrix to int8.

        Shapes: weight [N, K] of any floating dtype.
        """
        values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
        scales = torch.empty(len(weight), device=weight.device)
        # The divisor is a tensor, because CUDA implements a division by a Python number as an inexact multiplication.
        full = torch.tensor(float(MAX_INT8), device=weight.device)
        # On a CPU, only a few rows are processed at a time, so that they fit into the cache.
        count = CACHED_ROWS if weight.is_cpu else len(weight)
        for rows, into, scale in zip(*(torch.split(part, count) for part in (weight, values, scales)), strict=True):
            part = rows.float()
            torch.div(part.abs().amax(dim=1).clamp_(min=MIN_SCALE), full, out=scale)
            into.copy_((part / scale[:, None]).round_())
        return cls(values, scales)

    def weight(self) -> Tensor:
        """Return the dequantized weight matrix.

        Shapes: result [N, K] float32.
        """
        return self.values * self.scales[:, None]


@dataclass(frozen=True, slots=True)
class Int4:
    """Int4 weight matrix with a scale and an offset per group of weights.

    Shapes: values [N, K] int32 from 0 to 15; scales, offsets [N, K / GROUP_WEIGHTS] bfloat16, where
    the offset is the weight of value 8.
    """

    values: Tensor
    scales: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> Int4:
        """Quantize a weight matrix to int4.

        Shapes: weight [N, K], where K is a multiple of GROUP_WEIGHTS.
        """
        groups = weight.float().reshape(len(weight), -1, GROUP_WEIGHTS)
        least, most = groups.aminmax(dim=2)
        scales = ((most - least) / 15).clamp_(min=MIN_SCALE).bfloat16()
        offsets = (least + 8 * scales.float()).bfloat16()
        values = ((groups - offsets.float()[..., None]) / scales.float()[..., None] + 8).round_().clamp_(0, 15)
        return cls(values.flatten(1).to(torch.int32), scales, offsets)

    def weight(self) -> Tensor:
        """Return the dequantized weight matrix.

        Shapes: result [N, K] float32.
        """
        differences = (self.values.view(len(self.values), -1, GROUP_WEIGHTS) - 8) * self.scales.float()[..., None]
        return (differences + self.offsets.float()[..., None]).flatten(1)


Rounded = Int8 | Int4


def quantize_weight(weight: Tensor, kind: Quantization) -> Rounded:
    """Quantize a weight matrix to int8 or int4.

    The result is int4 if `kind` is int4 and the int4 kernels support the shape, and int8 otherwise.

    Shapes: weight [N, K].
    """
    return Int4.of(weight) if kind is Quantization.INT4 and supports_int4(*weight.shape) else Int8.of(weight)


def product_function(weights: Rounded) -> Product:
    """Return a function that multiplies activations by a quantized weight matrix.

    The function runs on the device of the weights, with the fastest kernel that is available there.
    """
    if weights.values.is_cpu and native.is_loaded():
        return NativeInt4(weights) if isinstance(weights, Int4) else NativeInt8(weights)
    if isinstance(weights, Int4):
        return WeightOnlyInt4(weights)
    if not weights.values.is_cpu:
        return DequantizedInt8(weights)
    if quantizes_activations():
        return DynamicInt8(weights)
    N, K = weights.values.shape
    return DequantizedInt8(weights) if N % TILE_OUTPUTS or K % TILE_OUTPUTS else WeightOnlyInt8(weights)


def quantized_product(weight: Tensor, kind: Quantization) -> Product:
    """Quantize a weight matrix, and return a function that multiplies activations by it.

    Shapes: weight [N, K].
    """
    is_native = weight.is_cpu and native.is_loaded()
    if kind is Quantization.FLOAT16:
        return NativeFloat16(weight) if is_native else WeightOnlyFloat16(weight)
    if not is_native:
        return product_function(quantize_weight(weight, kind))
    is_int4 = kind is Quantization.INT4 and supports_int4(*weight.shape)
    return NativeInt4(weight) if is_int4 else NativeInt8(weight)


def quantized_bytes(N: int, K: int, kind: Quantization) -> int:
    """Return the size in bytes of a quantized [N, K] weight matrix, including its scales."""
    if kind is Quantization.FLOAT16:
        return 2 * N * K
    if kind is Quantization.INT4 and supports_int4(N, K):
        return N * K // 2 + 4 * N * (K // GROUP_WEIGHTS)
    return N * K + 12 * N


def supports_int4(N: int, K: int) -> bool:
    """True if the int4 kernels support an [N, K] weight matrix."""
    return not (N % TILE_OUTPUTS or K % GROUP_WEIGHTS)


def quantizes_activations() -> bool:
    """True if int8 products without the C++ operators also quantize the activations to int8.

    This is the case on x86, because fbgemm's kernels are used there.
    """
    return is_x86() and "fbgemm" in torch.backends.quantized.supported_engines


@cache
def supports_float16() -> bool:
    """True if fbgemm's float16 kernels are available and batch-invariant.

    fbgemm does not guarantee batch invariance, so the kernels are tested on the running CPU with one and two threads.
    """
    if not quantizes_activations():
        return False
    random = torch.Generator().manual_seed(1)
    product = WeightOnlyFloat16(torch.randn((80, 1100), generator=random))
    rows, threads, wholes = torch.randn((70, 1100), generator=random), torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            wholes.append(batch_output := product(rows))
            if not all(torch.equal(product(rows[3 : 3 + count]), batch_output[3 : 3 + count]) for count in TESTED_ROWS):
                return False
    finally:
        torch.set_num_threads(threads)
    return torch.equal(*wholes)


def cpu_quantizations() -> list[Quantization]:
    """Return the quantizations that this CPU supports, from largest to smallest."""
    return [kind for kind in Quantization if kind is not Quantization.FLOAT16 or supports_float16()]


def supported_quantizations(device: str) -> list[Quantization]:
    """Return the quantizations that a device type, such as `cuda`, supports."""
    return cpu_quantizations() if device == "cpu" else [Quantization.INT8] if device == "cuda" else []


def unsupported_message(kind: Quantization, device: str) -> str:
    """Return the error message for a quantization that a device type does not support."""
    able = "a CPU or a CUDA card" if kind is Quantization.INT8 else "a CPU"
    return f"the device is {device}, and {kind} needs {able}"


class WeightOnlyFloat16:
    """Callable that multiplies float32 activations by float16 weights with fbgemm.

    Weights are clamped to ±65,504. The number of rows is padded to a multiple of three.
    """

    def __init__(self, weight: Tensor) -> None:
        with _BY_FBGEMM:
            self.packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None)

    def __call__(self, rows: Tensor) -> Tensor:
        count = len(rows)
        padded = F.pad(rows.float(), (0, 0, 0, -count % FLOAT16_MIN_ROWS))
        output: Tensor = torch.ops.quantized.linear_dynamic_fp16(padded, self.packed)
        return output[:count].to(rows.dtype)


class NativeFloat16:
    """Callable that multiplies float32 activations by float16 weights in C++.

    Weights are clamped to ±65,504.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.clamp(-MAX_FLOAT16, MAX_FLOAT16).half().contiguous()

    def __call__(self, rows: Tensor) -> Tensor:
        output: Tensor = torch.ops.voicewright.float16_product(rows.float().contiguous(), self.weight)
        return output.to(rows.dtype)


class NativeTiles:
    """Callable that multiplies float32 activations by floating-point weights in C++.

    The weights are stored in tiles. All instruction sets give bitwise equal results. Float16 weights are clamped to
    ±65,504. For bfloat16 weights, the activations are also rounded to bfloat16.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype, taps: int = 1) -> None:
        if dtype is torch.float16:
            weight = weight.clamp(-MAX_FLOAT16, MAX_FLOAT16)
        self.tiles, self.outputs = native.float_tiles(weight.to(dtype), taps), len(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        return self.convolve(rows.unsqueeze(0), 1, 1)[0]

    def convolve(self, x: Tensor, taps: int, dilation: int) -> Tensor:
        """Compute a convolution without padding and bias.

        Shapes: x [B, T + (taps - 1) * dilation, C]; result [B, T, N].
        """
        kind, convolve = native.KINDS[self.tiles.dtype], torch.ops.voicewright.convolve_tiles
        output: Tensor = convolve(x.float().contiguous(), self.tiles, kind, self.outputs, taps, dilation)
        return output.to(x.dtype)


class NativeInt8:
    """Callable that quantizes activations to int8, and multiplies them by int8 weights in C++.

    Sums are exact, so results are bitwise equal on all CPUs. A weight tensor that is not quantized yet is quantized in
    C++, with the same result as `Int8.of`.
    """

    def __init__(self, weight: Int8 | Tensor) -> None:
        if isinstance(weight, Int8):
            self.tiles, self.scales = native.int8_tiles(weight.values, weight.scales)
            self.outputs = len(weight.scales)
        else:
            self.tiles, self.scales = native.quantize_int8_tiles(weight)
            self.outputs = len(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.voicewright.int8_product
        output: Tensor = product(rows.float().contiguous(), self.tiles, self.scales, self.outputs)
        return output.to(rows.dtype)


class NativeInt4:
    """Callable that quantizes activations to int8, and multiplies them by int4 weights in C++.

    A weight tensor that is not quantized yet is quantized in C++, with the same result as `Int4.of`.
    """

    def __init__(self, weight: Int4 | Tensor) -> None:
        if isinstance(weight, Int4):
            self.blocks = native.int4_blocks(weight.values, weight.scales, weight.offsets)
            self.outputs = len(weight.scales)
        else:
            self.blocks = native.quantize_int4_blocks(weight)
            self.outputs = len(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.voicewright.int4_product
        output: Tensor = product(rows.float().contiguous(), self.blocks, self.outputs)
        return output.to(rows.dtype)


class DynamicInt8:
    """Callable that quantizes activations to int8 and multiplies by int8 weights with fbgemm."""

    def __init__(self, rounded: Int8) -> None:
        # On a CPU without VNNI, two products are added in 16 bits, so smaller magnitudes are used to prevent an
        # overflow.
        self.levels = MAX_INT8 if torch.cpu._is_vnni_supported() else MAX_HALF_INT8
        self.packed = _packed_by_fbgemm(rounded)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype is not torch.float32:
            return self(rows.float()).to(rows.dtype)
        largest = rows.abs().amax(dim=-1, keepdim=True).clamp_(min=MIN_SCALE)
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        output: Tensor = product(rows / largest, 1 / self.levels, self.levels + 1, self.packed)
        return output.mul_(largest)


class DequantizedInt8:
    """Callable that multiplies activations by int8 weights and their scales in float32.

    CUDA kernels use `values` and `scales` directly and are tested against this class.
    """

    def __init__(self, rounded: Int8) -> None:
        self.values, self.scales = rounded.values, rounded.scales

    def __call__(self, rows: Tensor) -> Tensor:
        return (F.linear(rows.float(), self.values.float()) * self.scales).to(rows.dtype)


class WeightOnlyInt8:
    """Callable that multiplies bfloat16 activations by int8 weights with torch's CPU kernel."""

    def __init__(self, rounded: Int8) -> None:
        self.values, self.scales = rounded.values, rounded.scales.bfloat16()

    def __call__(self, rows: Tensor) -> Tensor:
        return _in_pieces(rows, lambda part: torch.ops.aten._weight_int8pack_mm(part, self.values, self.scales))


class WeightOnlyInt4:
    """Callable that multiplies bfloat16 activations by int4 weights with torch's CPU kernel."""

    def __init__(self, rounded: Int4) -> None:
        self.values = torch.ops.aten._convert_weight_to_int4pack_for_cpu(rounded.values, 1)
        self.groups = torch.stack((rounded.scales, rounded.offsets), dim=-1).transpose(0, 1).contiguous()

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.aten._weight_int4pack_mm_for_cpu
        return _in_pieces(rows, lambda part: product(part, self.values, GROUP_WEIGHTS, self.groups))


def _in_pieces(rows: Tensor, product: Product) -> Tensor:
    """Multiply a few rows at a time, because some CPUs sum larger batches in another order."""
    return torch.cat([product(part) for part in torch.split(rows.bfloat16(), MAX_CALL_ROWS)]).to(rows.dtype)


def _packed_by_fbgemm(rounded: Int8) -> Any:
    zeros = torch.zeros(len(rounded.scales), dtype=torch.int64)
    with _WARNED, warnings.catch_warnings():  # The lock is needed because all threads share the warning filters.
        # The tensor type that is used for packing is deprecated and causes a warning.
        warnings.simplefilter("ignore", UserWarning)
        quantized = torch._make_per_channel_quantized_tensor(rounded.values, rounded.scales.double(), zeros, 0)
    with _BY_FBGEMM:
        return torch.ops.quantized.linear_prepack(quantized, None)


class _Engine:
    """Context manager that sets torch's global quantization engine to fbgemm.

    The previous engine is restored when the last thread leaves the context.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._before = ""

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                # Select fbgemm while the weights are packed. The setting is global, but products use the library that
                # packed their weights.
                self._before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                torch.backends.quantized.engine = self._before


_BY_FBGEMM, _WARNED = _Engine(), threading.Lock()
