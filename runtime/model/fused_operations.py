"""Does a layer's operations in one launch each, for few rows; the twin is ``Operations`` itself."""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Fused
from runtime.model.layers import Operations, RMSNorm, SwiGLU
from runtime.model.products import Linear


class FusedOperations(Operations):
    """Takes [..., K] with at most ``fused.most_rows`` rows; more go one operation after the other."""

    def __init__(self, fused: Fused) -> None:
        self._fused = fused

    def linear(self, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(x, linear)
        out = self._fused.gemm(x.flatten(0, -2), linear.weight, bias=linear.bias)
        return out.view(*x.shape[:-1], -1)

    def linear_into(self, out: Tensor, x: Tensor, linear: Linear) -> None:
        if self._too_many(x):
            super().linear_into(out, x, linear)
        else:
            self._fused.gemm(x, linear.weight, bias=linear.bias, out=out)

    def norm(self, x: Tensor, norm: RMSNorm) -> Tensor:
        return self._fused.norm(x.flatten(0, -2), norm.plain).view(x.shape)

    def norm_linear(self, x: Tensor, norm: RMSNorm, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().linear(self.norm(x, norm), linear)
        out = self._fused.gemm(x.flatten(0, -2), linear.weight, norm=norm.plain, bias=linear.bias)
        return out.view(*x.shape[:-1], -1)

    def add_linear(self, residual: Tensor, x: Tensor, linear: Linear) -> Tensor:
        if self._too_many(x):
            return super().add_linear(residual, x, linear)
        rows = residual.flatten(0, -2)
        return self._fused.gemm(x.flatten(0, -2), linear.weight, bias=linear.bias, residual=rows).view_as(residual)

    def norm_swiglu(self, x: Tensor, norm: RMSNorm, mlp: SwiGLU) -> Tensor:
        if self._too_many(x):
            return mlp.inner(self.norm(x, norm))
        out = self._fused.swiglu(x.flatten(0, -2), norm.plain, mlp.gate_up_proj.weight)
        return out.view(*x.shape[:-1], -1)

    def _too_many(self, x: Tensor) -> bool:
        return x[..., 0].numel() > self._fused.most_rows
