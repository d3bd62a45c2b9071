"""Triton's kernels behind the interface that the networks know (`runtime/device/fused.py`)."""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Fused, Level, Norm, Rules, State
from runtime.device.kernels import decode_attention, frame_io, gemm, prefill_attention, sample, small_m_gemm


class Kernels(Fused):
    """One launch each."""

    most_rows = gemm.MOST_ROWS

    def gemm(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        norm: Norm | None = None,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        if bias is None and (way := small_m_gemm.way(x, weight)) is not None:
            return small_m_gemm.small_m_gemm(x, weight, way, norm=norm, residual=residual, out=out)
        x = x if norm is None else self.norm(x, norm)
        return gemm.gemm(x, weight, bias=bias, residual=residual, out=out)

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        return gemm.norm(x, norm)

    def swiglu(self, x: Tensor, norm: Norm, weight: Tensor) -> Tensor:
        if (way := small_m_gemm.way(x, weight, gated=True)) is not None:
            return small_m_gemm.small_m_gemm(x, weight, way, norm=norm, gated=True)
        return gemm.swiglu(self.norm(x, norm), weight)

    def decode_attention(
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
        return decode_attention.decode_attention(
            qkv, *norms, cos, sin, keys, values, rows, positions, new, settled=settled
        )

    def prefill_attention(
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
        return prefill_attention.prefill_attention(qkv, *norms, cos, sin, keys, values, slot, start)

    def sample(
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
        sample.sample(logits, rows, *slots, codebook, codes, finite, rules, table, embedded, settled=settled)

    def begin(self, rows: Tensor, state: State, frames: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        return frame_io.begin(rows, state, frames, text)

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
        return frame_io.finish(rows, state, codes, finite, eos, positions, counts)
