"""SnakeBeta activation for kernels: x + sin^2(x e^alpha) / (e^beta + eps)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

SNAKE_EPS = 1e-9

# The constant 1.5 * 2^23. Adding and then subtracting it rounds a float32 below 2^22 to an integer.
ROUNDING = tl.constexpr(12582912.0)


@dataclass(frozen=True, slots=True)
class Snake:
    """Parameters of SnakeBeta for each channel, computed from a checkpoint's alpha and beta.

    Shapes: rate, gain [C] float32.
    """

    rate: Tensor  # The value e^alpha / pi for each channel.
    gain: Tensor  # The value 1 / (e^beta + eps) for each channel.

    @classmethod
    def of(cls, alpha: Tensor, beta: Tensor) -> Snake:
        """Compute the parameters from the alpha and beta of a checkpoint.

        Shapes: alpha, beta [C].
        """
        return cls((alpha.double().exp() / math.pi).float(), (1 / (beta.double().exp() + SNAKE_EPS)).float())

    def repeated(self, times: int) -> Snake:
        """Repeat the parameters for rows that contain the channels of `times` time steps."""
        return Snake(self.rate.repeat(times), self.gain.repeat(times))

    def padded(self, channels: int) -> Snake:
        """Return a copy with `channels` more channels, which the activation does not change."""
        return Snake(F.pad(self.rate, (0, channels)), F.pad(self.gain, (0, channels)))


@triton.jit
def snake(x, rate, gain):
    """Apply the SnakeBeta activation in float32: x + gain * sin^2(pi * x * rate).

    The square of the sine is computed with a polynomial, whose error is at most 2e-7.
    """
    half_turns = x * rate
    r = half_turns - ((half_turns + ROUNDING) - ROUNDING)
    u = r * r
    q = 12.990729331970215 - 3.2729451656341553 * u
    q = q * u - 30.085952758789062
    q = q * u + 42.72538375854492
    q = q * u - 32.469581604003906
    q = q * u + 9.869603157043457
    return x + gain * (u * q)
