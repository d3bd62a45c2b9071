"""Operations that a device does in one launch where the networks would do several, over tensors alone.

The twin of each is named; `runtime/model/operations.py` and the engine choose between the two.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Rules(NamedTuple):
    """What code 0 is drawn under besides its level's settings: `runtime/engine/sampling.py`, ``talker_rules``.

    Shapes: seen [S, V] bool; penalty [S] float32; hold_until [S] int64. Ids below ``codes`` and ``eos`` are allowed.
    """

    seen: Tensor
    penalty: Tensor
    hold_until: Tensor
    fewest: int  # the model's own frames before the end may come
    eos: int
    codes: int


class Level(NamedTuple):
    """Sampling settings of every slot. Shapes: temperature, top_p [S] float32; top_k [S] int64; greedy [S] bool."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor


class Norm(NamedTuple):
    """An RMSNorm: float32 inside, cast, then the weight. Shapes: weight [K]."""

    weight: Tensor
    eps: float


class Fused(Protocol):
    """One launch each, and a row's bits do not depend on the other rows."""

    most_rows: int  # that the products below take; more are the library's

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """residual + x times a matrix + bias.

        Shapes: x [M, K]; weight [N, K]; bias [N]; residual, result [M, N].
        """

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        """Shapes: x, result [M, K], any M."""

    def swiglu(self, x: Tensor, weight: Tensor) -> Tensor:
        """silu(gate) * up. Shapes: x [M, K]; weight [2 N, K], gate above up; result [M, N]."""

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
        """Norms, RoPE, cache write and attention of the newest positions of some rows, over their own slots.

        Shapes: qkv [B * new, (heads + 2 kv_heads) * d]; cos, sin [T, d]; keys, values [S, kv_heads, T, d]; rows,
        positions (of the first new one) [B] int64; result [B * new, heads * d]. ``settled``: rows and positions are
        never written in the graph that this is part of.
        """

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
        """The same for P positions of one slot from ``start`` on. Shapes: slot, start [1] int64; result [P, heads * d].

        Positions past the arena's last are written to the last, which nobody may attend to.
        """

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
    ) -> Tensor:
        """Draw one code a row: `runtime/engine/sampling.py`, ``pick``.

        Shapes: logits [B, V]; rows [B] int64; seed, frame [S] int64; codes [B, Q] int64 and finite [B, Q] bool are
        written at ``codebook``; result [B] int64.
        """

    def embed_sum(self, tables: Tensor, ids: Tensor, extra: Tensor) -> Tensor:
        """Sum of a row of each table, plus another row. Shapes: tables [Q, V, H]; ids [B, Q]; extra, result [B, H]."""
