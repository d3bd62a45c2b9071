"""Decoder layer operations with fused kernels, for small batches.

Each operation is one kernel launch. The reference implementation is ``runtime.model.layers.Operations``.
"""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Fused, Norm
from runtime.device.quantized import DequantizedInt8
from runtime.model.layers import Operations, RMSNorm, SwiGLU
from runtime.model.products import Linear


class FusedOperations(Operations):
    """Decoder layer operations with fused kernels, for at most `fused.max_rows` rows.

    Inputs [..., K] with more rows use separate torch operations.
    """

    def __init__(self, fused: Fused) -> None:
        self._fused = fused

    def linear(self, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(x, linear)
        return self._gemm(x.flatten(0, -2), linear).view(*x.shape[:-1], -1)

    def linear_into(self, out: Tensor, x: Tensor, linear: Linear) -> None:
        if self._too_many(x):
            super().linear_into(out, x, linear)
        else:
            self._gemm(x, linear, out=out)

    def norm(self, x: Tensor, norm: RMSNorm) -> Tensor:
        return self._fused.norm(x.flatten(0, -2), norm.plain).view(x.shape)

    def norm_linear(self, x: Tensor, norm: RMSNorm, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(self.norm(x, norm), linear)
        return self._gemm(x.flatten(0, -2), linear, norm=norm.plain).view(*x.shape[:-1], -1)

    def add_linear(self, residual: Tensor, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().add_linear(residual, x, linear)
        return self._gemm(x.flatten(0, -2), linear, residual=residual.flatten(0, -2)).view_as(residual)

    def norm_swiglu(self, x: Tensor, norm: RMSNorm, mlp: SwiGLU) -> Tensor:
        if self._too_many(x):
            return mlp.inner(self.norm(x, norm))
        weight, scale = _matrix(mlp.gate_up_proj)
        out = self._fused.swiglu(x.flatten(0, -2), norm.plain, weight, scale=scale)
        return out.view(*x.shape[:-1], -1)

    def _gemm(
        self,
        x: Tensor,
        linear: Linear,
        *,
        norm: Norm | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Call ``Fused.gemm`` with the weights and bias of a layer.

        Shapes: x [M, K]; residual, out, result [M, N].
        """
        weight, scale = _matrix(linear)
        return self._fused.gemm(x, weight, scale=scale, bias=linear.bias, norm=norm, residual=residual, out=out)

    def _too_many(self, x: Tensor) -> bool:
        return x[..., 0].numel() > self._fused.max_rows


def _matrix(linear: Linear) -> tuple[Tensor, Tensor | None]:
    """Return the weights [N, K], and the scales [N] of int8 weights or None."""
    if isinstance(linear.product, DequantizedInt8):
        return linear.product.values, linear.product.scales
    assert linear.product is None, "a card has no other weights"
    return linear.weight, None
