"""One frame for every row that may run: next input, talker, code 0, codes 1 to Q-1, state moved on (facts 4, 5).

Everything that differs between rows lies in the arena's tensors, so that a whole frame is one function of device
state; a graph holds it as it stands (runtime/engine/runner.py).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.fused import Fused, Rules
from runtime.engine.attending import AttendPiece, AttendRows, FusedPiece, FusedRows
from runtime.engine.sampling import MIN_TOKENS, gumbel_noise, pick, talker_rules
from runtime.engine.slots import SlotArena
from runtime.model.checkpoint import Checkpoint
from runtime.model.code_predictor import FrameCache
from runtime.model.fused import FusedOperations
from runtime.model.layers import Operations

Slots = NDArray[np.int64]


class Frame:
    """Talker and code predictor of one checkpoint over an arena, for at most so many rows at once.

    What it returns, "told", is [B, Q + 2] int64: the frame's codes, whether the row ended instead of making one, and
    whether all its scores were finite.

    Args:
        most_rows, most_starts: of a batch of frames, and of first frames, those that fill it up included.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        arena: SlotArena,
        dtype: torch.dtype,
        most_rows: int,
        most_starts: int,
    ) -> None:
        self.config, self.talker, self.device, self.arena = checkpoint.config, checkpoint.talker, device, arena
        talker, target, fused = self.config.talker, device.torch_device, device.fused(dtype)
        self.fused = fused
        self.ops = Operations() if fused is None else FusedOperations(fused)
        # Starts run beside frames on devices that can: each has a cache of its own.
        predictor = self.talker.code_predictor
        self.cache = FrameCache(predictor, most_rows, device, dtype)
        self.start_cache = FrameCache(predictor, most_starts, device, dtype)
        # What the talker made of a prompt's last position, until the first frame is drawn from it.
        self.hidden = torch.zeros((arena.slots + 1, talker.hidden_size), device=target, dtype=dtype)
        cos, sin = self.talker.angles(torch.arange(arena.length + 1, device=target).unsqueeze(0))
        self.angles = cos[0, 0], sin[0, 0]
        self.allowed = torch.arange(talker.vocab_size, device=target) < talker.codes
        self.allowed[talker.codec_eos_token_id] = True
        self.true = torch.ones((), device=target, dtype=torch.bool)  # graphs take no constants from the host

    def next(self, rows: Tensor, slots: Slots | None = None, span: int | None = None) -> Tensor:
        """The next frame of rows that have made one before.

        Args:
            span: positions that the longest of them has reached with this frame, or more; None for all there are.
                Operations that know each row's own length (``fused``) do not need it.

        Shapes: rows [B] int64, the arena's scratch row as often as wanted; slots [B], the same on the host, where the
        host may decide by them what can be left out.
        """
        if self.fused is not None:
            return self._fused_next(self.fused, rows)
        arena = self.arena
        positions = arena.position[rows]
        text = self.talker.embed_text(arena.trailing[rows, arena.frame[rows] - 1])
        x = self.talker.embed_frames(arena.codes[rows]) + text
        attend = AttendRows(arena, self.device, self.talker, rows, positions, span or arena.length)
        hidden = self.talker.decode(x[:, None], attend, self.ops)
        arena.position[rows] = (positions + 1) * (rows < arena.slots)
        return self._draw(hidden[:, 0], rows, slots, self.cache)

    def _fused_next(self, fused: Fused, rows: Tensor) -> Tensor:
        tables = self.talker.tables
        assert tables is not None, "who has fused operations has tables"
        x, positions = fused.begin(rows, self.arena.state, tables.frames, tables.text)
        attend = FusedRows(self.arena, fused, self.angles, rows, positions)
        hidden = self.talker.decode(x[:, None], attend, self.ops)
        return self._fused_draw(fused, hidden[:, 0], rows, self.cache, positions)

    def read(self, embeds: Tensor, slot: int, start: int) -> None:
        """Read positions of a prompt into a slot. Shapes: embeds [P, H]."""
        stop = start + len(embeds)
        attend = AttendPiece(self.arena, self.device, self.talker, slot, start, stop)
        self.hidden[slot] = self.talker.decode(embeds[None], attend, self.ops)[0, -1]
        self.arena.position[slot] = stop

    def read_padded(self, embeds: Tensor, slots: Tensor, starts: Tensor, counts: Tensor) -> None:
        """The same for several prompts at once, as a graph can hold it: the first ``counts`` positions are theirs.

        Shapes: embeds [n, P, H]; slots, starts, counts [n] int64.
        """
        assert self.fused is not None
        attend = FusedPiece(self.arena, self.fused, self.angles, slots, starts)
        hidden = self.talker.decode(embeds, attend, self.ops)
        last = torch.arange(len(slots), device=slots.device)
        self.hidden[slots] = hidden[last, counts - 1]
        self.arena.position[slots] = starts + counts

    def first(self, rows: Tensor, slots: Slots | None = None) -> Tensor:
        """The first frame of rows whose prompts were read. Shapes as in `next`."""
        hidden = self.hidden[rows]
        if self.fused is None:
            return self._draw(hidden, rows, slots, self.start_cache)
        positions = self.arena.position[rows]
        return self._fused_draw(self.fused, hidden, rows, self.start_cache, positions, torch.zeros_like(positions))

    def _draw(self, hidden: Tensor, rows: Tensor, slots: Slots | None, cache: FrameCache) -> Tensor:
        """All codes of one frame from the talker's hidden states, and the state moved on. Shapes: hidden [B, H]."""
        arena = self.arena
        hidden = self.ops.norm(hidden, self.talker.model.norm)
        codes, finite = self._codes(hidden, rows, slots, cache)
        frame, first = arena.frame[rows], codes[:, 0]
        arena.codes[rows] = codes
        arena.seen[rows, first] = self.true
        arena.frame[rows] = (frame + 1) * (rows < arena.slots)
        ended = first == self.config.talker.codec_eos_token_id
        return torch.cat((codes, ended[:, None], finite[:, None]), dim=1)

    def _codes(self, hidden: Tensor, rows: Tensor, slots: Slots | None, cache: FrameCache) -> tuple[Tensor, Tensor]:
        """Rule by rule and code by code. Shapes: results [B, Q] int64, [B] bool."""
        arena, config, ops = self.arena, self.config.talker, self.ops
        frame, noise = arena.frame[rows], None
        if slots is None or arena.talker_level.draws(slots) or arena.predictor_level.draws(slots):
            widest = max(config.vocab_size, self.config.predictor.vocab_size)
            noise = gumbel_noise(arena.seed[rows], frame, config.num_code_groups, widest)
        levels = arena.talker_level.of(rows, slots), arena.predictor_level.of(rows, slots)
        codes: list[Tensor] = []
        sums: list[Tensor] = []  # one a codebook; a score that is not finite makes its sum so

        def draw(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            scores = logits.float()
            sums.append(scores.sum(dim=-1))
            if codebook == 0:
                eos, hold = config.codec_eos_token_id, arena.hold_until[rows]
                scores = talker_rules(scores, arena.seen[rows], arena.penalty[rows], frame, hold, self.allowed, eos)
            own = None if noise is None else noise[:, codebook, : scores.shape[-1]]
            codes.append(pick(scores, levels[codebook > 0], own))
            if embedded is not None:
                embedded.copy_(self.talker.embed_code(codebook, codes[-1]))

        x = self.talker.code_predictor.begin(hidden, ops)
        draw(0, self.talker.logits(hidden, ops), x[:, 1])
        self.talker.code_predictor.predict(x, cache, ops, draw)
        return torch.stack(codes, dim=-1), torch.stack(sums).isfinite().all(dim=0)

    def _fused_draw(
        self,
        fused: Fused,
        hidden: Tensor,
        rows: Tensor,
        cache: FrameCache,
        positions: Tensor,
        counts: Tensor | None = None,
    ) -> Tensor:
        """``_draw`` with one launch a code and one for the state, positions included.

        Shapes: positions (the first that was read of each row), counts (of those that were, or one) [B] int64.
        """
        arena, config, ops, tables = self.arena, self.config.talker, self.ops, self.talker.tables
        assert tables is not None
        hidden = ops.norm(hidden, self.talker.model.norm)
        shape = len(rows), config.num_code_groups
        codes = torch.empty(shape, device=rows.device, dtype=torch.int64)
        finite = torch.empty(shape, device=rows.device, dtype=torch.bool)
        levels = arena.talker_level.every, arena.predictor_level.every
        rules = Rules(arena.seen, arena.penalty, arena.hold_until, MIN_TOKENS, config.codec_eos_token_id, config.codes)

        def draw(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            fused.draw(
                logits,
                rows,
                levels[codebook > 0],
                arena.seed,
                arena.frame,
                codebook,
                codes,
                finite,
                rules if codebook == 0 else None,
                None if embedded is None else tables.of(codebook),
                embedded,
                # The first draw waits for all that was asked for before this frame, such as the rows themselves; only
                # ``finish`` writes what a draw reads early, and it waits for the last draw.
                settled=codebook > 0,
            )

        x = self.talker.code_predictor.begin(hidden, ops)
        draw(0, self.talker.logits(hidden, ops), x[:, 1])
        self.talker.code_predictor.predict(x, cache, ops, draw)
        return fused.finish(rows, arena.state, codes, finite, config.codec_eos_token_id, positions, counts)
