"""Interface of fused operations: one launch for several operations of the networks.

Each operation names its readable version; `runtime/model/fused_operations.py` and the engine choose between both.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Rules(NamedTuple):
    """Sampling rules of code 0 in addition to its level's settings: ``talker_rules`` in `engine/execution/sampling.py`.

    Shapes: seen [S, V] bool; penalty [S] float32; hold_until [S] int64. Ids below ``codes`` and ``eos`` are allowed.
    """

    seen: Tensor
    penalty: Tensor
    hold_until: Tensor
    fewest: int  # Frames before EOS is allowed.
    eos: int
    codes: int


class SamplingState(NamedTuple):
    """Sampling settings of every slot, and the seed and frame of its noise.

    Shapes: temperature, top_p [S] float32; top_k [S] int64; greedy [S] bool; seed, frame [S] int64, where frame is the
    number of generated frames.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor
    seed: Tensor
    frame: Tensor


class Sampled(NamedTuple):
    """Output buffers for a frame's codes, and for the flags of finite scores. Shapes: [B, Q] int64, bool."""

    codes: Tensor
    finite: Tensor


class Lookup(NamedTuple):
    """Embedding lookup of a sampled code: table[code].

    Shapes: table [V, H']; out [B, H'], may be strided; addresses [S] int64: if given, each slot's own table of the same
    shape, which replaces `table`.
    """

    table: Tensor
    out: Tensor
    addresses: Tensor | None = None


class SlotState(NamedTuple):
    """State of every slot between two frames; the last slot is scratch and stays at its initial state.

    Shapes: position [S] int64, of the next input; frame [S] int64, number of generated frames; codes [S, Q] int64, of
    the last frame; trailing [S, L] int64, text ids, with that of frame f at f - 1; seen [S, V] bool, sampled codes 0.
    """

    position: Tensor
    frame: Tensor
    codes: Tensor
    trailing: Tensor
    seen: Tensor


class Norm(NamedTuple):
    """Parameters of an RMSNorm: float32 inside, cast, then the weight. Shapes: weight [K]."""

    weight: Tensor
    eps: float


class QKNormRope(NamedTuple):
    """Norms and rotary positions of query and key heads before attention. Shapes: cos, sin [T, d]."""

    q_norm: Norm
    k_norm: Norm
    cos: Tensor
    sin: Tensor


class KVView(NamedTuple):
    """Keys and values of one layer, of every slot. Shapes: [S, kv_heads, T, d]."""

    keys: Tensor
    values: Tensor


class Fused(Protocol):
    """Fused operations with one launch each (two for a norm of many rows), bitwise independent of the batch.

    Launches may overlap. An operation with `settled` may read its slot inputs while earlier launches still run. Without
    `settled`, it first waits for the earlier launches and only then lets the next one start, so all data written before
    it is settled for the launches after it.
    """

    max_rows: int  # Maximum rows of the products below; larger ones use the library.

    def gemm(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        scale: Tensor | None = None,
        norm: Norm | None = None,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return residual + norm(x) @ weight.T + bias, in a new tensor or in `out`, which may be strided.

        Weights have the dtype of x, or are int8 with a scale for each output channel, by which the sum of products is
        multiplied in float32.

        Shapes: x [M, K]; weight [N, K]; scale [N] float32; bias [N]; residual, out, result [M, N].
        """

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        """Apply an RMSNorm. Shapes: x, result [M, K], any M."""

    def swiglu(self, x: Tensor, norm: Norm, weight: Tensor, *, scale: Tensor | None = None) -> Tensor:
        """Return silu(gate) * up of norm(x), with weights as in `gemm`.

        Shapes: x [M, K]; weight [2 N, K], the gate's rows first; scale [2 N] float32; result [M, N].
        """

    def decode_attention(
        self,
        qkv: Tensor,
        heads: QKNormRope,
        cache: KVView,
        rows: Tensor,
        positions: Tensor,
        new: int = 1,
        *,
        settled: bool = False,
    ) -> Tensor:
        """Compute norms, RoPE, cache write and attention of the newest positions of some rows over their own slots.

        Shapes: qkv [B * new, (heads + 2 kv_heads) * d]; rows, positions (of the first new one) [B] int64; result
        [B * new, heads * d]. `settled` refers to rows and positions.
        """

    def prefill_attention(self, qkv: Tensor, heads: QKNormRope, cache: KVView, slot: Tensor, start: Tensor) -> Tensor:
        """Compute the same for P positions of each of n slots, from each slot's `start` on.

        Shapes: qkv [n * P, ...]; slot, start [n] int64; result [n * P, heads * d].

        Positions past the slot's last are written to the last, which no query may attend to.
        """

    def sample(
        self,
        logits: Tensor,
        rows: Tensor,
        state: SamplingState,
        codebook: int,
        out: Sampled,
        rules: Rules | None = None,
        lookup: Lookup | None = None,
        *,
        settled: bool = False,
    ) -> None:
        """Sample one code per row like ``pick`` in `runtime/engine/execution/sampling.py`, and look up its embedding.

        Shapes: logits [B, V]; rows [B] int64. `out` is written at `codebook`. `settled` refers to rows and state.
        """

    def begin(
        self, rows: Tensor, state: SlotState, frames: Tensor, text: Tensor, addresses: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return input and position of each row's next frame: the embedded codes of its last frame and next text id.

        Shapes: rows [B] int64; frames [Q, V, H]; text [text_vocab, H]; addresses [2, S] int64: if given, each slot's
        own tables, which replace frames[0] and text; results [B, H] and [B] int64.
        """

    def finish(
        self,
        rows: Tensor,
        state: SlotState,
        sampled: Sampled,
        eos: int,
        positions: Tensor,
        counts: Tensor | None = None,
    ) -> Tensor:
        """Advance the rows after a frame; return its output as ``Frame`` in `runtime/engine/execution/frame.py` does.

        Shapes: rows, positions (the first new one), counts (of new positions; None for one each) [B] int64; result
        [B, Q + 2] int64.
        """
