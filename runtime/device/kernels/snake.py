"""SnakeBeta inside other kernels: x + sin^2(x e^alpha) / (e^beta + eps), without the library's sine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

SNAKE_EPS = 1e-9

# 1.5 * 2^23: a float32 below 2^22 that is added to it and taken from it again is rounded to an integer.
ROUNDING = tl.constexpr(12582912.0)


@dataclass(frozen=True, slots=True)
class Snake:
    """The two numbers of each channel as the kernel wants them. Shapes: both [C] float32."""

    rate: Tensor  # e^alpha / pi
    gain: Tensor  # 1 / (e^beta + eps)

    @classmethod
    def of(cls, alpha: Tensor, beta: Tensor) -> Snake:
        """From the exponents that are published."""
        return cls((alpha.double().exp() / math.pi).float(), (1 / (beta.double().exp() + SNAKE_EPS)).float())

    def repeated(self, times: int) -> Snake:
        """For a product that makes ``times`` moments of all channels at once."""
        return Snake(self.rate.repeat(times), self.gain.repeat(times))

    def padded(self, channels: int) -> Snake:
        """With channels beyond the last that stay what they are."""
        return Snake(F.pad(self.rate, (0, channels)), F.pad(self.gain, (0, channels)))


@triton.jit
def snake(x, rate, gain):
    """Float32 throughout. sin^2 has period pi, and over half turns u = r^2 it is a polynomial (error 2e-7)."""
    half_turns = x * rate
    r = half_turns - ((half_turns + ROUNDING) - ROUNDING)
    u = r * r
    q = 12.990729331970215 - 3.2729451656341553 * u
    q = q * u - 30.085952758789062
    q = q * u + 42.72538375854492
    q = q * u - 32.469581604003906
    q = q * u + 9.869603157043457
    return x + gain * (u * q)
