"""CPU implementations of torch_npu's operators for tests.

They raise `Misuse` for arguments that the real operators refuse or misinterpret. Names, defaults and rules are from
torch_npu 2.14.0 (its wheel's operator table and Python sources) and from op-plugin's documents of
npu_fused_infer_attention_score, npu_fusion_attention and npu_rms_norm (docs/npu.md). Attention is computed in float64,
so the order of additions does not change the rounded result. All arguments are CPU tensors (`NpuTensor.held`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from tests.support.npu_backend import Misuse

UNBOUND = 2147483647
COMPRESSED = 2048


def need(holds: bool, rule: str) -> None:
    """Raise Misuse with the message `rule` if the condition `holds` is false."""
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
        with _disable_current_modes():  # The driver must not check the PyTorch operators in this function.
            return self._function(*args, **kwargs)

    def __str__(self) -> str:
        return f"torch_npu.{self.__name__}"


@Operator
def npu_fused_infer_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    pse_shift: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_lengths: list[int] | None = None,
    actual_seq_lengths_kv: list[int] | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    pre_tokens: int = UNBOUND,
    next_tokens: int = UNBOUND,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    softmax_lse_flag: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the output of Ascend's attention operator, and an unused second output.

    Parameters for paged caches, shared prefixes and quantization are not implemented.
    """
    need(pse_shift is None and not softmax_lse_flag, "not emulated: pse_shift, softmax_lse_flag")
    need(actual_seq_lengths is None and actual_seq_lengths_kv is None, "not emulated: lengths")
    need(query.dtype in (torch.float16, torch.bfloat16), f"takes float16 and bfloat16, not {query.dtype}")
    check_heads(query, key, value, input_layout, num_heads, num_key_value_heads or num_heads)
    q, k, v = query, key, value
    need(q.shape[3] % 16 == 0 and q.shape[3] <= 512, f"heads come in sixteens up to 512, not {q.shape[3]}")
    need(q.shape[1] <= 64 * k.shape[1], "at most 64 query heads to a key head")
    need(0 <= sparse_mode <= 4, f"sparse_mode {sparse_mode} is not supported")
    single = q.shape[2] == 1
    need(inner_precise in ((0, 1) if single else (0, 1, 2, 3)), f"inner_precise {inner_precise} for {q.shape[2]}")
    mode = 0 if single else sparse_mode  # With one query, `sparse_mode` has no effect.
    if atten_mask is not None:
        need(atten_mask.dtype in (torch.bool, torch.int8, torch.uint8), f"a mask of {atten_mask.dtype}")
        B, _, P, _ = q.shape
        T = k.shape[2]
        shapes = [(B, T), (B, 1, T), (B, 1, 1, T)]
        if not single:
            shapes = [(P, T), (B, P, T), (1, P, T), (B, 1, P, T), (1, 1, P, T)]
        check_mask(atten_mask, shapes, mode)
    unseen = unseen_of(atten_mask, q, k, mode, pre_tokens, next_tokens)
    return attention(q, k, v, unseen, scale), torch.zeros(1, device=query.device)


@Operator
def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = UNBOUND,
    next_tockens: int = UNBOUND,
    inner_precise: int = 0,
    prefix: list[int] | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, int, int, int]:
    for name, kwargs in (("pse", pse), ("padding_mask", padding_mask), ("prefix", prefix)):
        need(kwargs is None, f"not emulated: {name}")
    need(actual_seq_qlen is None and actual_seq_kvlen is None, "not emulated: lengths")
    need(keep_prob == 1.0, "dropout where nothing is trained")
    takes = (torch.float16, torch.bfloat16, torch.float32)
    need(query.dtype in takes, f"takes float16, bfloat16 and float32, not {query.dtype}")
    check_heads(query, key, value, input_layout, head_num, key.shape[1])
    q, k, v = query, key, value
    need(q.shape[3] <= 768, f"heads of at most 768, not {q.shape[3]}")
    need(0 <= sparse_mode <= 4, f"not emulated: sparse_mode {sparse_mode}")
    need(inner_precise in (0, 2), f"inner_precise {inner_precise} is reserved")
    if atten_mask is not None:
        need(atten_mask.dtype in (torch.bool, torch.uint8), f"a mask of {atten_mask.dtype}")
        B, heads, P, _ = q.shape
        T = k.shape[2]
        check_mask(atten_mask, [(P, T), (1, 1, P, T), (B, 1, P, T), (B, heads, P, T)], sparse_mode)
    mode = 0 if atten_mask is None else sparse_mode
    unseen = unseen_of(atten_mask, q, k, mode, pre_tockens, next_tockens)
    return attention(q, k, v, unseen, scale), None, None, None, 0, 0, 0


@Operator
def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Return RMSNorm with its weight, computed in float32 and cast once, and the scales."""
    need(gamma.dim() == 1 and gamma.shape[0] == self.shape[-1], f"a weight {tuple(gamma.shape)} of {tuple(self.shape)}")
    need(gamma.dtype is self.dtype, f"a weight of {gamma.dtype} for {self.dtype}")
    need(self.dtype in (torch.float32, torch.float16, torch.bfloat16), f"no norm of {self.dtype}")
    wide = self.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * scale * gamma.float()).to(self.dtype), scale


def check_heads(query: Tensor, key: Tensor, value: Tensor, layout: str, heads: int, kv_heads: int) -> None:
    """Check the shapes, dtypes and devices of the arguments of an attention operator.

    Only the layout BNSD, which the runtime uses, is implemented.
    """
    need(layout == "BNSD", f"not emulated: layout {layout}")
    for name, part in (("queries", query), ("keys", key), ("values", value)):
        need(part.dim() == 4, f"{name} of {part.dim()} dimensions are not {layout}")
        need(part.is_contiguous(), f"{name} are not contiguous")
        need(part.dtype is query.dtype, f"{name} have another dtype than the queries")
        need(part.device == query.device, f"{name} lie on another device than the queries")
    need(key.shape == value.shape, "keys and values have other shapes than each other")
    need(query.shape[1] == heads, f"{heads} heads were announced, and there are {query.shape[1]}")
    need(key.shape[1] == kv_heads, f"{kv_heads} key heads were announced, and there are {key.shape[1]}")
    need(heads % kv_heads == 0 and heads <= 256, f"{heads} heads over {kv_heads} key heads")
    is_alike = (query.shape[0], query.shape[3]) == (key.shape[0], key.shape[3])
    need(is_alike, "queries and keys differ in rows or in the size of a head")


def check_mask(mask: Tensor, shapes: list[tuple[int, ...]], mode: int) -> None:
    """Check that the attention mask has one of `shapes`, or 2048 x 2048 in modes 2 to 4."""
    need(mask.is_contiguous(), "the mask is not contiguous")
    if mode in (0, 1):
        need(tuple(mask.shape) in shapes, f"a mask of {tuple(mask.shape)} where one of {shapes} belongs")
        return
    need(
        tuple(mask.shape[-2:]) == (COMPRESSED, COMPRESSED), f"mode {mode} takes a mask of {COMPRESSED} by {COMPRESSED}"
    )
    need(mask.numel() == COMPRESSED**2, "one compressed mask serves every row")
    causal = torch.ones(COMPRESSED, COMPRESSED, dtype=torch.bool, device=mask.device).triu(1)
    is_causal = torch.equal(mask.view(COMPRESSED, COMPRESSED).bool(), causal)
    need(is_causal, "the compressed mask is not True above the diagonal and False elsewhere")


def unseen_of(mask: Tensor | None, q: Tensor, k: Tensor, mode: int, before: int, after: int) -> Tensor:
    """Return the boolean mask that is true for keys that a query must not attend to.

    Shapes: result [B or 1, heads or 1, P, T] bool.
    """
    B, P, T = len(q), q.shape[2], k.shape[2]
    need(mode == 0 or mask is not None, f"mode {mode} needs its mask")
    if mask is None:
        unseen = torch.zeros(1, 1, P, T, dtype=torch.bool, device=q.device)
    elif mode in (0, 1):
        need((before, after) == (UNBOUND, UNBOUND), "not emulated: bands")
        # With one query, the mask of a row has no query dimension. Other masks may omit leading dimensions.
        unseen = mask.bool().view(-1, 1, 1, T) if P == 1 and mask.dim() < 4 and len(mask) == B else mask.bool()
        unseen = (
            unseen.unsqueeze(1) if unseen.dim() == 3 else unseen.expand(1, 1, P, T) if unseen.dim() == 2 else unseen
        )
    else:
        need(mode in (2, 3), "not emulated: bands")
        # Mode 2: the first query attends to the first key. Mode 3: the last query attends to the last key.
        first = 0 if mode == 2 else T - P
        unseen = torch.ones(P, T, dtype=torch.bool, device=q.device).triu(first + 1).expand(1, 1, P, T)
    looks_nowhere = bool(unseen.all(-1).any())
    need(not looks_nowhere, "a query may look nowhere: is the mask the wrong way round?")
    need(unseen.shape[0] in (1, B), "rows of the mask")
    return unseen


def attention(q: Tensor, k: Tensor, v: Tensor, unseen: Tensor, scale: float) -> Tensor:
    """Compute attention in float64, and return the result in the dtype of the query.

    As on the device, a non-finite value makes the result non-finite even if its weight is zero.
    """
    share = q.shape[1] // k.shape[1]
    wide_k, wide_v = (part.double().repeat_interleave(share, dim=1) for part in (k, v))
    scores = (q.double() @ wide_k.transpose(2, 3) * scale).masked_fill(unseen, -torch.inf)
    return (scores.softmax(dim=-1) @ wide_v).to(q.dtype)
