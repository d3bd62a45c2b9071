"""Multi-resolution spectral distances between waveforms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SIZES = ((128, 12), (256, 24), (512, 40), (1024, 80), (2048, 80), (4096, 128))


def mel_matrix(bins: int, mels: int, rate: int = 24000, low: float = 0.0, high: float = 12000.0) -> Tensor:
    """Return the Slaney-scale, area-normalised filterbank [mels, bins] (librosa's default)."""

    def to_mel(f: Tensor) -> Tensor:
        return torch.where(
            f < 1000, f * 3 / 200, 15 + torch.log(f.clamp(min=1) / 1000) * 27 / torch.log(torch.tensor(6.4))
        )

    def to_hz(m: Tensor) -> Tensor:
        return torch.where(m < 15, m * 200 / 3, 1000 * torch.exp((m - 15) * torch.log(torch.tensor(6.4)) / 27))

    span = to_mel(torch.tensor([low, high], dtype=torch.float64))
    edges = to_hz(torch.linspace(span[0], span[1], mels + 2, dtype=torch.float64))
    freqs = torch.linspace(0, rate / 2, bins, dtype=torch.float64)
    rise = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    weights = torch.minimum(rise, fall).clamp(min=0) * (2 / (edges[2:] - edges[:-2]))[:, None]
    return weights.float()


class SpectralLoss(nn.Module):
    """Mean over six STFT sizes of log-mel L1 plus a share of log-magnitude L1. Waveforms are [B, N]."""

    def __init__(self) -> None:
        super().__init__()
        for size, mels in SIZES:
            window = torch.hann_window(size)
            self.register_buffer(f"window{size}", window / window.square().sum().sqrt())
            bank = mel_matrix(size // 2 + 1, mels)
            self.register_buffer(f"bank{size}", bank / bank.sum(1, keepdim=True).clamp(min=1e-6))

    def magnitude(self, x: Tensor, size: int) -> Tensor:
        window = getattr(self, f"window{size}")
        s = torch.stft(x, size, size // 4, window=window, center=True, pad_mode="constant", return_complex=True)
        return torch.sqrt(s.real.square() + s.imag.square() + 1e-9)

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return (loss, log-mel L1 at 1024)."""
        total, mel1024 = made.new_zeros(()), made.new_zeros(())
        for size, _ in SIZES:
            with torch.no_grad():
                t = self.magnitude(true, size)
            m = self.magnitude(made, size)
            bank = getattr(self, f"bank{size}")
            mel = ((bank @ m + 1e-4).log() - (bank @ t + 1e-4).log()).abs().mean()
            lin = ((m + 1e-4).log() - (t + 1e-4).log()).abs().mean()
            total = total + mel + (0.5 if size >= 2048 else 0.3) * lin
            mel1024 = mel.detach() if size == 1024 else mel1024
        return total / len(SIZES), mel1024
