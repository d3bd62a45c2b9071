"""Discriminators on complex STFTs and their losses, for the training of the decoder."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpectrumJudge(nn.Module):
    """Discriminator that reads a complex STFT.

    The forward pass returns the features of all layers. The features of the last layer are the scores.
    """

    def __init__(self, size: int, channels: int = 32) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size) / math.sqrt(size * 0.375))
        widths = (2, channels, channels, channels, channels)
        shapes = (((3, 9), (1, 1)), ((3, 9), (1, 2)), ((3, 9), (1, 2)), ((3, 3), (1, 1)))
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(i, o, k, s, padding=(k[0] // 2, k[1] // 2)))
            for i, o, (k, s) in zip(widths, widths[1:], shapes, strict=False)
        )
        self.score = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor) -> list[Tensor]:
        s = torch.stft(
            x, self.size, self.size // 4, window=self.window, center=True, pad_mode="constant", return_complex=True
        )
        y = torch.stack((s.real, s.imag), 1).transpose(2, 3) * 3
        features = []
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda, cache_enabled=False):
            for layer in self.layers:
                y = F.leaky_relu(layer(y), 0.2)
                features.append(y)
            return [*features, self.score(y).float()]


class Judges(nn.ModuleList):
    """Three discriminators with different STFT sizes, trained with least-squares losses."""

    def __init__(self) -> None:
        super().__init__(SpectrumJudge(size) for size in (2048, 1024, 512))

    def own_loss(self, made: Tensor, true: Tensor) -> Tensor:
        """Return the loss of the discriminators.

        The target is 1 for real audio and 0 for generated audio. No gradient reaches the generated audio.
        """
        losses = [(1 - judge(true)[-1]).square().mean() + judge(made.detach())[-1].square().mean() for judge in self]
        return torch.stack(losses).mean()

    def adversarial_losses(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the adversarial loss and the feature-matching loss of generated audio.

        The feature-matching loss is the relative distance between the features of generated and real audio.
        """
        adversarial, feature = made.new_zeros(()), made.new_zeros(())
        for judge in self:
            with torch.no_grad():
                wanted = judge(true)
            got = judge(made)
            adversarial = adversarial + (1 - got[-1]).square().mean() / len(self)
            gaps = [
                (g - w).abs().mean() / w.abs().mean().clamp(min=1e-4)
                for g, w in zip(got[:-1], wanted[:-1], strict=True)
            ]
            feature = feature + sum(gaps) / (len(gaps) * len(self))
        return adversarial, feature
