"""One frame for every row that may run: next input, talker, code 0, codes 1 to Q-1, state moved on (facts 4, 5).

Everything that differs between rows lies in the arena's tensors, so that a whole frame is one function of
device state; the host adds only what it knows anyway (slots and lengths).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
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

    Shapes: codes [B, Q] int64 on the CPU; ended, finite: one bool a row. A row that ended has no frame.
    """

    codes: Tensor
    ended: list[bool]
    finite: list[bool]


class FrameRunner:
    """Talker and code predictor of one checkpoint over its arena."""

    def __init__(self, checkpoint: Checkpoint, device: Device, dtype: torch.dtype, slots: int, length: int) -> None:
        self.config, self.talker, self.device = checkpoint.config, checkpoint.talker, device
        self.arena = SlotArena(self.config, slots, length, device.torch_device, dtype)
        self.cache = FrameCache(self.config.predictor, slots, device.torch_device, dtype)
        self.host_position = [0] * slots  # the arena's positions, known without asking the device
        talker = self.config.talker
        self.allowed = torch.arange(talker.vocab_size, device=device.torch_device) < talker.codes
        self.allowed[talker.codec_eos_token_id] = True

    @torch.inference_mode()
    def prefill(self, slot: int, prompt: Prompt) -> FrameResult:
        """Read a prompt into a slot and make its first frame."""
        length = len(prompt.embeds)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.arena.keys[layer][slot, :, :length] = k[0]
            self.arena.values[layer][slot, :, :length] = v[0]
            return self.device.attend_prompt(q, k, v)

        positions = torch.arange(length, device=self.device.torch_device).unsqueeze(0)
        hidden = self.talker.decode(prompt.embeds.unsqueeze(0), positions, attend)[:, -1]
        self.arena.position[slot] = length
        self.host_position[slot] = length
        return self._draw_frame([slot], torch.tensor([slot], device=self.device.torch_device), hidden)

    @torch.inference_mode()
    def step(self, slots: list[int]) -> FrameResult:
        """Make the next frame of some slots, each of which has made one before."""
        arena, rows = self.arena, torch.tensor(slots, device=self.device.torch_device)
        positions = arena.position[rows]
        lengths = [self.host_position[slot] + 1 for slot in slots]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = arena.keys[layer], arena.values[layer]
            keys[rows, :, positions] = k[:, :, 0]
            values[rows, :, positions] = v[:, :, 0]
            return self.device.attend_rows(q, keys, values, slots, lengths)

        text = arena.trailing[rows, arena.frame[rows] - 1]
        x = self.talker.embed_frames(arena.codes[rows]) + self.talker.embed_text(text)
        hidden = self.talker.decode(x.unsqueeze(1), positions.unsqueeze(1), attend)[:, 0]
        arena.position[rows] = positions + 1
        for slot in slots:
            self.host_position[slot] += 1
        return self._draw_frame(slots, rows, hidden)

    def _draw_frame(self, slots: list[int], rows: Tensor, hidden: Tensor) -> FrameResult:
        """All codes of one frame from the talker's hidden states. Shapes: rows [B] int64; hidden [B, H]."""
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
        eos = config.codec_eos_token_id
        scores = talker_rules(logits, arena.seen[rows], arena.penalty[rows], frame, self.allowed, eos)
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
        ended = first == eos
        finite = torch.stack(sums).isfinite().all(dim=0)
        return FrameResult(codes.cpu(), ended.tolist(), finite.tolist())
