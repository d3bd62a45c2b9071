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
from runtime.device.fused import Rules
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
        most_rows: of a batch, those that fill it up included.
    """

    def __init__(
        self, checkpoint: Checkpoint, device: Device, arena: SlotArena, dtype: torch.dtype, most_rows: int
    ) -> None:
        self.config, self.talker, self.device, self.arena = checkpoint.config, checkpoint.talker, device, arena
        talker, target, fused = self.config.talker, device.torch_device, device.fused(dtype)
        self.fused = fused
        self.ops = Operations() if fused is None else FusedOperations(fused)
        # Starts run beside frames on devices that can: each has a cache of its own.
        predictor = self.talker.code_predictor
        self.cache = FrameCache(predictor, most_rows, device, dtype)
        self.start_cache = FrameCache(predictor, 1, device, dtype)
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
        arena = self.arena
        positions = arena.position[rows]
        text = self.talker.embed_text(arena.trailing[rows, arena.frame[rows] - 1])
        if self.fused is None:
            x = self.talker.embed_frames(arena.codes[rows]) + text
            attend = AttendRows(arena, self.device, self.talker, rows, positions, span or arena.length)
            hidden = self.talker.decode(x[:, None], attend, self.ops)
        else:
            tables = self.talker.tables
            assert tables is not None, "who has fused operations has tables"
            x = self.fused.embed_sum(tables.frames, arena.codes[rows], text)
            hidden = self.talker.decode(
                x[:, None], FusedRows(arena, self.fused, self.angles, rows, positions), self.ops
            )
        arena.position[rows] = (positions + 1) * (rows < arena.slots)
        return self._draw(hidden[:, 0], rows, slots, self.cache)

    def read(self, embeds: Tensor, slot: int, start: int, *, is_last: bool) -> Tensor | None:
        """Read positions of a prompt into a slot; the last piece ends in the first frame. Shapes: embeds [P, H]."""
        stop = start + len(embeds)
        attend = AttendPiece(self.arena, self.device, self.talker, slot, start, stop)
        hidden = self.talker.decode(embeds[None], attend, self.ops)[:, -1]
        if not is_last:
            return None
        self.arena.position[slot] = stop
        rows = torch.tensor([slot], device=embeds.device)
        return self._draw(hidden, rows, np.array([slot]), self.start_cache)

    def read_padded(
        self, embeds: Tensor, slot: Tensor, start: Tensor, count: Tensor, *, is_last: bool
    ) -> Tensor | None:
        """The same for a graph: the first ``count`` of the positions are the prompt's.

        Shapes: embeds [P, H]; slot, start, count [1] int64.
        """
        assert self.fused is not None
        attend = FusedPiece(self.arena, self.fused, self.angles, slot, start)
        hidden = self.talker.decode(embeds[None], attend, self.ops)[0]
        if not is_last:
            return None
        self.arena.position[slot] = start + count
        return self._draw(hidden[count - 1], slot, None, self.start_cache)

    def _draw(self, hidden: Tensor, rows: Tensor, slots: Slots | None, cache: FrameCache) -> Tensor:
        """All codes of one frame from the talker's hidden states, and the state moved on. Shapes: hidden [B, H]."""
        arena, config = self.arena, self.config.talker
        hidden = self.ops.norm(hidden, self.talker.model.norm)
        if self.fused is None:
            codes, finite = self._codes(hidden, rows, slots, cache)
        else:
            codes, finite = self._fused_codes(hidden, rows, cache)
        frame, first = arena.frame[rows], codes[:, 0]
        arena.codes[rows] = codes
        arena.seen[rows, first] = self.true
        arena.frame[rows] = (frame + 1) * (rows < arena.slots)
        ended = first == config.codec_eos_token_id
        return torch.cat((codes, ended[:, None], finite[:, None]), dim=1)

    def _codes(self, hidden: Tensor, rows: Tensor, slots: Slots | None, cache: FrameCache) -> tuple[Tensor, Tensor]:
        """Rule by rule and code by code. Shapes: results [B, Q] int64, [B] bool."""
        arena, config, ops = self.arena, self.config.talker, self.ops
        frame, noise = arena.frame[rows], None
        if slots is None or arena.talker_level.draws(slots) or arena.predictor_level.draws(slots):
            widest = max(config.vocab_size, self.config.predictor.vocab_size)
            noise = gumbel_noise(arena.seed[rows], frame, config.num_code_groups, widest)
        sums: list[Tensor] = []  # one a codebook; a score that is not finite makes its sum so
        levels = arena.talker_level.of(rows, slots), arena.predictor_level.of(rows, slots)

        def draw(codebook: int, logits: Tensor) -> Tensor:
            scores = logits.float()
            sums.append(scores.sum(dim=-1))
            if codebook == 0:
                eos, hold = config.codec_eos_token_id, arena.hold_until[rows]
                scores = talker_rules(scores, arena.seen[rows], arena.penalty[rows], frame, hold, self.allowed, eos)
            return pick(scores, levels[codebook > 0], None if noise is None else noise[:, codebook, : scores.shape[-1]])

        first = draw(0, self.talker.logits(hidden, ops))
        rest = self.talker.code_predictor.predict(hidden, self.talker.embed_first(first, ops), cache, ops, draw)
        return torch.stack((first, *rest), dim=-1), torch.stack(sums).isfinite().all(dim=0)

    def _fused_codes(self, hidden: Tensor, rows: Tensor, cache: FrameCache) -> tuple[Tensor, Tensor]:
        """The same with one launch a draw. Shapes: results [B, Q] int64, [B] bool."""
        arena, config, ops, fused = self.arena, self.config.talker, self.ops, self.fused
        assert fused is not None
        shape = len(rows), config.num_code_groups
        codes = torch.empty(shape, device=rows.device, dtype=torch.int64)
        finite = torch.empty(shape, device=rows.device, dtype=torch.bool)
        levels = arena.talker_level.every, arena.predictor_level.every
        rules = Rules(arena.seen, arena.penalty, arena.hold_until, MIN_TOKENS, config.codec_eos_token_id, config.codes)

        def draw(codebook: int, logits: Tensor) -> Tensor:
            return fused.draw(
                logits,
                rows,
                levels[codebook > 0],
                arena.seed,
                arena.frame,
                codebook,
                codes,
                finite,
                rules if codebook == 0 else None,
            )

        first = draw(0, self.talker.logits(hidden, ops))
        self.talker.code_predictor.predict(hidden, self.talker.embed_first(first, ops), cache, ops, draw)
        return codes, finite.all(dim=1)
