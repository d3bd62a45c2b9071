"""Interface of fused operations, which replace several operations by one kernel launch.

The docstring of each operation names its readable version. `runtime/model/fused_operations.py` and the engine choose
between the two.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Rules(NamedTuple):
    """Additional sampling rules for code 0 (``talker_rules`` in execution/sampling.py).

    Shapes: seen [S, V] bool; penalty [S] float32; hold_until [S] int64. Ids below ``codes`` and ``eos`` are allowed.
    """

    seen: Tensor
    penalty: Tensor
    hold_until: Tensor
    fewest: int  # Minimum number of frames before EOS is allowed.
    eos: int
    codes: int


class SamplingState(NamedTuple):
    """Sampling settings of every slot, and the seed and frame number for its noise.

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
    """Output buffers: the codes of a frame, and flags of rows with finite scores.

    Shapes: [B, Q] int64, bool.
    """

    codes: Tensor
    finite: Tensor


class Lookup(NamedTuple):
    """Embedding lookup of a sampled code: table[code].

    Shapes: table [V, H']; out [B, H'], may be strided; addresses [S] int64: if given, the address of each slot's own
    table of the same shape, used instead of `table`.
    """

    table: Tensor
    out: Tensor
    addresses: Tensor | None = None


class SlotState(NamedTuple):
    """State of every slot between two frames.

    The last slot is scratch and keeps its initial state.

    Shapes: position [S] int64, of the next input; frame [S] int64, number of generated frames; codes [S, Q] int64, of
    the last frame; trailing [S, L] int64, text ids (that of frame f at index f - 1); seen [S, V] bool, True for values
    of code 0 sampled so far.
    """

    position: Tensor
    frame: Tensor
    codes: Tensor
    trailing: Tensor
    seen: Tensor


class Norm(NamedTuple):
    """Parameters of an RMSNorm: computed in float32, cast, then multiplied by the weight.

    Shapes: weight [K].
    """

    weight: Tensor
    eps: float


class QKNormRope(NamedTuple):
    """Parameters of norm and RoPE for query and key heads before attention.

    Shapes: cos, sin [T, d].
    """

    q_norm: Norm
    k_norm: Norm
    cos: Tensor
    sin: Tensor


class KVView(NamedTuple):
    """Keys and values of one layer for all slots.

    Shapes: [S, kv_heads, T, d].
    """

    keys: Tensor
    values: Tensor


class Fused(Protocol):
    """Fused operations with one launch each, bitwise independent of the batch.

    A norm of many rows takes two launches. Launches may overlap. With `settled`, an operation may read its slot inputs
    while earlier launches still run. Without `settled`, it waits for all earlier launches before it lets the next one
    start, so that the next launch can use `settled` for all data written before.
    """

    max_rows: int  # Maximum number of rows of the products below. Products of more rows use the library.

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
        """Return residual + norm(x) @ weight.T + bias.

        The result is a new tensor or `out`, which may be strided. Weights have the dtype of x, or are int8 with a scale
        for each output channel, by which the sum of products is multiplied in float32.

        Shapes: x [M, K]; weight [N, K]; scale [N] float32; bias [N]; residual, out, result [M, N].
        """

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        """Apply an RMSNorm.

        Shapes: x, result [M, K], any M.
        """

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
        """Compute norms, RoPE, cache write and attention of each row's newest positions.

        Each row attends to its own slot.

        Shapes: qkv [B * new, (heads + 2 kv_heads) * d]; rows, positions (of the first new one) [B] int64; result
        [B * new, heads * d]. `settled` refers to rows and positions.
        """

    def prefill_attention(self, qkv: Tensor, heads: QKNormRope, cache: KVView, slot: Tensor, start: Tensor) -> Tensor:
        """Compute norms, RoPE, cache write and attention of P positions in each of n slots.

        The positions of a slot start at `start`.

        Shapes: qkv [n * P, ...]; slot, start [n] int64; result [n * P, heads * d].

        Positions after the slot's last one are written to the last one, to which no query attends.
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
        """Sample one code per row like ``pick`` in sampling.py, and look up its embedding.

        Shapes: logits [B, V]; rows [B] int64. `out` is written at `codebook`. `settled` refers to rows and state.
        """

    def begin(
        self, rows: Tensor, state: SlotState, frames: Tensor, text: Tensor, addresses: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the input and the position of each row's next frame.

        The input is the sum of the embeddings of the last frame's codes and of the next text id.

        Shapes: rows [B] int64; frames [Q, V, H]; text [text_vocab, H]; addresses [2, S] int64: if given, the addresses
        of each slot's own tables, used instead of frames[0] and text; results [B, H] and [B] int64.
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
        """Advance the rows after a frame and return its output.

        The output is that of ``Frame`` in `runtime/engine/execution/frame.py`.

        Shapes: rows, positions (the first new one), counts (of new positions; None for one each) [B] int64; result
        [B, Q + 2] int64.
        """
