"""Triton's kernels behind the interface that the networks know (`runtime/device/fused.py`)."""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Fused, Level, Norm, Rules, State
from runtime.device.kernels import attention, draw, edges, held, linear, piece


class Kernels(Fused):
    """One launch each."""

    most_rows = linear.MOST_ROWS

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        norm: Norm | None = None,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        if bias is None and (way := held.way(x, weight)) is not None:
            return held.held(x, weight, way, norm=norm, residual=residual, out=out)
        x = x if norm is None else self.norm(x, norm)
        return linear.linear(x, weight, bias=bias, residual=residual, out=out)

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        return linear.norm(x, norm)

    def swiglu(self, x: Tensor, norm: Norm, weight: Tensor) -> Tensor:
        if (way := held.way(x, weight, gated=True)) is not None:
            return held.held(x, weight, way, norm=norm, gated=True)
        return linear.swiglu(self.norm(x, norm), weight)

    def attend_rows(
        self,
        qkv: Tensor,
        q_norm: Norm,
        k_norm: Norm,
        cos: Tensor,
        sin: Tensor,
        keys: Tensor,
        values: Tensor,
        rows: Tensor,
        positions: Tensor,
        new: int = 1,
        *,
        settled: bool = False,
    ) -> Tensor:
        norms = q_norm.weight, k_norm.weight, q_norm.eps
        return attention.attend_rows(qkv, *norms, cos, sin, keys, values, rows, positions, new, settled=settled)

    def attend_piece(
        self,
        qkv: Tensor,
        q_norm: Norm,
        k_norm: Norm,
        cos: Tensor,
        sin: Tensor,
        keys: Tensor,
        values: Tensor,
        slot: Tensor,
        start: Tensor,
    ) -> Tensor:
        norms = q_norm.weight, k_norm.weight, q_norm.eps
        return piece.attend_piece(qkv, *norms, cos, sin, keys, values, slot, start)

    def draw(
        self,
        logits: Tensor,
        rows: Tensor,
        level: Level,
        seed: Tensor,
        frame: Tensor,
        codebook: int,
        codes: Tensor,
        finite: Tensor,
        rules: Rules | None = None,
        table: Tensor | None = None,
        embedded: Tensor | None = None,
        *,
        settled: bool = False,
    ) -> None:
        slots = (*level, seed, frame)
        draw.draw(logits, rows, *slots, codebook, codes, finite, rules, table, embedded, settled=settled)

    def begin(self, rows: Tensor, state: State, frames: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        return edges.begin(rows, state, frames, text)

    def finish(
        self,
        rows: Tensor,
        state: State,
        codes: Tensor,
        finite: Tensor,
        eos: int,
        positions: Tensor,
        counts: Tensor | None = None,
    ) -> Tensor:
        return edges.finish(rows, state, codes, finite, eos, positions, counts)
