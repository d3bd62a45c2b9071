"""Matrix products and convolutions on a CPU, bitwise independent of the batch.

CPU matrix kernels process four input rows at a time and the remaining rows differently, so the last bits of an output
row depend on the number of rows. Here, the number of rows and the summed dimension are padded to multiples of four, and
a convolution is the sum of one product per tap. Results are then bitwise equal in any batch and for any division into
chunks, and the products are as fast as PyTorch's convolutions.

On Intel processors, MKL's strict mode is also needed (runtime/__init__.py). PyTorch does not guarantee batch
invariance; tests/unit/model/test_products.py checks float32. GPUs use PyTorch's convolutions. All audio is [B, T, C],
so a row is a time step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device import native
from runtime.device.packed import pack_weight
from runtime.device.quantized import (
    NativeTiles,
    Product,
    Quantization,
    WeightOnlyFloat16,
    quantized_product,
    supports_float16,
)

KERNEL_ROWS = 4  # Number of rows that a kernel processes at a time.
# Minimum number of rows of a sequence that is multiplied separately. Shorter sequences of a batch are copied into one
# matrix.
MIN_SEPARATE_PRODUCT_ROWS = 64


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x @ weight.T + bias, bitwise independent of the batch on a CPU.

    Shapes: x [..., K]; weight [N, K]; bias [N]; result [..., N].
    """
    if not x.is_cpu:
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    count = len(rows)
    return F.linear(*_in_fours(rows, weight), bias)[:count].view(*x.shape[:-1], -1)


def silu(x: Tensor) -> Tensor:
    """Return x * sigmoid(x) with the same rounding for all elements, unlike ``F.silu``."""
    if not x.is_cpu or x.dtype is not torch.float32:
        return F.silu(x)
    return x / (1 + torch.exp(-x))


def convolve_by_taps(x: Tensor, taps: Sequence[Tensor], bias: Tensor, dilation: int) -> Tensor:
    """Compute a convolution without padding as a sum of one matrix product per tap.

    Output t is bias + sum over i of x[t + i * dilation] @ taps[i].T.

    Shapes: x [B, T + (taps - 1) * dilation, C]; each tap [N, C]; bias [N]; result [B, T, N].
    """
    B, width = len(x), len(bias)
    T = x.shape[1] - (len(taps) - 1) * dilation
    # If the sequences are short, one product computes the results of all sequences.
    if B > 1 and T < MIN_SEPARATE_PRODUCT_ROWS:
        return _taps_of([x[:, i * dilation :][:, :T].flatten(0, 1) for i in range(len(taps))], taps, bias).view(
            B, T, -1
        )
    result = x.new_empty(B, T + -T % KERNEL_ROWS, width)
    x = F.pad(x, (0, 0, 0, -T % KERNEL_ROWS)) if T % KERNEL_ROWS else x
    for row, out in zip(x, result, strict=True):
        _taps_of([row[i * dilation :][: len(out)] for i in range(len(taps))], taps, bias, out)
    return result[:, :T]


def _taps_of(parts: list[Tensor], taps: Sequence[Tensor], bias: Tensor, out: Tensor | None = None) -> Tensor:
    """Return bias + sum over i of parts[i] @ taps[i].T.

    Shapes: parts [M, C]; taps [N, C]; bias [N]; result [M, N].
    """
    count = len(parts[0])
    pairs = [_in_fours(part, tap) for part, tap in zip(parts, taps, strict=True)]
    rows, tap = pairs[0]
    out = torch.addmm(bias, rows, tap.t(), out=out)
    for rows, tap in pairs[1:]:
        out.addmm_(rows, tap.t())
    return out[:count]


def _in_fours(rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pad rows and the summed dimension with zeros to multiples of four.

    Shapes: rows [M, K]; weight [N, K].
    """
    M, K = rows.shape
    if M % KERNEL_ROWS or K % KERNEL_ROWS:
        rows = F.pad(rows, (0, -K % KERNEL_ROWS, 0, -M % KERNEL_ROWS))
    return rows, F.pad(weight, (0, -K % KERNEL_ROWS)) if K % KERNEL_ROWS else weight


class Linear(nn.Linear):
    """``nn.Linear`` with batch-invariant results, and optionally packed or quantized weights."""

    # Function that multiplies by packed weights and replaces the product with ``weight``.
    product: Product | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.product is None:
            return linear(x, self.weight, self.bias)
        output = self.product(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features)
        return output if self.bias is None else output.add_(self.bias)

    def quantize(self, kind: Quantization) -> None:
        """Quantize the weight, and release the memory of the published weight."""
        # Without `detach`, autograd would keep the published weights in memory.
        self.set_product(quantized_product(self.weight.detach(), kind))

    def lay_out(self, dtype: torch.dtype = torch.float32) -> None:
        """Store the weight in `dtype`, in the layout of a faster product function if one exists.

        The product function must be batch-invariant.
        """
        if (product := low_precision_product(self.weight, dtype)) is not None:
            self.set_product(product)

    def pack(self) -> None:
        """Store the weight in oneDNN's packed layout, if its products are batch-invariant."""
        if self.product is None and (product := pack_weight(self.weight.detach())) is not None:
            self.set_product(product)

    def set_product(self, product: Product, dtype: torch.dtype | None = None) -> None:
        """Replace the weight with a function that multiplies input rows by the weight.

        The parameter `weight` becomes an empty tensor of the same dtype, or of `dtype` if it is not None.
        """
        self.product, self.weight = product, _released(self.weight, dtype)


class MappedEmbedding(nn.Embedding):
    """``nn.Embedding`` whose rows may be memory-mapped from the checkpoint's file.

    Memory-mapped rows have the published dtype. Each lookup casts its result.
    """

    dtype: torch.dtype | None = None  # Dtype of the result, or None for the dtype of the rows.

    def forward(self, ids: Tensor) -> Tensor:
        return self._cast(F.embedding(ids, self.weight))

    @property
    def rows(self) -> Tensor:
        """Return all rows of the table, cast to the dtype of a lookup.

        Shapes: result [V, H].
        """
        return self._cast(self.weight)

    def _cast(self, rows: Tensor) -> Tensor:
        return rows if self.dtype is None else rows.to(self.dtype)


class LowPrecisionProduct:
    """Product function that computes in the weight's dtype, and casts to the input's dtype."""

    def __init__(self, product: Product, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._product = product

    def __call__(self, rows: Tensor) -> Tensor:
        return self._product(rows.to(self.dtype)).to(rows.dtype)


def low_precision_product(weight: Tensor, dtype: torch.dtype, taps: int = 1) -> Product | None:
    """Return a function that multiplies input rows by a weight matrix stored in `dtype`.

    Shapes: weight [N, taps * C].

    Returns:
        None if torch's own product is the fastest batch-invariant product.
    """
    if native.supports_convolution(dtype):
        return NativeTiles(weight.detach(), dtype, taps)
    if dtype is torch.float16:
        return WeightOnlyFloat16(weight.detach()) if supports_float16() else None
    product = pack_weight(weight.detach().to(dtype)) if dtype.itemsize < weight.dtype.itemsize else None
    return None if product is None else LowPrecisionProduct(product, dtype)


def convolve_as_one_product(x: Tensor, product: Product, taps: int, dilation: int) -> Tensor:
    """Compute a convolution without padding and bias as one matrix product.

    Args:
        product: Function that multiplies input rows [M, taps * C] by the weights of all taps.

    Shapes: x [B, T + (taps - 1) * dilation, C]; result [B, T, N].
    """
    if isinstance(product, NativeTiles):
        return product.convolve(x, taps, dilation)
    B, length, C = x.shape
    T = length - (taps - 1) * dilation
    if isinstance(product, LowPrecisionProduct):
        x = x.to(product.dtype)
    x = x.contiguous()
    rows = x.as_strided((B, T, taps, C), (length * C, C, dilation * C, 1)).reshape(B * T, taps * C)
    return product(rows).float().view(B, T, -1)


def _released(weight: Tensor, dtype: torch.dtype | None = None) -> nn.Parameter:
    """Return an empty CPU parameter that replaces a weight."""
    return nn.Parameter(torch.empty((0, *weight.shape[1:]), dtype=dtype or weight.dtype), requires_grad=False)


class Conv(nn.Conv1d):
    """Convolution over [B, T, C] without padding: T decreases by (kernel - 1) * dilation."""

    # Function that multiplies by the weights of all taps and replaces the product with ``weight``.
    product: Product | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cpu:
            return super().forward(x.transpose(1, 2)).transpose(1, 2)
        if self.product is not None:
            output = convolve_as_one_product(x, self.product, self.kernel_size[0], self.dilation[0])
            return output if self.bias is None else output.add_(self.bias)
        if self.groups > 1:
            return self._each_channel(x)
        if self.kernel_size[0] == 1:
            return linear(x, self.weight[:, :, 0], self.bias)
        assert self.bias is not None, "every published convolution has a bias"
        return convolve_by_taps(x, self.weight.permute(2, 0, 1).unbind(), self.bias, self.dilation[0])

    def _each_channel(self, x: Tensor) -> Tensor:
        """Compute a depthwise convolution tap by tap."""
        step = self.dilation[0]
        taps = self.weight[:, 0].unbind(1)
        T = x.shape[1] - (len(taps) - 1) * step
        total = x[:, :T] * taps[0]
        for i, tap in enumerate(taps[1:], 1):
            total += x[:, i * step : i * step + T] * tap
        return total if self.bias is None else total.add_(self.bias)

    def lay_out(self, dtype: torch.dtype = torch.float32) -> None:
        """Store the weight in the layout of the CPU products.

        The weight becomes one matrix in `dtype`, or one contiguous matrix per tap.
        """
        if self.groups > 1:
            return
        if not stores_low_precision(self, dtype):
            dtype = torch.float32
        if (
            product := low_precision_product(self.weight.permute(0, 2, 1).flatten(1), dtype, self.kernel_size[0])
        ) is not None:
            self.product, self.weight = product, _released(self.weight)
        else:
            self.weight.data = self.weight.permute(2, 0, 1).contiguous().permute(1, 2, 0)


class TransposedConv(nn.ConvTranspose1d):
    """Transposed convolution over [B, T, C], without the incomplete outputs at both ends.

    The result has (T - kernel / stride + 1) * stride time steps.
    """

    # Function that multiplies by the weights of all taps and replaces the product with ``weight``.
    product: Product | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # The size of x determines output_size.
        stride = self.stride[0]
        parts = self.kernel_size[0] // stride
        T = (x.shape[1] - parts + 1) * stride
        if not x.is_cpu:
            start = (parts - 1) * stride
            return super().forward(x.transpose(1, 2))[..., start : start + T].transpose(1, 2)
        assert self.bias is not None, "every published convolution has a bias"
        if self.product is not None:
            return convolve_as_one_product(x, self.product, parts, 1).view(len(x), T, -1).add_(self.bias)
        # One product computes the outputs of `stride` time steps. The taps are ordered from the oldest input to the
        # newest.
        taps = self.weight.permute(2, 1, 0).reshape(parts, -1, self.in_channels).unbind()[::-1]
        return convolve_by_taps(x, taps, self.bias.repeat(stride), 1).reshape(len(x), T, -1)

    def lay_out(self, dtype: torch.dtype = torch.float32) -> None:
        """Store the weight in the layout of the CPU's matrix products.

        The weight becomes one matrix if a product in `dtype` is available. Otherwise it becomes one contiguous matrix
        per tap.
        """
        stride = self.stride[0]
        parts = self.kernel_size[0] // stride
        # Transposing a matrix and then moving its rows is several times faster than one permutation.
        rows = self.weight.flatten(1).t().contiguous().view(self.out_channels, parts, stride, self.in_channels)
        taps = torch.stack([part.transpose(0, 1) for part in reversed(rows.unbind(1))], dim=2)
        if (product := low_precision_product(taps.flatten(0, 1).flatten(1), dtype, parts)) is not None:
            self.product, self.weight = product, _released(self.weight)
        else:
            self.weight.data = self.weight.permute(2, 1, 0).contiguous().permute(2, 1, 0)


def stores_low_precision(module: nn.Module, dtype: torch.dtype) -> bool:
    """True if `lay_out` stores a module's weights in the narrower `dtype`.

    The CPU must support `dtype`. Float16 is not used for convolutions, because float16 products are only fast for a few
    rows.
    """
    if isinstance(module, Conv):
        return module.groups == 1 and dtype is not torch.float16
    return isinstance(module, Linear | TransposedConv)


def low_precision_modules(network: nn.Module, dtype: torch.dtype) -> list[str]:
    """Return the names of the modules whose weights `lay_out` stores in the narrower `dtype`."""
    return [name for name, module in network.named_modules() if stores_low_precision(module, dtype)]


def pack(module: nn.Module) -> None:
    """Store the weight of a linear layer on a CPU in oneDNN's packed layout."""
    if isinstance(module, Linear) and module.weight.is_cpu:
        module.pack()


def lay_out(network: nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """Store the weights of a loaded network in the layout of the CPU products.

    Args:
        dtype: Dtype in which the CPU products store the weights.
    """
    for module in network.modules():
        layout_function(dtype)(module)


def layout_function(dtype: torch.dtype) -> Callable[[nn.Module], None]:
    """Return a function that stores the weights of one module in the layout of CPU products.

    The function does nothing for modules without a product and for weights on other devices.
    """

    def lay_out(module: nn.Module) -> None:
        if isinstance(module, Linear | Conv | TransposedConv) and module.weight.is_cpu:
            module.lay_out(dtype)

    return lay_out
