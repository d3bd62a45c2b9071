"""Interface of fused operations, each of which replaces several torch operations.

A fused operation is one kernel launch. `runtime/model/fused_operations.py` and the engine choose between a fused
operation and the equivalent torch operations.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn  # Dtype of a KV cache that needs one byte per number.


class SamplingRules(NamedTuple):
    """Sampling rules for codebook 0: repetition penalty, minimum length and allowed ids.

    `apply_talker_rules` in execution/sampling.py is the reference implementation. `eos` and all ids below `codes` are
    allowed.

    Shapes: seen [S, V] bool, ids sampled so far; penalty [S] float32; eos_banned_until [S] int64, minimum
    number of frames.
    """

    seen: Tensor
    penalty: Tensor
    eos_banned_until: Tensor
    min_frames: int  # Minimum number of frames before EOS is allowed.
    eos: int
    codes: int


class SamplingState(NamedTuple):
    """Sampling settings of every slot, with the seed and frame number for its noise.

    Shapes: temperature, top_p [S] float32; top_k [S] int64; greedy [S] bool; seed [S] int64; frame [S] int64, number of
    generated frames.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor
    seed: Tensor
    frame: Tensor


class SampleOutput(NamedTuple):
    """Output buffers of `Fused.sample` for one frame.

    Shapes: codes [B, Q] int64; finite [B, Q] bool, True if all logits of the codebook were finite.
    """

    codes: Tensor
    finite: Tensor


class EmbeddingLookup(NamedTuple):
    """Arguments of an embedding lookup that writes `table[code]` of each row to `out`.

    If `addresses` is not None, each slot has its own table of the same shape instead of `table`.

    Shapes: table [V, H']; out [B, H'], may be strided; addresses None or [S] int64, addresses of the tables in device
    memory.
    """

    table: Tensor
    out: Tensor
    addresses: Tensor | None = None


class SlotState(NamedTuple):
    """Decoding state of every slot between two frames.

    Padding rows use the last slot, whose state never changes.

    Shapes: position [S] int64, position of the next input; frame [S] int64, number of generated frames; codes [S, Q]
    int64, codes of the last frame; trailing [S, L] int64, text ids, where index f - 1 is for frame f; seen [S, V] bool,
    True for ids of codebook 0 sampled so far.
    """

    position: Tensor
    frame: Tensor
    codes: Tensor
    trailing: Tensor
    seen: Tensor


class Norm(NamedTuple):
    """Parameters of an RMSNorm that casts the float32 result before applying the weight.

    Shapes: weight [K].
    """

    weight: Tensor
    eps: float


class PromptHidden(NamedTuple):
    """Hidden states after the prompts of all slots, which are used by slots without a frame.

    Shapes: rows [B] int64, slot number of each row; frame [S] int64, number of generated frames; hidden [S, K].
    """

    rows: Tensor
    frame: Tensor
    hidden: Tensor


class QKNormRope(NamedTuple):
    """Parameters of the RMSNorm and RoPE of query and key heads.

    Shapes: cos, sin [T, d].
    """

    q_norm: Norm
    k_norm: Norm
    cos: Tensor
    sin: Tensor


class KVView(NamedTuple):
    """Key and value cache of one layer for all slots, in the activations' dtype or in `FP8`.

    Shapes: [S, kv_heads, T, d].
    """

    keys: Tensor
    values: Tensor


class Fused(Protocol):
    """Fused operations with one kernel launch each, bitwise independent of the batch.

    For many rows, a product with a norm takes two launches.

    Launches may overlap. Some operations have the argument `inputs_ready`, and their docstrings name the arguments that
    are slot inputs. Pass True if all launches that write these slot inputs have finished. The operation then reads the
    slot inputs while other launches still run. With False, the operation waits for all earlier launches before the next
    launch may start.
    """

    max_rows: int  # Maximum number of rows of a fused product. Larger products use torch.

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

        The result is written to `out`, which may be strided, or to a new tensor. The weight has the dtype of x, or is
        int8 with one scale per output channel. With int8, the products are summed in float32 and then multiplied by the
        scale.

        Shapes: x [M, K]; weight [N, K]; scale [N] float32; bias [N]; residual, out, result [M, N].
        """

    def norm(self, x: Tensor, norm: Norm, prompt_hidden: PromptHidden | None = None) -> Tensor:
        """Return the RMSNorm of each row of x.

        If `prompt_hidden` is not None, rows of slots without a frame are replaced before the norm.

        Shapes: x, result [M, K]; M is not limited by `max_rows`.
        """

    def swiglu(self, x: Tensor, norm: Norm, weight: Tensor, *, scale: Tensor | None = None) -> Tensor:
        """Return silu(gate) * up, where gate and up are the halves of norm(x) @ weight.T.

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
        inputs_ready: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        """Compute the attention of the `new` newest positions of each row of a decode step.

        The operation also applies head norms and RoPE, and writes the new keys and values to the cache. Each row
        attends to the positions of its slot. The slot inputs for `inputs_ready` are `rows` and `positions`. The result
        is written to `out` or to a new tensor.

        Shapes: qkv [B * new, (heads + 2 kv_heads) * d]; rows [B] int64, slot numbers; positions [B] int64, first new
        position; out, result [B * new, heads * d].
        """

    def prefill_attention(
        self, qkv: Tensor, heads: QKNormRope, cache: KVView, slot: Tensor, start: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """Compute the attention of P new positions in each of n slots.

        The operation also applies head norms and RoPE, and writes the new keys and values to the cache. Positions
        beyond the end of a slot are written to its last position, to which no query attends. The result is written to
        `out` or to a new tensor.

        Shapes: qkv [n * P, (heads + 2 kv_heads) * d]; slot [n] int64, slot numbers; start [n] int64, first new
        positions; out, result [n * P, heads * d].
        """

    def sample(
        self,
        logits: Tensor,
        rows: Tensor,
        state: SamplingState,
        codebook: int,
        out: SampleOutput,
        rules: SamplingRules | None = None,
        lookup: EmbeddingLookup | None = None,
        *,
        inputs_ready: bool = False,
    ) -> None:
        """Sample one code per row, and look up the code's embedding.

        The results are written to column `codebook` of `out`. The slot inputs for `inputs_ready` are `rows` and
        `state`. The reference implementation is `sample_codes` in runtime/engine/execution/sampling.py.

        Args:
            rules: Rules for codebook 0, or None for other codebooks.
            lookup: Arguments of the embedding lookup, or None for the last codebook.

        Shapes: logits [B, V]; rows [B] int64, slot numbers.
        """

    def begin_frame(
        self, rows: Tensor, state: SlotState, frames: Tensor, text: Tensor, addresses: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the talker's input embedding and position for each row's next frame.

        The input is the sum of the embeddings of the last frame's codes and of the next text id. If `addresses` is not
        None, each slot has its own tables instead of frames[0] and text.

        Shapes: rows [B] int64, slot numbers; frames [Q, V, H]; text [text_vocab, H]; addresses None or [2, S] int64,
        addresses of two tables in device memory; results [B, H] and [B] int64.
        """

    def finish_frame(self, rows: Tensor, state: SlotState, sampled: SampleOutput, eos: int) -> Tensor:
        """Advance the slot state of the rows after a frame, and return the output of the frame.

        The first frame of a slot takes no position, because it follows from the last position of the prompt. The output
        has the codes, 1 if code 0 is `eos`, and 1 if all logits were finite.

        Shapes: rows [B] int64, slot numbers; result [B, Q + 2] int64.
        """
