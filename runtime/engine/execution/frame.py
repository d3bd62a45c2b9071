"""Generation of one frame of every active sequence (docs/model.md 4, 5).

The steps are: next input, talker, code 0, codes 1 to Q-1. A batch has one row per sequence. All data that differs
between rows is in the tensors of the slot cache, so a graph can capture a complete frame (model_runner.py).

A row's progress (position, frame, last codes, codes seen) is written last. Keys and values of the new position are
written earlier, but no other frame reads them. Therefore a failed frame can be repeated for any of its rows.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.fused import EmbeddingLookup, Fused, PromptHidden, SampleOutput, SamplingRules
from runtime.engine.execution.attention import (
    FusedDecodeAttention,
    FusedPrefillAttention,
    FusedStepAttention,
    PrefillAttention,
    SlotAttention,
)
from runtime.engine.execution.cross_checkpoint_embeddings import CrossCheckpointEmbeddings, InputTables
from runtime.engine.execution.noise import CpuNoise, HostNoise
from runtime.engine.execution.sampling import MIN_FRAMES, apply_talker_rules, gumbel_noise, sample_codes
from runtime.engine.execution.slots import SlotCache, copy_to_device
from runtime.model.code_predictor import FrameCache
from runtime.model.config import ModelConfig
from runtime.model.fused_operations import FusedOperations
from runtime.model.layers import AttentionFunction, Operations
from runtime.model.native_layers import RowSampling, native_layers, native_predictor
from runtime.model.normed_operations import NormedOperations
from runtime.model.talker import Talker

Slots = NDArray[np.int64]
EMBEDDED = -1  # Text id of a prompt position whose embedding is given instead of its ids.


class Frame:
    """Computation of one codec frame for a batch of slots: talker, code predictor, sampling.

    The output of a frame is [B, Q + 2] int64: the codes, 1 if the row has ended without a frame, and 1 if all logits
    were finite.

    Args:
        max_rows, max_first_frames: Maximum batch sizes of frames and of first frames, including padding rows.
        prompts: Maximum number of first frames in flight.
    """

    def __init__(
        self,
        config: ModelConfig,
        talker: Talker,
        device: Device,
        slot_cache: SlotCache,
        dtype: torch.dtype,
        max_rows: int,
        max_first_frames: int,
        prompts: int = 1,
    ) -> None:
        self.config = config
        self.talker = talker
        self.device = device
        self.slot_cache = slot_cache
        target, fused = device.torch_device, device.fused(dtype)
        self.fused = fused
        self.ops = choose_operations(device, fused)
        # Some devices compute first frames at the same time as other frames. Therefore each kind has its own cache.
        predictor = self.talker.code_predictor
        is_native = dtype is torch.float32 is slot_cache.keys[0].dtype and runs_native(device)
        self.native_predictor = native_predictor(predictor) if is_native else None
        self._native_layers = native_layers(self.talker.model) if is_native else None
        self.cache = FrameCache(predictor, max_rows, device, dtype, self.ops)
        self.first_frame_cache = FrameCache(predictor, max_first_frames, device, dtype, self.ops)
        # Random noise for sampling frames and first frames, or None if the device computes the noise.
        self.noise: HostNoise | None = None
        self.first_frame_noise: HostNoise | None = None
        widths, groups = (config.talker.vocab_size, config.predictor.vocab_size), config.talker.num_code_groups
        self._cpu_noise = CpuNoise(widths, groups) if target.type == "cpu" else None
        if device.lean_sampling:
            flying = device.max_in_flight + 2
            self.noise = HostNoise(device, max_rows, widths, groups, flying)
            self.first_frame_noise = HostNoise(device, max_first_frames, widths, groups, prompts + 1)
        # Hidden state of the talker at the last position of each slot's prompt, for the first frame.
        self.hidden = torch.zeros((slot_cache.slots + 1, config.talker.hidden_size), device=target, dtype=dtype)
        cos, sin = self.talker.angles(torch.arange(slot_cache.length + 1, device=target).unsqueeze(0))
        self.angles = cos[0, 0], sin[0, 0]
        self.allowed = torch.arange(config.talker.vocab_size, device=target) < config.talker.codes
        self.allowed[config.talker.codec_eos_token_id] = True
        # This constant is a tensor, because graphs cannot read constants from the host.
        self.true = torch.ones((), device=target, dtype=torch.bool)
        # Talker of another checkpoint, whose embeddings are used by rows with cross-checkpoint embeddings.
        self._embedding_source: Talker | None = None
        self._source_tables: InputTables | None = None
        if fused is not None:
            tables = self.talker.tables
            assert tables is not None, "fused operations need the talker's embedding tables"
            addresses = slot_cache.tables[False] = InputTables(tables.frames[0], tables.text, tables.first).addresses
            slot_cache.addresses[:] = copy_to_device(target, np.array(addresses))[:, None]

    @torch.inference_mode()
    def set_embedding_source(self, embedding_source: Talker | None) -> None:
        """Set the talker of another checkpoint, whose embedding tables some sequences may use.

        Call this method before any sequence uses the embeddings of another checkpoint.
        """
        if embedding_source is self._embedding_source:
            return
        self._embedding_source, self._source_tables = embedding_source, None
        if embedding_source is not None and self.fused is not None:
            tables = embedding_source.tables
            assert tables is not None, "fused operations need the talker's embedding tables"
            # The code predictor of this checkpoint projects the embeddings of codebook 0 from the other talker.
            first = self.talker.code_predictor.project(embedding_source.model.codec_embedding.rows)
            self._source_tables = InputTables(tables.frames[0], tables.text, first)
            self.slot_cache.tables[True] = self._source_tables.addresses
            # This thread waits until the tables are written, because the frame stream does not wait for this thread's
            # stream.
            self.device.record_event().synchronize()

    def next(self, rows: Tensor, slots: Slots | None = None, span: int | None = None, *, plain: bool = False) -> Tensor:
        """Generate the next frame of sequences, and return the output.

        A sequence with a prefilled prompt and no frame gets its first frame. Its hidden state is that of the prompt's
        last position. The talker's result for it is not used, and its keys and values are overwritten by the next
        frame.

        Args:
            plain: True if no row needs a sort for sampling (slots.py). The sort may then be skipped.
            span: Upper bound of the rows' positions including this frame, or None for the length of a slot. Fused
                operations ignore the bound, because they read the length of each row.

        Shapes: rows [B] int64, slot numbers on the device, in which the scratch slot may repeat; slots [B], the same
        numbers on the host, or None during the capture of a graph; result [B, Q + 2], see `Frame`.
        """
        if self.fused is not None:
            return self._fused_next(self.fused, rows)
        slot_cache = self.slot_cache
        positions = slot_cache.position[rows]
        text = self.talker.embed_text(slot_cache.trailing[rows, slot_cache.frame[rows] - 1])
        x = self.talker.embed_frames(slot_cache.codes[rows]) + text
        if (embeddings := self._cross_embeddings(slots)) is not None:
            embeddings.embed_inputs(x, rows, slot_cache)
        if self._native_layers is not None:
            hidden = self._native_layers(x, slot_cache.cache, self.angles, rows, positions)
        else:
            span = slot_cache.length if span is None else span
            attend = SlotAttention(slot_cache, self.device, self.talker, rows, positions, span, self.ops)
            hidden = self.talker.decode(x[:, None], attend, self.ops)[:, 0]
        has_frame = slot_cache.frame[rows] > 0
        hidden = torch.where(has_frame[:, None], hidden, self.hidden[rows])
        output = self._sample(hidden, rows, slots, self.cache, self.noise, plain)
        slot_cache.position[rows] = (positions + has_frame) * (rows < slot_cache.slots)
        return output

    def _fused_next(self, fused: Fused, rows: Tensor) -> Tensor:
        tables, slot_cache = self.talker.tables, self.slot_cache
        assert tables is not None
        x, positions = fused.begin_frame(rows, slot_cache.state, tables.frames, tables.text, slot_cache.addresses[:2])
        attend = FusedDecodeAttention(self.slot_cache, fused, self.angles, rows, positions)
        hidden = self.talker.decode(x[:, None], attend, self.ops)
        return self._fused_sample(fused, hidden[:, 0], rows, self.cache)

    def next_with_prompts(self, rows: Tensor, places: Tensor, ids: Tensor) -> Tensor:
        """Prefill new prompts, generate the next frame of sequences, and return the output.

        The weights are read once for prompts and frames. The result equals that of `prefill_padded` and `next`. The
        slots of the prompts are part of `rows`, and get their first frames.

        Shapes: rows [B] int64; places [5, n] int64, see `PromptBatch` in prompt_batches.py; ids [n * P, 2] int64;
        result [B, Q + 2], see `Frame`.
        """
        fused, tables, slot_cache = self.fused, self.talker.tables, self.slot_cache
        assert fused is not None
        assert tables is not None
        slots, starts, counts, ends, stops = places
        slot_cache.position[ends] = stops
        x, positions = fused.begin_frame(rows, slot_cache.state, tables.frames, tables.text, slot_cache.addresses[:2])
        text, codec = ids.unbind(1)
        x = torch.cat((x, self.talker.embed_text(text) + self.talker.embed_codec_or_none(codec)))
        attend = FusedStepAttention(
            FusedDecodeAttention(slot_cache, fused, self.angles, rows, positions),
            FusedPrefillAttention(slot_cache, fused, self.angles, slots, starts),
        )
        hidden = self.talker.decode(x[:, None], attend, self.ops)[:, 0]
        pieces = hidden[len(rows) :].view(len(slots), -1, hidden.shape[1])
        self.hidden[ends] = pieces[torch.arange(len(slots), device=slots.device), counts - 1]
        return self._fused_sample(fused, hidden[: len(rows)], rows, self.cache)

    def prefill(self, embeds: Tensor, slot: int, start: int) -> None:
        """Prefill the positions of a prompt from `start` on into a slot.

        Shapes: embeds [P, H], the embeddings of these positions.
        """
        slot_cache, stop = self.slot_cache, start + len(embeds)
        if self._native_layers is not None:
            places = torch.tensor([slot]), torch.tensor([start])
            hidden = self._native_layers(embeds, slot_cache.cache, self.angles, *places)
        else:
            attend = PrefillAttention(slot_cache, self.device, self.talker, slot, start, stop, self.ops)
            hidden = self.talker.decode(embeds[None], attend, self.ops)[0]
        self.hidden[slot] = hidden[-1]
        slot_cache.position[slot] = stop

    def prefill_padded(
        self, embeds: Tensor, places: Tensor, span: int | None = None, ids: Tensor | None = None
    ) -> None:
        """Prefill pieces of several prompts in one call, with all pieces padded to one length.

        The call can be captured as a graph.

        Args:
            span: See `next`.
            ids: Text id and codec id of each position, or None if all positions are embedded. `embeds` is only used for
                positions with the text id `EMBEDDED`.

        Shapes: embeds [n, P, H]; places [5, n] int64, see `PromptBatch` in prompt_batches.py; ids [n * P, 2] int64.
        """
        if ids is not None:
            text, codec = ids.unbind(1)
            embedded = self.talker.embed_text(text.clamp(min=0)) + self.talker.embed_codec_or_none(codec)
            embeds = torch.where((text == EMBEDDED)[:, None], embeds.flatten(0, 1), embedded).view_as(embeds)
        slots, starts, counts, rows, stops = places
        attend: AttentionFunction
        if self.fused is not None:
            attend = FusedPrefillAttention(self.slot_cache, self.fused, self.angles, slots, starts)
        else:
            span = self.slot_cache.length if span is None else span
            new, place = embeds.shape[1], (self.slot_cache, self.device, self.talker)
            attend = SlotAttention(*place, slots, starts, span, self.ops, new)
        hidden = self.talker.decode(embeds, attend, self.ops)
        last = torch.arange(len(slots), device=slots.device)
        self.hidden[rows] = hidden[last, counts - 1]
        self.slot_cache.position[rows] = stops

    def first(self, rows: Tensor, slots: Slots | None = None, *, plain: bool = False) -> Tensor:
        """Generate the first frame of sequences with a prefilled prompt, and return the output.

        Shapes: see `next`.
        """
        if self.fused is not None:
            # No slot has a frame, so every row of the argument `hidden` is replaced.
            return self._fused_sample(self.fused, self.hidden[:1].expand(len(rows), -1), rows, self.first_frame_cache)
        hidden = self.hidden[rows]
        return self._sample(hidden, rows, slots, self.first_frame_cache, self.first_frame_noise, plain)

    def _cross_embeddings(self, slots: Slots | None) -> CrossCheckpointEmbeddings | None:
        """Return the rows with embeddings of another checkpoint, or None (always None in graphs)."""
        if self._embedding_source is None or slots is None:
            return None
        places = np.flatnonzero(self.slot_cache.host_cross_embedded[slots])
        if not len(places):
            return None
        return CrossCheckpointEmbeddings(
            self.talker, self._embedding_source, copy_to_device(self.device.torch_device, places)
        )

    def _sample(
        self,
        hidden: Tensor,
        rows: Tensor,
        slots: Slots | None,
        cache: FrameCache,
        host_noise: HostNoise | None,
        plain: bool,
    ) -> Tensor:
        """Sample all codes of one frame from the talker's hidden states, and advance the rows.

        Shapes: hidden [B, H].
        """
        slot_cache = self.slot_cache
        hidden = self.ops.norm(hidden, self.talker.model.norm)
        codes, finite = self.codes(hidden, rows, slots, cache, host_noise, plain=plain)
        frame, first = slot_cache.frame[rows], codes[:, 0]
        slot_cache.codes[rows] = codes
        slot_cache.seen[rows, first] = self.true
        slot_cache.frame[rows] = (frame + 1) * (rows < slot_cache.slots)
        ended = first == self.config.talker.codec_eos_token_id
        return torch.cat((codes, ended[:, None], finite[:, None]), dim=1)

    def codes(
        self,
        hidden: Tensor,
        rows: Tensor,
        slots: Slots | None,
        cache: FrameCache,
        host_noise: HostNoise | None = None,
        *,
        plain: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Sample all codes of one frame, one codebook after another.

        Args:
            hidden: Hidden states of the talker after the final norm [B, H].
            rows, slots, plain: See `next`.
            cache: KV cache of the code predictor.
            host_noise: Sampling noise from the host, or None to compute the noise on the device.

        Shapes: results [B, Q] int64, the codes, and [B] bool, True if all logits of the row are finite.
        """
        slot_cache, config, ops = self.slot_cache, self.config.talker, self.ops
        frame = slot_cache.frame[rows]
        # Shapes: [B, V] for codebook 0, and [B, Q - 1, V'] for the other codebooks.
        noise: tuple[Tensor, Tensor] | None = None
        if host_noise is None and (slots is None or slot_cache.drawing(slots).any()):
            noise = self._noise_of(slot_cache.seed[rows], frame)
        lean = self.device.lean_sampling
        levels = [level.of(rows, slots, lean=lean, plain=plain) for level in slot_cache.levels]
        embeddings = self._cross_embeddings(slots)
        codes: list[Tensor] = []
        sums: list[Tensor] = []  # Sum of the logits of each codebook. It is not finite if any logit is not finite.

        def sample(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            scores = logits.float()
            sums.append(scores.sum(dim=-1))
            if codebook == 0:
                eos, hold = config.codec_eos_token_id, slot_cache.eos_banned_until[rows]
                scores = apply_talker_rules(
                    scores, slot_cache.seen[rows], slot_cache.penalty[rows], frame, hold, self.allowed, eos
                )
            level_noise = None if noise is None else noise[0] if codebook == 0 else noise[1][:, codebook - 1]
            if host_noise is not None:
                level_noise = host_noise.of(codebook, len(rows))
            codes.append(sample_codes(scores, levels[codebook > 0], level_noise))
            if embedded is not None:
                embedded.copy_(self.talker.embed_code(codebook, codes[-1]))
                if codebook == 0 and embeddings is not None:
                    embeddings.embed_first_code(embedded, codes[-1])

        x = self.talker.code_predictor.begin(hidden, ops)
        sample(0, self.talker.logits(hidden, ops), x[:, 1])
        if self.native_predictor is not None:
            rest = self.native_predictor.predict(x, cache, self.row_sampling(rows))
            return torch.cat((codes[0][:, None], rest[:, :-1]), dim=1), sums[0].isfinite() & (rest[:, -1] != 0)
        self.talker.code_predictor.predict(x, cache, ops, sample)
        return torch.stack(codes, dim=-1), torch.stack(sums).isfinite().all(dim=0)

    def row_sampling(self, rows: Tensor) -> RowSampling:
        """Return the code predictor's sampling settings of a batch, for the C++ operator.

        Shapes: rows [B] int64.
        """
        slot_cache, level = self.slot_cache, self.slot_cache.predictor_level
        return RowSampling(level.reals, level.ints, slot_cache.seed, slot_cache.frame, rows)

    def _noise_of(self, seeds: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise of codebook 0 and of all other codebooks, as in ``CpuNoise.of``."""
        if self._cpu_noise is not None:
            return self._cpu_noise.of(seeds, frames, others=self.native_predictor is None)
        first, other = self.config.talker.vocab_size, self.config.predictor.vocab_size
        noise = gumbel_noise(seeds, frames, self.config.talker.num_code_groups, max(first, other))
        return noise[:, 0, :first], noise[:, 1:, :other]

    def _fused_sample(self, fused: Fused, hidden: Tensor, rows: Tensor, cache: FrameCache) -> Tensor:
        """Sample like `_sample`, with one launch per code and one launch for the slot state."""
        slot_cache, config, ops, tables = self.slot_cache, self.config.talker, self.ops, self.talker.tables
        assert tables is not None
        hidden = fused.norm(hidden, self.talker.model.norm.plain, PromptHidden(rows, slot_cache.frame, self.hidden))
        codes = torch.empty((len(rows), config.num_code_groups), device=rows.device, dtype=torch.int64)
        sampled = SampleOutput(codes, torch.empty_like(codes, dtype=torch.bool))
        noise = slot_cache.seed, slot_cache.frame
        states = slot_cache.talker_level.sampling(*noise), slot_cache.predictor_level.sampling(*noise)
        rules = SamplingRules(
            slot_cache.seen,
            slot_cache.penalty,
            slot_cache.eos_banned_until,
            MIN_FRAMES,
            config.codec_eos_token_id,
            config.codes,
        )

        addresses = [slot_cache.addresses[2], *[None] * (config.num_code_groups - 1)]

        def sample(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            fused.sample(
                logits,
                rows,
                states[codebook > 0],
                codebook,
                sampled,
                rules if codebook == 0 else None,
                None if embedded is None else EmbeddingLookup(tables.of(codebook), embedded, addresses[codebook]),
                # The first sampling launch waits for all earlier work, such as the copy of the slot numbers. Later
                # sampling launches may start early, because the data that they read is only written by `finish`, which
                # waits for the last sampling launch.
                inputs_ready=codebook > 0,
            )

        x = self.talker.code_predictor.begin(hidden, ops)
        sample(0, self.talker.logits(hidden, ops), x[:, 1])
        self.talker.code_predictor.predict(x, cache, ops, sample)
        return fused.finish_frame(rows, slot_cache.state, sampled, config.codec_eos_token_id)


def runs_native(device: Device) -> bool:
    """True if the device is a CPU, which may run frames as C++ operators."""
    return device.name == "cpu" and not device.holds_graphs


def choose_operations(device: Device, fused: Fused | None = None) -> Operations:
    """Return the implementation of the layer operations (products and norms) for a device.

    Args:
        fused: Fused operations of the device, or None.
    """
    if fused is not None:
        return FusedOperations(fused)
    return Operations() if device.unit_norm is None else NormedOperations(device.unit_norm)
