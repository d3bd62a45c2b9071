"""Does a layer's operations in one launch each, for few rows; the twin is ``Operations`` itself."""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Fused
from runtime.device.quantized import DequantizedInt8
from runtime.model.layers import Operations, RMSNorm, SwiGLU
from runtime.model.products import Linear


class FusedOperations(Operations):
    """Takes [..., K] with at most ``fused.most_rows`` rows; more go one operation after the other."""

    def __init__(self, fused: Fused) -> None:
        self._fused = fused

    def linear(self, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(x, linear)
        weight, scale = _matrix(linear)
        out = self._fused.gemm(x.flatten(0, -2), weight, scale=scale, bias=linear.bias)
        return out.view(*x.shape[:-1], -1)

    def linear_into(self, out: Tensor, x: Tensor, linear: Linear) -> None:
        if self._too_many(x):
            super().linear_into(out, x, linear)
        else:
            weight, scale = _matrix(linear)
            self._fused.gemm(x, weight, scale=scale, bias=linear.bias, out=out)

    def norm(self, x: Tensor, norm: RMSNorm) -> Tensor:
        return self._fused.norm(x.flatten(0, -2), norm.plain).view(x.shape)

    def norm_linear(self, x: Tensor, norm: RMSNorm, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(self.norm(x, norm), linear)
        weight, scale = _matrix(linear)
        out = self._fused.gemm(x.flatten(0, -2), weight, scale=scale, norm=norm.plain, bias=linear.bias)
        return out.view(*x.shape[:-1], -1)

    def add_linear(self, residual: Tensor, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().add_linear(residual, x, linear)
        weight, scale = _matrix(linear)
        rows = residual.flatten(0, -2)
        out = self._fused.gemm(x.flatten(0, -2), weight, scale=scale, bias=linear.bias, residual=rows)
        return out.view_as(residual)

    def norm_swiglu(self, x: Tensor, norm: RMSNorm, mlp: SwiGLU) -> Tensor:
        if self._too_many(x):
            return mlp.inner(self.norm(x, norm))
        weight, scale = _matrix(mlp.gate_up_proj)
        out = self._fused.swiglu(x.flatten(0, -2), norm.plain, weight, scale=scale)
        return out.view(*x.shape[:-1], -1)

    def _too_many(self, x: Tensor) -> bool:
        return x[..., 0].numel() > self._fused.most_rows


def _matrix(linear: Linear) -> tuple[Tensor, Tensor | None]:
    """Weights of a product [N, K] and, where they are whole numbers, the scales of its outputs [N]."""
    if isinstance(linear.product, DequantizedInt8):
        return linear.product.values, linear.product.steps
    assert linear.product is None, "a card has no other weights"
    return linear.weight, None
