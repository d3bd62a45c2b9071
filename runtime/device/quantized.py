"""Products with weights of fewer bits, bitwise independent of the batch.

Sixteen bits: a weight is a float16 number, which published ones, bfloat16, are but for the very smallest; rows and sums
are float32.
Eight bits: a weight is a whole number of 1/127 of the largest of its output channel. On x86 the rows are rounded the
same way, each by its own largest number, and the sums are whole numbers, which no order of adding changes. On other
processors the rows stay bfloat16, and on a CUDA card what they are; sums are float32 there. Four bits: thirty-two
neighbours of a weight's row share a step and a middle, and rows are bfloat16. A CPU's kernels are torch's own, a card's
are in runtime/device/kernels; docs/decisions.md says what else there was and why these were taken.
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

GROUP = 32  # Weights of a row that share a step and a middle in int4.
THREE = 3  # fbgemm's float16 kernels add one or two rows in another order.
TRIED = range(1, 61)  # Numbers of rows tested for batch invariance.
PIECE = 4  # Maximum rows of one call: the library has another algorithm for more.
TILE = 16  # Outputs per step of the library's weight-only kernels, which must also divide K.
NEAR = 64  # Rows of a matrix rounded at a time, to stay in the cache.
FULL = 127  # Largest int8 magnitude.
HALF = 63  # The same on processors that add pairs of products in 16 bits.
SMALLEST = 1e-30  # Minimum scale, so that a row of zeros can be divided.


class Quantization(StrEnum):
    """Bits of the talker's and code predictor's weights, largest first."""

    FLOAT16 = "float16"
    INT8 = "int8"
    INT4 = "int4"


Product = Callable[[Tensor], Tensor]  # Rows [M, K] to a result [M, N] in their dtype.


@dataclass(frozen=True, slots=True)
class Int8:
    """Shapes: values [N, K] int8; steps [N] float32."""

    values: Tensor
    steps: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> Int8:
        """Shapes: weight [N, K] of any floating dtype."""
        values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
        steps = torch.empty(len(weight), device=weight.device)
        # A tensor, because a card divides by a plain number with its inverse.
        full = torch.tensor(float(FULL), device=weight.device)
        # Some rows at a time stay near a processor; whole matrices go to memory and back for each operation.
        count = NEAR if weight.is_cpu else len(weight)
        for rows, into, step in zip(*(torch.split(part, count) for part in (weight, values, steps)), strict=True):
            part = rows.float()
            torch.div(part.abs().amax(dim=1).clamp_(min=SMALLEST), full, out=step)
            into.copy_((part / step[:, None]).round_())
        return cls(values, steps)

    def weight(self) -> Tensor:
        """Return the dequantised values. Shapes: result [N, K] float32."""
        return self.values * self.steps[:, None]


@dataclass(frozen=True, slots=True)
class Int4:
    """Shapes: values [N, K] int32 from 0 to 15; steps, middles [N, K / GROUP] bfloat16, a middle is what 8 means."""

    values: Tensor
    steps: Tensor
    middles: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> Int4:
        """Shapes: weight [N, K], where GROUP divides K."""
        groups = weight.float().reshape(len(weight), -1, GROUP)
        least, most = groups.aminmax(dim=2)
        steps = ((most - least) / 15).clamp_(min=SMALLEST).bfloat16()
        middles = (least + 8 * steps.float()).bfloat16()
        values = ((groups - middles.float()[..., None]) / steps.float()[..., None] + 8).round_().clamp_(0, 15)
        return cls(values.flatten(1).to(torch.int32), steps, middles)

    def weight(self) -> Tensor:
        """Return the dequantised values. Shapes: result [N, K] float32."""
        away = (self.values.view(len(self.values), -1, GROUP) - 8) * self.steps.float()[..., None]
        return (away + self.middles.float()[..., None]).flatten(1)


Rounded = Int8 | Int4


def rounded(weight: Tensor, kind: Quantization) -> Rounded:
    """Return a matrix of whole numbers: eight bits, or four where its shape allows. Shapes: weight [N, K]."""
    return Int4.of(weight) if kind is Quantization.INT4 and takes_four_bits(*weight.shape) else Int8.of(weight)


def product_of(weights: Rounded) -> Product:
    """Return the product with rounded weights, by the kernel that their device has for their shape."""
    if weights.values.is_cpu and native.is_loaded():
        return NativeInt4(weights) if isinstance(weights, Int4) else NativeInt8(weights)
    if isinstance(weights, Int4):
        return WeightOnlyInt4(weights)
    if not weights.values.is_cpu:
        return DequantizedInt8(weights)
    if rounds_rows():
        return RoundedRowsInt8(weights)
    N, K = weights.values.shape
    return DequantizedInt8(weights) if N % TILE or K % TILE else WeightOnlyInt8(weights)


def quantized(weight: Tensor, kind: Quantization) -> Product:
    """Return the product with a matrix whose weights are rounded. Shapes: weight [N, K]."""
    return WeightOnlyFloat16(weight) if kind is Quantization.FLOAT16 else product_of(rounded(weight, kind))


def quantized_bytes(N: int, K: int, kind: Quantization) -> int:
    """Return the bytes of a product's packed weights: values, steps and per-channel or per-group constants."""
    if kind is Quantization.FLOAT16:
        return 2 * N * K
    if kind is Quantization.INT4 and takes_four_bits(N, K):
        return N * K // 2 + 4 * N * (K // GROUP)
    return N * K + 12 * N


def takes_four_bits(N: int, K: int) -> bool:
    """True if there is a kernel for a matrix of this shape."""
    return not (N % TILE or K % GROUP)


def rounds_rows() -> bool:
    """True if rows are rounded to eight bits too, as fbgemm's kernels on x86 do."""
    return is_x86() and "fbgemm" in torch.backends.quantized.supported_engines


@cache
def multiplies_float16() -> bool:
    """True if weights may be float16: fbgemm's kernels are available and batch-invariant.

    That is promised nowhere: it is tried on this very processor, by one thread and by two.
    """
    if not rounds_rows():
        return False
    random = torch.Generator().manual_seed(1)
    product = WeightOnlyFloat16(torch.randn((80, 1100), generator=random))
    rows, threads, wholes = torch.randn((70, 1100), generator=random), torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            wholes.append(whole := product(rows))
            if not all(torch.equal(product(rows[3 : 3 + count]), whole[3 : 3 + count]) for count in TRIED):
                return False
    finally:
        torch.set_num_threads(threads)
    return torch.equal(*wholes)


def kinds_here() -> list[Quantization]:
    """The bits that weights may have on this processor, the most first."""
    return [kind for kind in Quantization if kind is not Quantization.FLOAT16 or multiplies_float16()]


def kinds_on(device: str) -> list[Quantization]:
    """The bits that weights may have on a device, by its type, besides those of its dtypes."""
    return kinds_here() if device == "cpu" else [Quantization.INT8] if device == "cuda" else []


def not_on(kind: Quantization, device: str) -> str:
    """Return why a device cannot hold weights of ``kind``, as part of a sentence."""
    able = "a CPU or a CUDA card" if kind is Quantization.INT8 else "a CPU"
    return f"the device is {device}, and only {able} multiplies {kind}"


class WeightOnlyFloat16:
    """float32 rows times float16 weights, in threes of rows. A weight past 65,504 would be that."""

    def __init__(self, weight: Tensor) -> None:
        with _BY_FBGEMM:
            self.packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None)

    def __call__(self, rows: Tensor) -> Tensor:
        count = len(rows)
        padded = F.pad(rows.float(), (0, 0, 0, -count % THREE))
        made: Tensor = torch.ops.quantized.linear_dynamic_fp16(padded, self.packed)
        return made[:count].to(rows.dtype)


class NativeInt8:
    """Rows and weights of eight bits with exact sums, by our own kernels; bitwise equal on every processor."""

    def __init__(self, rounded: Int8) -> None:
        self.tiles, self.steps = native.int8_tiles(rounded.values, rounded.steps)
        self.outputs = len(rounded.steps)

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.voicewright.int8_product
        made: Tensor = product(rows.float().contiguous(), self.tiles, self.steps, self.outputs)
        return made.to(rows.dtype)


class NativeInt4:
    """The same with weights of four bits."""

    def __init__(self, rounded: Int4) -> None:
        self.blocks = native.int4_blocks(rounded.values, rounded.steps, rounded.middles)
        self.outputs = len(rounded.steps)

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.voicewright.int4_product
        made: Tensor = product(rows.float().contiguous(), self.blocks, self.outputs)
        return made.to(rows.dtype)


class RoundedRowsInt8:
    """Whole numbers times whole numbers; a row is rounded by the largest number in it."""

    def __init__(self, rounded: Int8) -> None:
        # Without VNNI two products of eight bits each are added in sixteen, which must hold them.
        self.steps = FULL if torch.cpu._is_vnni_supported() else HALF
        self.packed = _packed_by_fbgemm(rounded)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype is not torch.float32:
            return self(rows.float()).to(rows.dtype)
        most = rows.abs().amax(dim=-1, keepdim=True).clamp_(min=SMALLEST)
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        made: Tensor = product(rows / most, 1 / self.steps, self.steps + 1, self.packed)
        return made.mul_(most)


class DequantizedInt8:
    """Rows as they are times whole numbers, summed in float32 and scaled then, by any device's library.

    A card's kernels take ``values`` and ``steps`` instead, and are held to this.
    """

    def __init__(self, rounded: Int8) -> None:
        self.values, self.steps = rounded.values, rounded.steps

    def __call__(self, rows: Tensor) -> Tensor:
        return (F.linear(rows.float(), self.values.float()) * self.steps).to(rows.dtype)


class WeightOnlyInt8:
    """bfloat16 rows times whole numbers, a few rows at a time."""

    def __init__(self, rounded: Int8) -> None:
        self.values, self.steps = rounded.values, rounded.steps.bfloat16()

    def __call__(self, rows: Tensor) -> Tensor:
        return _in_pieces(rows, lambda part: torch.ops.aten._weight_int8pack_mm(part, self.values, self.steps))


class WeightOnlyInt4:
    """The same with groups of four-bit numbers."""

    def __init__(self, rounded: Int4) -> None:
        self.values = torch.ops.aten._convert_weight_to_int4pack_for_cpu(rounded.values, 1)
        self.groups = torch.stack((rounded.steps, rounded.middles), dim=-1).transpose(0, 1).contiguous()

    def __call__(self, rows: Tensor) -> Tensor:
        product = torch.ops.aten._weight_int4pack_mm_for_cpu
        return _in_pieces(rows, lambda part: product(part, self.values, GROUP, self.groups))


def _in_pieces(rows: Tensor, product: Product) -> Tensor:
    """bfloat16 products of a few rows each: for more of them some processors have matrix units that add otherwise."""
    return torch.cat([product(part) for part in torch.split(rows.bfloat16(), PIECE)]).to(rows.dtype)


def _packed_by_fbgemm(rounded: Int8) -> Any:
    zeros = torch.zeros(len(rounded.steps), dtype=torch.int64)
    with _WARNED, warnings.catch_warnings():  # Warning filters are shared by all threads.
        warnings.simplefilter("ignore", UserWarning)  # The tensor type used for packing is deprecated.
        whole = torch._make_per_channel_quantized_tensor(rounded.values, rounded.steps.double(), zeros, 0)
    with _BY_FBGEMM:
        return torch.ops.quantized.linear_prepack(whole, None)


class _Engine:
    """Names fbgemm as what packs, a global of torch's, as long as any thread is within."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._before = ""

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                # This global says which library packs; the packed weight says which one multiplies.
                self._before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                torch.backends.quantized.engine = self._before


_BY_FBGEMM, _WARNED = _Engine(), threading.Lock()
