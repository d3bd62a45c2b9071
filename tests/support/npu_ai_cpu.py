"""Rules for operators that run on the slow AI CPU of an Ascend 910B or A3.

The rules are from CANN's sources: ``IsAiCPUSupport`` of ops-nn (e5c3fa93, index/index_put_v2, index/index) and the
dtype lists of ops-math (c4193324, math/*/op_api). Operators without a rule run on the AI cores with every dtype that a
frame uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

FLOATS = {torch.float32, torch.float16, torch.bfloat16}
INTEGERS = {torch.int32, torch.int64}
# Dtypes for which indexed writes always run on the AI cores (CANN's DTYPE_910B_SUPPORT_ATOMIC).
ATOMIC = FLOATS | {torch.int32, torch.int8, torch.bool}
# Limits of indexed writes with other dtypes on the AI cores: number of indices (CANN's MAX_RESERVE_NUM), and number of
# elements per index (MULTI_DTYPE_SUPPORT_TAIL).
FEW, TAIL = 100, 128
LARGE, ROOM = 70, 5_400_000  # Limits on shapes: CANN's constants MAX_AICORE_TIAL and MAX_SHPAE_NUM (its spelling).

Reason = str | None


def indices_of(values: Any) -> list[Tensor | None]:
    return [value for value in values if value is None or isinstance(value, Tensor)]


def _indices(indices: list[Tensor | None]) -> Reason:
    kwargs = [index for index in indices if index is not None]
    if any(index.dtype not in INTEGERS for index in kwargs):
        return f"an index of {kwargs[0].dtype}"
    if any(index.shape != kwargs[0].shape for index in kwargs):
        return "indices of different shapes"
    named = "".join("1" if index is not None else "0" for index in indices).strip("0")
    return "indices that are not beside each other" if "0" in named else None


def _index_put(target: Tensor, indices: Any, values: Tensor, *_: Any) -> Reason:
    listed = indices_of(indices)
    if (why := _indices(listed)) is not None:
        return why
    if target.dtype in (torch.float64, torch.int16):
        return f"writing into {target.dtype}"
    if target.dtype in ATOMIC:
        return None
    first = next(number for number, index in enumerate(listed) if index is not None)
    count = next(index for index in listed if index is not None).numel()
    behind = target[(0,) * len(listed)].numel() if len(listed) <= target.dim() else 1
    in_front = int(torch.tensor(target.shape[:first]).prod()) if first else 1
    if count > FEW or behind > TAIL or (first and behind * in_front > TAIL):
        return f"writing so many {target.dtype}"
    if behind > LARGE or (behind <= FEW and target.numel() > ROOM):
        return f"writing {target.dtype} of such a shape"
    return None


def _index(target: Tensor, indices: Any) -> Reason:
    if target.dtype not in FLOATS | INTEGERS | {torch.bool, torch.int8, torch.uint8}:
        return f"reading {target.dtype}"
    return _indices(indices_of(indices))


def _only(*dtypes: torch.dtype) -> Callable[..., Reason]:
    def check(first: Any, *rest: Any, **kwargs: Any) -> Reason:
        operands = [part for part in (first, *rest) if isinstance(part, Tensor)]
        return next((f"{part.dtype}" for part in operands if part.dtype not in dtypes), None)

    return check


def _sort(x: Tensor, *rest: Any, **kwargs: Any) -> Reason:
    return f"{x.dtype}" if x.dtype not in FLOATS else "a single number" if x.shape[-1] == 1 else None


def _where(condition: Tensor, one: Any, other: Any) -> Reason:
    parts = [part for part in (one, other) if isinstance(part, Tensor)]
    return next((f"{part.dtype}" for part in parts if part.dtype not in FLOATS | INTEGERS | {torch.int8}), None)


def _always(*rest: Any, **kwargs: Any) -> Reason:
    return "always"


RULES: dict[str, Callable[..., Reason]] = {
    "index": _index,
    "index_put": _index_put,
    "index_put_": _index_put,
    "_index_put_impl_": _index_put,
    "searchsorted": _always,
    "bincount": _always,
    "sort": _sort,
    "topk": _only(*FLOATS),
    "cumsum": _only(*FLOATS, torch.int32),
    "_softmax": _only(*FLOATS),
    "argmax": _only(*FLOATS, *INTEGERS),
    "isfinite": _only(*FLOATS),
    "logical_and": _only(torch.bool),
    "logical_or": _only(torch.bool),
    "bitwise_xor": _only(torch.bool, torch.int16, *INTEGERS),
    "where": _where,
    "scatter_add_": _only(torch.float32, *INTEGERS),
}


def reason(func: Any, args: Any, kwargs: Any) -> Reason:
    """Return the reason why an operator runs on the AI CPU, or None if it runs on AI cores."""
    tensors = [part for part in args if isinstance(part, Tensor)]
    if any(tensor.dtype is torch.float64 for tensor in tensors) and not func.is_view:
        return "torch.float64"
    rule = RULES.get(func.overloadpacket.__name__)
    return None if rule is None else rule(*args, **kwargs)
