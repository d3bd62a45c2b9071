"""Reference audio to x-vector: a log-mel front end and an ECAPA-TDNN (facts 2.3; Desplanques et al. 2020).

Runs once a voice, in float32, and its output goes to the talker as one embedding, not normalised.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.model.config import SpeakerEncoderConfig

# The mel front end is fixed by the published models (facts 2.3).
FFT, HOP, MEL_MAX_HZ = 1024, 256, 12_000
MAGNITUDE_EPS, MEL_FLOOR = 1e-9, 1e-5
VARIANCE_FLOOR = 1e-12


def log_mel(samples: Tensor, config: SpeakerEncoderConfig) -> Tensor:
    """Log-mel spectrogram of 24 kHz audio.

    Shapes: samples [N] float32; result [N // 256, mel_dim] float32.
    """
    from transformers.audio_utils import mel_filter_bank  # slow to import, wanted for cloning only

    bank = mel_filter_bank(
        num_frequency_bins=FFT // 2 + 1,
        num_mel_filters=config.mel_dim,
        min_frequency=0.0,
        max_frequency=float(MEL_MAX_HZ),
        sampling_rate=config.sample_rate,
        norm="slaney",
        mel_scale="slaney",
    )
    weights = torch.from_numpy(bank).float().to(samples.device).T  # [mel, bins]
    edge = (FFT - HOP) // 2
    padded = F.pad(samples[None, None], (edge, edge), mode="reflect")[0, 0]
    window = torch.hann_window(FFT, device=samples.device)
    spectrum = torch.stft(padded, FFT, HOP, window=window, center=False, return_complex=True)
    magnitude = torch.sqrt(torch.view_as_real(spectrum).square().sum(-1) + MAGNITUDE_EPS)
    return (weights @ magnitude).clamp(min=MEL_FLOOR).log().T


def same_conv(inputs: int, outputs: int, kernel: int, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")


class TimeDelay(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.conv = same_conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Res2Net(nn.Module):
    """Channel groups in a chain: each is filtered together with the output of the one before."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList(TimeDelay(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(self.scale, dim=1)
        outputs = [first]
        for index, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            outputs.append(block(part if index == 0 else part + outputs[-1]))
        return torch.cat(outputs, dim=1)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.conv1 = same_conv(channels, squeezed, 1)
        self.conv2 = same_conv(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.conv2(F.relu(self.conv1(x.mean(dim=2, keepdim=True)))).sigmoid()
        return x * gate


class SERes2NetBlock(nn.Module):
    def __init__(self, config: SpeakerEncoderConfig, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1 = TimeDelay(channels, channels, 1, 1)
        self.res2net_block = Res2Net(channels, config.enc_res2net_scale, kernel, dilation)
        self.tdnn2 = TimeDelay(channels, channels, 1, 1)
        self.se_block = SqueezeExcitation(channels, config.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentiveStatistics(nn.Module):
    """Mean and standard deviation over time, weighted by an attention that has seen the plain ones."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * channels, squeezed, 1, 1)
        self.conv = same_conv(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        uniform = torch.full_like(x, 1 / x.shape[-1])
        mean, deviation = self._statistics(x, uniform)
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), dim=1)
        weights = self.conv(self.tdnn(context).tanh()).softmax(dim=2)
        return torch.cat(self._statistics(x, weights), dim=1)

    @staticmethod
    def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        mean = (weights * x).sum(dim=2, keepdim=True)
        variance = (weights * (x - mean).square()).sum(dim=2, keepdim=True)
        return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class SpeakerEncoder(nn.Module):
    """Published under ``speaker_encoder.`` in Base checkpoints."""

    def __init__(self, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        channels, kernels, dilations = config.enc_channels, config.enc_kernel_sizes, config.enc_dilations
        stem = TimeDelay(config.mel_dim, channels[0], kernels[0], dilations[0])
        blocks = [
            SERes2NetBlock(config, width, kernel, dilation)
            for width, kernel, dilation in zip(channels[1:-1], kernels[1:-1], dilations[1:-1], strict=True)
        ]
        self.blocks = nn.ModuleList([stem, *blocks])
        self.mfa = TimeDelay(sum(channels[1:-1]), channels[-1], kernels[-1], dilations[-1])
        self.asp = AttentiveStatistics(channels[-1], config.enc_attention_channels)
        self.fc = same_conv(2 * channels[-1], config.enc_dim, 1)

    def forward(self, samples: Tensor) -> Tensor:
        """The x-vector of a reference. Shapes: samples [N] float32, 24 kHz; result [enc_dim] float32."""
        x = log_mel(samples, self.config).T.unsqueeze(0)
        stem, *blocks = self.blocks
        x = stem(x)
        seen = []
        for block in blocks:
            x = block(x)
            seen.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(seen, dim=1))))[0, :, 0]
