"""Code2Wav over the arena of open streams: frames of several requests in, their sound out, batched by chunk size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav

FULL_SCALE = 32767  # of s16le, as libsndfile scales


class SoundStreams:
    """One stream a slot. A stream is fresh when it is opened, whatever its slot held before."""

    def __init__(self, code2wav: Code2Wav, slots: int) -> None:
        self.code2wav = code2wav
        with torch.inference_mode():
            self.state = code2wav.fresh_state(slots)

    @torch.inference_mode()
    def open(self, slot: int, reference: Tensor | None = None) -> None:
        """Begin a stream, after reference frames if there are any. Shapes: reference [m, Q] int64."""
        self.state.reset(slot)
        if reference is not None:
            row = torch.tensor([slot], device=self.state.frames.device)
            state = self.state.rows(row)
            self.code2wav.warm(reference.to(row.device).unsqueeze(0), state)
            self.state.write(row, state)

    @torch.inference_mode()
    def decode(self, chunks: Sequence[tuple[int, Tensor]]) -> list[bytes | None]:
        """The sound of the next frames of some streams, as s16le; None where it is not finite.

        Shapes: chunks of (slot, codes [n, Q] int64); each result has n * samples_per_frame samples.
        """
        sounds: list[bytes | None] = [None] * len(chunks)
        sizes: dict[int, list[int]] = defaultdict(list)
        for index, (_, codes) in enumerate(chunks):
            sizes[len(codes)].append(index)
        for members in sizes.values():
            rows = torch.tensor([chunks[index][0] for index in members], device=self.state.frames.device)
            codes = torch.stack([chunks[index][1] for index in members]).to(rows.device)
            state = self.state.rows(rows)
            wave = self.code2wav(codes, state)
            self.state.write(rows, state)
            finite = wave.isfinite().all(dim=-1).tolist()
            for index, samples, sane in zip(members, to_s16(wave).cpu(), finite, strict=True):
                sounds[index] = samples.numpy().tobytes() if sane else None
        return sounds


def to_s16(wave: Tensor) -> Tensor:
    """Shapes: wave [...] float in [-1, 1]; result [...] int16; what is not finite becomes silence."""
    return (wave.nan_to_num() * FULL_SCALE).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)
