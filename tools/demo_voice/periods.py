"""How far apart the periods of two sounds are: a term on F0 that reaches the decoder.

A head that reads F0 in the codes says nothing of what is made of them, and spectra of a deep voice look much alike
at an F0 7 % off.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RATE, HOP, WINDOW, LAGS = 8000, 160, 480, 256
LOW, HIGH = 55, 420  # Hz, as in synthesise.track_f0, whose labels say what is voiced
SHARPNESS = 10.0  # of the softmax over lags: an F0 2 % off costs 0.5, one 9 % off costs 4


class PeriodLoss(nn.Module):
    """Divergence of the two sounds' normalised autocorrelations over the lags of speech. Samples [B, 480 L]."""

    def __init__(self) -> None:
        super().__init__()
        taper = torch.hann_window(WINDOW, periodic=False)
        base = torch.fft.irfft(torch.fft.rfft(taper, 1024).abs().square())[:LAGS]
        self.register_buffer("taper", taper)
        self.register_buffer("base", base / base[0])

    def periods(self, audio: Tensor) -> Tensor:
        """Return log-probabilities of lags [B, L, lags], 50 rows a second."""
        small = audio.unflatten(-1, (-1, 3)).mean(-1)
        frames = F.pad(small, (WINDOW // 2 - HOP // 2, WINDOW)).unfold(-1, WINDOW, HOP)[:, : audio.shape[-1] // 480]
        frames = (frames - frames.mean(-1, keepdim=True)) * self.taper
        s = torch.fft.rfft(frames, 1024)
        auto = torch.fft.irfft(s.real.square() + s.imag.square())[..., :LAGS]
        # the floor is a hundredth of what is loud: near silence has no period
        auto = auto / (auto[..., :1] + 1e-2) / self.base
        return (SHARPNESS * auto[..., RATE // HIGH : RATE // LOW + 1]).log_softmax(-1)

    def forward(self, made: Tensor, true: Tensor, voiced: Tensor) -> Tensor:
        """Return the mean over voiced labels [B, L]."""
        with torch.no_grad():
            wanted = self.periods(true)
        apart = F.kl_div(self.periods(made), wanted, log_target=True, reduction="none").sum(-1)
        return (apart * voiced).sum() / voiced.sum().clamp(min=1)
