"""A small network that reads phones in sound: trained on the teachers' labels, then frozen as a listener of the codec.

Spectral distances weigh a burst of 10 ms like any other 10 ms; what tells two consonants apart weighs more here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spectral import mel_matrix
from teachers import PHONES

WINDOW, HOP, MELS = 600, 240, 64  # samples at 24 kHz: 25 ms, 10 ms


class Block(nn.Module):
    """Dilated residual convolution."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.conv1 = nn.Conv1d(width, width, 3, dilation=dilation, padding=dilation)
        self.conv2 = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.gelu(self.conv1(self.norm(x))))


class PhoneNet(nn.Module):
    """From samples [B, 480 L] to scores of phones [B, L, phones], 50 a second."""

    def __init__(self, width: int = 224) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW))
        bank = mel_matrix(513, MELS)
        self.register_buffer("bank", bank / bank.sum(1, keepdim=True).clamp(min=1e-6))
        self.first = nn.Conv1d(MELS, width, 5, padding=2)
        self.fast = nn.ModuleList(Block(width, d) for d in (1, 2, 4))
        self.halve = nn.Conv1d(width, width, 4, 2, padding=1)
        self.slow = nn.ModuleList(Block(width, d) for d in (1, 2, 4))
        self.head = nn.Conv1d(width, len(PHONES), 1)

    def mels(self, audio: Tensor) -> Tensor:
        """Return log-mels [B, mels, 2 L] with a floor below which nothing is heard."""
        s = torch.stft(audio, 1024, HOP, WINDOW, self.window, center=True, pad_mode="constant", return_complex=True)
        power = s.real.square() + s.imag.square() + 1e-7
        return 0.25 * (self.bank @ power + 1e-3).log()[..., :-1]

    def features(self, audio: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """Return what every block hears, the scores [B, phones, L] last."""
        x = self.mels(audio)
        x = self.first(x if mask is None else x * mask)
        heard = []
        for block in self.fast:
            x = block(x)
            heard.append(x)
        x = self.halve(x)
        for block in self.slow:
            x = block(x)
            heard.append(x)
        return [*heard, self.head(x)]


def heard_apart(net: PhoneNet, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """Return (how far apart the two sounds [B, N] are to the listener, the share of labels that it reads alike)."""
    with torch.no_grad():
        *wanted, said = net.features(true)
    *got, scores = net.features(made)
    gap = torch.stack([(g - w).abs().mean() / w.abs().mean() for g, w in zip(got, wanted, strict=True)]).mean()
    apart = F.kl_div(scores.log_softmax(1), said.log_softmax(1), log_target=True, reduction="none").sum(1).mean()
    return gap + 0.5 * apart, (scores.argmax(1) == said.argmax(1)).float().mean()
