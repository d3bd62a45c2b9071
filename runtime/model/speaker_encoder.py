"""Speaker encoder, which computes an x-vector from reference audio (docs/model.md 2.3).

Source: Desplanques et al. 2020. The encoder runs once per voice, in float32. The talker uses the x-vector as an
embedding, without normalization.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from runtime.model.config import SpeakerEncoderConfig
from runtime.model.extent import masked_mean, pad_reflect, padding_mask

# Parameters of the mel spectrogram, which are the same for all published models (docs/model.md 2.3).
FFT, HOP, MEL_MAX_HZ = 1024, 256, 12_000
MAGNITUDE_EPS, MEL_FLOOR = 1e-9, 1e-5
VARIANCE_FLOOR = 1e-12


@dataclass(frozen=True, slots=True)
class MelFilter:
    """Filter bank and window of the mel spectrogram, which are computed only once.

    Shapes: bank [mel_dim, FFT // 2 + 1]; window [FFT].
    """

    bank: Tensor
    window: Tensor

    @classmethod
    def of(cls, config: SpeakerEncoderConfig, device: torch.device) -> MelFilter:
        bank = slaney_filters(config.mel_dim, config.sample_rate)
        return cls(torch.from_numpy(bank).float().to(device).T, torch.hann_window(FFT, device=device))


def slaney_filters(filters: int, sample_rate: int, bins: int = FFT // 2 + 1) -> NDArray[np.float64]:
    """Return triangular mel filters of equal area from 0 to `MEL_MAX_HZ`.

    Source: Slaney, Auditory Toolbox, 1998. The filters are bitwise equal to the result of
    `transformers.audio_utils.mel_filter_bank`. That function is not used, because its import takes a second.

    Shapes: result [bins, filters].
    """
    log_step = np.log(6.4) / 27.0  # The mel scale is linear up to 1 kHz (mel 15) and logarithmic above.
    mels = np.linspace(0.0, 15.0 + np.log(MEL_MAX_HZ / 1000.0) * (27.0 / np.log(6.4)), filters + 2)
    edges = np.where(mels < 15.0, 200.0 * mels / 3.0, 1000.0 * np.exp(log_step * (mels - 15.0)))
    slopes = edges - np.linspace(0, sample_rate // 2, bins)[:, None]
    widths = np.diff(edges)
    triangles = np.maximum(0.0, np.minimum(-slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]))
    bank: NDArray[np.float64] = triangles * (2.0 / (edges[2:] - edges[:-2]))
    return bank


def log_mel(samples: Tensor, mel: MelFilter, length: Tensor | None = None) -> Tensor:
    """Return the log-mel spectrogram of the first `length` samples of 24 kHz audio.

    Shapes: samples [..., N] float32; result [..., N // 256, mel_dim] float32.
    """
    edge = (FFT - HOP) // 2
    padded = pad_reflect(samples.unsqueeze(-2), edge, edge, length).squeeze(-2)
    spectrum = torch.stft(padded, FFT, HOP, window=mel.window, center=False, return_complex=True)
    magnitude = torch.sqrt(torch.view_as_real(spectrum).square().sum(-1) + MAGNITUDE_EPS)
    return (mel.bank @ magnitude).clamp(min=MEL_FLOOR).log().mT


def create_same_conv(inputs: int, outputs: int, kernel: int, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")


def apply_same_conv(conv: nn.Conv1d, x: Tensor, length: Tensor | None) -> Tensor:
    """Apply a convolution with reflection padding, so that the sequence keeps its length.

    The sequence is the first `length` steps of `x`, or all steps if `length` is None.

    Shapes: x, result [B, C, T].
    """
    edge = conv.dilation[0] * (conv.kernel_size[0] - 1)
    if length is None or not edge:
        result: Tensor = conv(x)
        return result
    padded = pad_reflect(x, edge // 2, edge - edge // 2, length)
    return F.conv1d(padded, conv.weight, conv.bias, dilation=conv.dilation)


class TimeDelay(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.conv = create_same_conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor, length: Tensor | None) -> Tensor:
        return F.relu(apply_same_conv(self.conv, x, length))


class Res2Net(nn.Module):
    """Res2Net block, which processes groups of channels one after another.

    Each group is added to the previous group's output and then convolved.
    """

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList(TimeDelay(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor, length: Tensor | None) -> Tensor:
        first, *rest = x.chunk(self.scale, dim=1)
        outputs = [first]
        for index, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            outputs.append(block(part if index == 0 else part + outputs[-1], length))
        return torch.cat(outputs, dim=1)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.conv1 = create_same_conv(channels, squeezed, 1)
        self.conv2 = create_same_conv(squeezed, channels, 1)

    def forward(self, x: Tensor, length: Tensor | None) -> Tensor:
        gate = self.conv2(F.relu(self.conv1(masked_mean(x, length)))).sigmoid()
        return x * gate


class SERes2NetBlock(nn.Module):
    def __init__(self, config: SpeakerEncoderConfig, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1 = TimeDelay(channels, channels, 1, 1)
        self.res2net_block = Res2Net(channels, config.enc_res2net_scale, kernel, dilation)
        self.tdnn2 = TimeDelay(channels, channels, 1, 1)
        self.se_block = SqueezeExcitation(channels, config.enc_se_channels)

    def forward(self, x: Tensor, length: Tensor | None) -> Tensor:
        y = self.res2net_block(self.tdnn1(x, length), length)
        return x + self.se_block(self.tdnn2(y, length), length)


class AttentiveStatistics(nn.Module):
    """Attention-weighted mean and standard deviation over time.

    The input of the attention includes the unweighted mean and standard deviation.
    """

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * channels, squeezed, 1, 1)
        self.conv = create_same_conv(squeezed, channels, 1)

    def forward(self, x: Tensor, length: Tensor | None) -> Tensor:
        uniform = torch.full_like(x, 1 / x.shape[-1])
        if length is not None:
            uniform = (1 / length).expand_as(x).masked_fill(padding_mask(x, length), 0)
        average, deviation = self._statistics(x, uniform)
        context = torch.cat((x, average.expand_as(x), deviation.expand_as(x)), dim=1)
        scores = self.conv(self.tdnn(context, length).tanh())
        if length is not None:
            scores = scores.masked_fill(padding_mask(x, length), -torch.inf)
        return torch.cat(self._statistics(x, scores.softmax(dim=2)), dim=1)

    @staticmethod
    def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        average = (weights * x).sum(dim=2, keepdim=True)
        variance = (weights * (x - average).square()).sum(dim=2, keepdim=True)
        return average, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class SpeakerEncoder(nn.Module):
    """Speaker encoder of a Base checkpoint, with the key prefix ``speaker_encoder.``."""

    def __init__(self, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self._mel: MelFilter | None = None
        channels, kernels, dilations = config.enc_channels, config.enc_kernel_sizes, config.enc_dilations
        stem = TimeDelay(config.mel_dim, channels[0], kernels[0], dilations[0])
        blocks = [
            SERes2NetBlock(config, width, kernel, dilation)
            for width, kernel, dilation in zip(channels[1:-1], kernels[1:-1], dilations[1:-1], strict=True)
        ]
        self.blocks = nn.ModuleList([stem, *blocks])
        self.mfa = TimeDelay(sum(channels[1:-1]), channels[-1], kernels[-1], dilations[-1])
        self.asp = AttentiveStatistics(channels[-1], config.enc_attention_channels)
        self.fc = create_same_conv(2 * channels[-1], config.enc_dim, 1)

    def prepare(self) -> MelFilter:
        """Return the mel filter on the device of the weights, and create it at the first call."""
        if self._mel is None:
            self._mel = MelFilter.of(self.config, self.fc.weight.device)
        return self._mel

    def forward(self, samples: Tensor, length: Tensor | None = None) -> Tensor:
        """Return the x-vector of reference audio.

        Shapes: samples [N] float32, 24 kHz; length None for all samples, or a scalar tensor for the first `length`
        samples; result [enc_dim] float32.
        """
        mels = log_mel(samples, self.prepare(), length)
        return self.encode(mels.unsqueeze(0), None if length is None else length // HOP)[0]

    def encode(self, mels: Tensor, frames: Tensor | None = None) -> Tensor:
        """Return the x-vectors of log-mel spectrograms.

        Shapes: mels [B, T, mel_dim] float32; frames None for all T, or a scalar tensor for the first `frames` steps;
        result [B, enc_dim] float32.
        """
        x = mels.mT
        stem, *blocks = self.blocks
        x = stem(x, frames)
        seen = []
        for block in blocks:
            x = block(x, frames)
            seen.append(x)
        x = self.mfa(torch.cat(seen, dim=1), frames)
        return self.fc(self.asp(x, frames))[..., 0]
