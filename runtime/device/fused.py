"""Interface of fused operations: one launch for several operations of the networks.

The twin of each is named; `runtime/model/fused_operations.py` and the engine choose between the two.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Rules(NamedTuple):
    """Sampling rules of code 0 besides its level's settings: ``talker_rules`` in `engine/execution/sampling.py`.

    Shapes: seen [S, V] bool; penalty [S] float32; hold_until [S] int64. Ids below ``codes`` and ``eos`` are allowed.
    """

    seen: Tensor
    penalty: Tensor
    hold_until: Tensor
    fewest: int  # Frames before EOS is allowed.
    eos: int
    codes: int


class SamplingState(NamedTuple):
    """Sampling settings of every slot, and what its noise is made from.

    Shapes: temperature, top_p [S] float32; top_k [S] int64; greedy [S] bool; seed, frame [S] int64, frame counts those
    made.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor
    seed: Tensor
    frame: Tensor


class Sampled(NamedTuple):
    """Output buffers for a frame's codes, and whether their scores were finite. Shapes: [B, Q] int64, bool."""

    codes: Tensor
    finite: Tensor


class Lookup(NamedTuple):
    """Embedding lookup of a sampled code: table[code].

    Shapes: table [V, H']; out [B, H'], whose rows may lie apart; addresses [S] int64, of each slot's own table of the
    same shape, which is read instead.
    """

    table: Tensor
    out: Tensor
    addresses: Tensor | None = None


class SlotState(NamedTuple):
    """State of every slot between two frames; the last slot is scratch and stays at its initial state.

    Shapes: position, frame [S] int64, where the next input goes and how many frames were made; codes [S, Q] int64, of
    the last frame; trailing [S, L] int64, text ids, that of frame f at f - 1; seen [S, V] bool, codes 0 drawn so far.
    """

    position: Tensor
    frame: Tensor
    codes: Tensor
    trailing: Tensor
    seen: Tensor


class Norm(NamedTuple):
    """An RMSNorm: float32 inside, cast, then the weight. Shapes: weight [K]."""

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
    """One launch each, two with a norm where rows are many; and a row's bits do not depend on the other rows.

    Launches may overlap: what is told to be ``settled`` may be read while the launches ahead still run. A launch that
    reads slots and is not told so waits first, and only then lets the next begin: whatever was written before it is
    settled for all behind it.
    """

    most_rows: int  # Maximum rows of the products below; larger ones use the library.

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
        """Residual + norm(x) times a matrix + bias, in a tensor of its own or in ``out``, whose rows may lie apart.

        Weights are of the dtype of x, or whole numbers of eight bits with a scale for each output channel: the sum of
        their products is multiplied by it in float32.

        Shapes: x [M, K]; weight [N, K]; scale [N] float32; bias [N]; residual, out, result [M, N].
        """

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        """Shapes: x, result [M, K], any M."""

    def swiglu(self, x: Tensor, norm: Norm, weight: Tensor, *, scale: Tensor | None = None) -> Tensor:
        """silu(gate) * up of norm(x), weights as of ``gemm``.

        Shapes: x [M, K]; weight [2 N, K], gate above up; scale [2 N] float32; result [M, N].
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
        """Norms, RoPE, cache write and attention of the newest positions of some rows, over their own slots.

        Shapes: qkv [B * new, (heads + 2 kv_heads) * d]; rows, positions (of the first new one) [B] int64; result
        [B * new, heads * d]. ``settled``: rows and positions are.
        """

    def prefill_attention(self, qkv: Tensor, heads: QKNormRope, cache: KVView, slot: Tensor, start: Tensor) -> Tensor:
        """Return the same for P positions of each of n slots, from each one's ``start`` on.

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
        """Sample one code a row, `runtime/engine/execution/sampling.py`, ``pick``, and look up what it is embedded as.

        Shapes: logits [B, V]; rows [B] int64. ``out`` is written at ``codebook``. ``settled``: rows and state are.
        """

    def begin(
        self, rows: Tensor, state: SlotState, frames: Tensor, text: Tensor, addresses: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Input and position of each row's next frame: the codes of its last one and its next text id, embedded.

        Shapes: rows [B] int64; frames [Q, V, H]; text [text_vocab, H]; addresses [2, S] int64, of the tables that are
        read instead of frames[0] and text, each slot's own; results [B, H] and [B] int64.
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
        """Move the rows on past the frame just made, and tell of it: `runtime/engine/execution/frame.py`, ``Frame``.

        Shapes: rows, positions (the first that was read), counts (of those
        that were, or one of each row) [B] int64; result [B, Q + 2] int64.
        """
