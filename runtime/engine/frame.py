"""One frame for every row that may run: next input, talker, code 0, codes 1 to Q-1, state moved on (facts 4, 5).

Everything that differs between rows lies in the arena's tensors, so that a whole frame is one function of
device state; the host adds only what it knows anyway (slots and lengths).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.engine.prompt import Prompt
from runtime.engine.sampling import LevelSettings, gumbel_noise, pick, talker_rules
from runtime.engine.slots import SlotArena
from runtime.model.checkpoint import Checkpoint
from runtime.model.code_predictor import FrameCache


@dataclass(frozen=True, slots=True)
class FrameResult:
    """The new frame of each row, on the host.

    Shapes: codes [B, Q] int64; ended, finite [B] bool. A row that ended has no frame.
    """

    codes: NDArray[np.int64]
    ended: NDArray[np.bool_]
    finite: NDArray[np.bool_]


class FrameRunner:
    """Talker and code predictor of one checkpoint over its arena.

    Args:
        slots, length: rows, and positions of each.
        piece: positions of a prompt that are read at once. Where pieces begin depends on the prompt alone, so that it
            gives the same numbers however busy the engine is.
    """

    def __init__(
        self, checkpoint: Checkpoint, device: Device, dtype: torch.dtype, slots: int, length: int, piece: int
    ) -> None:
        self.config, self.talker, self.device, self.piece = checkpoint.config, checkpoint.talker, device, piece
        self.arena = SlotArena(self.config, slots, length, device.torch_device, dtype)
        self.cache = FrameCache(self.config.predictor, slots, device.torch_device, dtype)
        talker = self.config.talker
        self.allowed = torch.arange(talker.vocab_size, device=device.torch_device) < talker.codes
        self.allowed[talker.codec_eos_token_id] = True

    @torch.inference_mode()
    def prefill(self, slot: int, prompt: Prompt, start: int = 0) -> tuple[int, FrameResult | None]:
        """Read the piece of a prompt that begins at ``start`` into a slot.

        Returns:
            Where the next piece begins, and, once the prompt is through, its first frame.
        """
        # What every text in this voice begins with is read apart, so that it can be kept.
        stop = min(start + self.piece, prompt.constant if start < prompt.constant else len(prompt.embeds))

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.arena.keys[layer][slot], self.arena.values[layer][slot]
            keys[:, start:stop], values[:, start:stop] = k[0], v[0]
            return self.device.attend_prompt(q, keys[None, :, :stop], values[None, :, :stop])

        positions = torch.arange(start, stop, device=self.device.torch_device).unsqueeze(0)
        hidden = self.talker.decode(prompt.embeds[None, start:stop], positions, attend)[:, -1]
        if stop < len(prompt.embeds):
            return stop, None
        self.arena.position[slot] = self.arena.host_position[slot] = stop
        slots = np.array([slot])
        return stop, self._draw_frame(slots, self._rows(slots), hidden)

    @torch.inference_mode()
    def step(self, slots: NDArray[np.int64]) -> FrameResult:
        """Make the next frame of some slots, each of which has made one before. Shapes: slots [B]."""
        arena, rows = self.arena, self._rows(slots)
        positions = arena.position[rows]
        lengths = arena.host_position[slots] + 1

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = arena.keys[layer], arena.values[layer]
            keys[rows, :, positions] = k[:, :, 0]
            values[rows, :, positions] = v[:, :, 0]
            return self.device.attend_rows(q, keys, values, slots, lengths)

        text = arena.trailing[rows, arena.frame[rows] - 1]
        x = self.talker.embed_frames(arena.codes[rows]) + self.talker.embed_text(text)
        hidden = self.talker.decode(x.unsqueeze(1), positions.unsqueeze(1), attend)[:, 0]
        arena.position[rows] = positions + 1
        arena.host_position[slots] = lengths
        return self._draw_frame(slots, rows, hidden)

    def _rows(self, slots: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(slots).to(self.device.torch_device)

    def _draw_frame(self, slots: NDArray[np.int64], rows: Tensor, hidden: Tensor) -> FrameResult:
        """All codes of one frame from the talker's hidden states. Shapes: slots, rows [B] int64; hidden [B, H]."""
        arena, config, predictor = self.arena, self.config.talker, self.talker.code_predictor
        frame, noise = arena.frame[rows], None
        if arena.talker_level.draws(slots) or arena.predictor_level.draws(slots):
            widest = max(config.vocab_size, self.config.predictor.vocab_size)
            noise = gumbel_noise(arena.seed[rows], frame, config.num_code_groups, widest)
        sums: list[Tensor] = []  # one a codebook; a score that is not finite makes its sum so

        def draw(codebook: int, logits: Tensor, scores: Tensor, level: LevelSettings) -> Tensor:
            sums.append(logits.sum(dim=-1))
            return pick(scores, level, None if noise is None else noise[:, codebook, : scores.shape[-1]])

        logits = self.talker.logits(hidden)
        eos, hold = config.codec_eos_token_id, arena.hold_until[rows]
        scores = talker_rules(logits, arena.seen[rows], arena.penalty[rows], frame, hold, self.allowed, eos)
        first = draw(0, logits, scores, arena.talker_level.of(slots, rows))
        level = arena.predictor_level.of(slots, rows)
        rest = predictor.predict(
            hidden,
            self.talker.embed_codec(first),
            self.cache,
            lambda codebook, logits: draw(codebook, logits, logits, level),
        )
        codes = torch.stack((first, *rest), dim=-1)
        arena.codes[rows] = codes
        arena.seen[rows, first] = True
        arena.frame[rows] = frame + 1
        arena.host_frame[slots] += 1
        finite = torch.stack(sums).isfinite().all(dim=0)
        told = torch.column_stack((codes, first == eos, finite)).cpu().numpy()  # one trip from the device
        return FrameResult(told[:, :-2], told[:, -2].astype(np.bool_), told[:, -1].astype(np.bool_))
