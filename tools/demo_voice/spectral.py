"""Multi-resolution spectral loss between waveforms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import config  # noqa: F401  # It makes the runtime importable.
from runtime.model.speaker_encoder import slaney_filters

SIZES = ((128, 12), (256, 24), (512, 40), (1024, 80), (2048, 80), (4096, 128))


class SpectralLoss(nn.Module):
    """Spectral loss that is averaged over six STFT sizes.

    For each size, the L1 distances of log-mels and log-magnitudes are added. Waveforms are [B, N].
    """

    def __init__(self) -> None:
        super().__init__()
        for size, mels in SIZES:
            window = torch.hann_window(size)
            self.register_buffer(f"window{size}", window / window.square().sum().sqrt())
            bank = torch.from_numpy(slaney_filters(mels, 24000, size // 2 + 1)).float().T
            self.register_buffer(f"bank{size}", bank / bank.sum(1, keepdim=True).clamp(min=1e-6))

    def magnitude(self, x: Tensor, size: int) -> Tensor:
        window = getattr(self, f"window{size}")
        s = torch.stft(x, size, size // 4, window=window, center=True, pad_mode="constant", return_complex=True)
        return torch.sqrt(s.real.square() + s.imag.square() + 1e-9)

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the L1 distance of the log-mels with an FFT size of 1024."""
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
