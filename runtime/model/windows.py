"""Decodes codes in windows, as the official package does, so that long sound can be compared with its own.

We decode from beginning to end (runtime/model/code2wav.py); the sound differs from the second window on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav

WINDOW = 300  # frames that are decoded at once (docs/model.md 6.1)
CONTEXT = 25  # frames before them that are decoded again


def decode_in_windows(code2wav: Code2Wav, codes: Tensor) -> Tensor:
    """Begin anew every ``WINDOW`` frames, knowing no more of what was before than ``CONTEXT`` frames.

    Shapes: codes [B, n, Q] int64; result [B, n * samples_per_frame] in [-1, 1].
    """
    sound = []
    for begin in range(0, codes.shape[1], WINDOW):
        context = min(begin, CONTEXT)
        wave = code2wav(codes[:, begin - context : begin + WINDOW], code2wav.fresh_state(len(codes)))
        sound.append(wave[:, context * code2wav.config.samples_per_frame :])
    return torch.cat(sound, dim=1)
