"""CPU implementations of torch_npu's operators for tests.

Operator names, defaults and rules are from the wheel of torch_npu 2.14.0, and from op-plugin's documents about
npu_fused_infer_attention_score, npu_fusion_attention and npu_rms_norm. docs/npu.md lists these sources.

Attention is computed in float64, so the order of additions does not change the rounded result. All arguments are CPU
tensors, which the caller has extracted from the NPU tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from tests.support.npu_backend import Misuse


def need(holds: bool, rule: str) -> None:
    """Raise Misuse with the message `rule` if `holds` is false."""
    if not holds:
        raise Misuse(rule)


class Operator:
    """Operator of torch_npu with the attributes of a PyTorch operator."""

    is_view = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__ = function.__name__
        self.overloadpacket = self
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Disable the checks of the simulated driver, because this function computes with PyTorch operators.
        with _disable_current_modes():
            return self._function(*args, **kwargs)

    def __str__(self) -> str:
        return f"torch_npu.{self.__name__}"


@Operator
def npu_fused_infer_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    atten_mask: Tensor | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute Ascend's attention operator, and return its output and an unused tensor.

    Parameters that the runtime does not use are not implemented.
    """
    need(query.dtype in (torch.float16, torch.bfloat16), f"takes float16 and bfloat16, not {query.dtype}")
    heads = num_heads, num_key_value_heads or num_heads
    mode = 0 if query.shape[2] == 1 else sparse_mode  # With one query, `sparse_mode` has no effect.
    return attention(query, key, value, input_layout, heads, atten_mask, mode, scale), torch.zeros(1)


@Operator
def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    sparse_mode: int = 0,
) -> tuple[Tensor]:
    heads, mode = (head_num, key.shape[1]), 0 if atten_mask is None else sparse_mode
    return (attention(query, key, value, input_layout, heads, atten_mask, mode, scale),)


@Operator
def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Compute RMSNorm with its weight in float32, and return the output and the scales.

    The normalized input is cast once at the end.
    """
    need(gamma.dim() == 1 and gamma.shape[0] == self.shape[-1], f"a weight {tuple(gamma.shape)} of {tuple(self.shape)}")
    need(gamma.dtype is self.dtype, f"a weight of {gamma.dtype} for {self.dtype}")
    need(self.dtype in (torch.float32, torch.float16, torch.bfloat16), f"no norm of {self.dtype}")
    wide = self.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * scale * gamma.float()).to(self.dtype), scale


def attention(
    q: Tensor, k: Tensor, v: Tensor, layout: str, heads: tuple[int, int], mask: Tensor | None, mode: int, scale: float
) -> Tensor:
    """Compute attention in float64, and return the result in the dtype of the query.

    As on the device, a non-finite value makes the result non-finite even if its weight is zero. The runtime calls
    `check_attention` first, which refuses shapes, dtypes and masks that the operators would misinterpret.
    """
    need(layout == "BNSD", f"not emulated: layout {layout}")
    need((q.shape[1], k.shape[1]) == heads, f"{heads} heads were announced")
    share = q.shape[1] // k.shape[1]
    wide_k, wide_v = (part.double().repeat_interleave(share, dim=1) for part in (k, v))
    unseen = unseen_of(mask, q.shape[2], k.shape[2], mode)
    scores = (q.double() @ wide_k.transpose(2, 3) * scale).masked_fill(unseen, -torch.inf)
    return (scores.softmax(dim=-1) @ wide_v).to(q.dtype)


def unseen_of(mask: Tensor | None, P: int, T: int, mode: int) -> Tensor:
    """Return the boolean mask of an attention call.

    It is True for keys that a query must not attend to.

    Shapes: result [P, T] or [B, 1, P, T].
    """
    if mode == 0:
        unseen = torch.zeros(P, T, dtype=torch.bool) if mask is None else mask
    else:
        # Mode 2: the first query attends to the first key. Mode 3: the last query attends to the last key.
        unseen = torch.ones(P, T, dtype=torch.bool).triu((0 if mode == 2 else T - P) + 1)
    need(not unseen.all(-1).any(), "a query may look nowhere: is the mask the wrong way round?")
    return unseen
