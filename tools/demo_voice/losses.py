"""Losses for the training of the codec: multi-resolution spectra, and discriminators."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import config  # noqa: F401  # It makes the runtime importable.
from runtime.model.speaker_encoder import slaney_filters

# Pairs of an STFT size and the number of mel bands at this size.
SIZES = ((128, 12), (256, 24), (512, 40), (1024, 80), (2048, 80), (4096, 128))

# STFT sizes and band limits in Hz of the discriminators. Half of them read only low frequencies: the phases of the low
# harmonics affect the quality most, but they have few bins in a whole spectrum.
BANDS = ((2048, 12000), (1024, 12000), (512, 12000), (2048, 2000), (1024, 2000), (512, 3000))


def stft(x: Tensor, window: Tensor) -> Tensor:
    size = len(window)
    return torch.stft(x, size, size // 4, window=window, center=True, pad_mode="constant", return_complex=True)


class SpectralLoss(nn.Module):
    """L1 loss of the log-mels and log-magnitudes of waveforms [B, N] at six STFT sizes."""

    def __init__(self) -> None:
        super().__init__()
        for size, mels in SIZES:
            window = torch.hann_window(size)
            self.register_buffer(f"window{size}", window / window.square().sum().sqrt())
            bank = torch.from_numpy(slaney_filters(mels, 24000, size // 2 + 1)).float().T
            self.register_buffer(f"bank{size}", bank / bank.sum(1, keepdim=True).clamp(min=1e-6))

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the L1 distance of the log-mels with an FFT size of 1024."""
        total, mel1024 = made.new_zeros(()), made.new_zeros(())
        for size, _ in SIZES:
            window, bank = getattr(self, f"window{size}"), getattr(self, f"bank{size}")
            spectra = stft(true, window), stft(made, window)
            t, m = (torch.sqrt(s.real.square() + s.imag.square() + 1e-9) for s in spectra)
            mel = ((bank @ m + 1e-4).log() - (bank @ t + 1e-4).log()).abs().mean()
            lin = ((m + 1e-4).log() - (t + 1e-4).log()).abs().mean()
            total = total + mel + (0.5 if size >= 2048 else 0.3) * lin
            mel1024 = mel.detach() if size == 1024 else mel1024
        return total / len(SIZES), mel1024


class Discriminator(nn.Module):
    """Discriminator that reads the bins of a complex STFT up to `limit_hz`.

    The forward pass returns the features of all layers. The features of the last layer are the scores.
    """

    def __init__(self, size: int, limit_hz: int, channels: int = 32) -> None:
        super().__init__()
        self.bins = size * limit_hz // 24000 + 1
        self.register_buffer("window", torch.hann_window(size) / math.sqrt(size * 0.375))
        # Input channels, kernel width and stride of each convolution.
        shapes = (2, 9, 1), (channels, 9, 2), (channels, 9, 2), (channels, 3, 1)
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(n, channels, (3, k), (1, s), padding=(1, k // 2)))
            for n, k, s in shapes
        )
        self.score = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor) -> list[Tensor]:
        s = stft(x, self.window)[:, : self.bins]
        y = torch.stack((s.real, s.imag), 1).transpose(2, 3) * 3
        features = []
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda, cache_enabled=False):
            for layer in self.layers:
                y = F.leaky_relu(layer(y), 0.2)
                features.append(y)
            return [*features, self.score(y).float()]


class Discriminators(nn.ModuleList):
    """Discriminators of complex STFTs, trained with least-squares losses."""

    def __init__(self) -> None:
        super().__init__(Discriminator(size, limit_hz) for size, limit_hz in BANDS)

    def own_loss(self, made: Tensor, true: Tensor) -> Tensor:
        """Return the loss with which the discriminators are trained.

        The target is 1 for real audio and 0 for generated audio. No gradient reaches the generated audio.
        """
        losses = [(1 - each(true)[-1]).square().mean() + each(made.detach())[-1].square().mean() for each in self]
        return torch.stack(losses).mean()

    def adversarial_losses(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the adversarial loss and the feature-matching loss of generated audio.

        The feature-matching loss is the relative distance between the discriminators' features of generated and real
        audio.
        """
        adversarial, feature = made.new_zeros(()), made.new_zeros(())
        for each in self:
            with torch.no_grad():
                *wanted, _ = each(true)
            *got, score = each(made)
            adversarial = adversarial + (1 - score).square().mean() / len(self)
            pairs = zip(got, wanted, strict=True)
            gaps = [(g - w).abs().mean() / w.abs().mean().clamp(min=1e-4) for g, w in pairs]
            feature = feature + sum(gaps) / (len(gaps) * len(self))
        return adversarial, feature
