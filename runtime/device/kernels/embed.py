"""A frame's embedding: one row of each codebook's table, and one of the text, summed in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import launch_options

WIDTH = 256  # numbers of a row that share a program


def embed_sum(tables: Tensor, ids: Tensor, extra: Tensor) -> Tensor:
    """The sum of the codebooks' rows, summed in float32 and cast, then the extra row.

    Shapes: tables [Q, V, H]; ids [B, Q] int64, all in [0, V); extra [B, H] in the tables' dtype; result [B, H].
    """
    Q, V, H = tables.shape
    assert (*ids.shape, *extra.shape) == (len(extra), Q, len(ids), H)
    assert tables.dtype == extra.dtype
    assert all(tensor.is_contiguous() for tensor in (tables, ids, extra))
    out = torch.empty_like(extra)
    grid = (len(ids), triton.cdiv(H, WIDTH))
    _embed_sum[grid](tables, ids, extra, out, V, H, Q=Q, WIDTH=WIDTH, num_warps=1, **launch_options())
    return out


@triton.jit
def _embed_sum(tables, ids, extra, out, V, H, Q: tl.constexpr, WIDTH: tl.constexpr, PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0)
    dims = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = dims < H
    total = tl.zeros((WIDTH,), tl.float32)
    for codebook in tl.static_range(Q):
        code = tl.load(ids + row * Q + codebook)
        total += tl.load(tables + (codebook * V + code) * H + dims, mask=inside, other=0.0).to(tl.float32)
    text = tl.load(extra + row * H + dims, mask=inside, other=0.0)
    tl.store(out + row * H + dims, total.to(text.dtype) + text, mask=inside)
