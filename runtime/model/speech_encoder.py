"""Speech encoder, which computes codes from reference audio (docs/model.md 2.5).

The network is the encoder of Mimi (Défossez et al. 2024, 3.3). The package `transformers` is not used, because the
module names and the attention mask of its Mimi class change between versions. The models were trained with attention to
all past positions. A sliding window would change the codes of reference audio longer than ten seconds. The encoder runs
once per voice, in float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.model.config import SpeechEncoderConfig
from runtime.model.extent import pad_replicate, zero_padding
from runtime.model.layers import LayerScale, rotary, rotate

CODEBOOK_EPS = 1e-5
PADDING_MODES = ("constant", "replicate")  # Padding modes with which a sequence may be stored in a longer buffer.


class PaddedConv(nn.Module):
    """Causal convolution that also pads the end of the input to a multiple of the stride.

    Shapes: T -> ceil(T / stride).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        bias: bool = True,
        pad: str = "constant",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation, bias=bias)
        self.left = (kernel - 1) * dilation + 1 - stride
        self.stride = stride
        self.pad = pad

    def forward(self, x: Tensor, length: Tensor | None = None) -> Tensor:
        right = -x.shape[-1] % self.stride
        if length is not None and self.stride > 1:  # If the stride is 1, the end of the input needs no padding.
            if self.pad == "replicate":
                return self.conv(pad_replicate(x, self.left, right, length))
            x = zero_padding(x, length)
        return self.conv(F.pad(x, (self.left, right), mode=self.pad))

    def output_length(self, length: Tensor | None) -> Tensor | None:
        """Return the number of valid outputs for `length` valid inputs.

        If `length` is None, the sequence fills the buffer, and the result is also None.
        """
        return None if length is None else (length + self.stride - 1) // self.stride


class ResidualBlock(nn.Module):
    def __init__(self, config: SpeechEncoderConfig, channels: int, dilation: int) -> None:
        super().__init__()
        squeezed, pad = channels // config.compress, config.pad_mode
        self.block = nn.ModuleList(
            [
                nn.ELU(),
                PaddedConv(channels, squeezed, config.residual_kernel_size, dilation=dilation, pad=pad),
                nn.ELU(),
                PaddedConv(squeezed, channels, 1, pad=pad),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for part in self.block:
            y = part(y)
        return x + y


class SEANet(nn.Module):
    """Convolutional encoder from audio samples to latents, at 25 Hz in published models."""

    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        channels, pad = config.num_filters, config.pad_mode
        layers: list[nn.Module] = [PaddedConv(config.audio_channels, channels, config.kernel_size, pad=pad)]
        for ratio in reversed(config.upsampling_ratios):
            layers += [
                ResidualBlock(config, channels, config.dilation_growth_rate**step)
                for step in range(config.num_residual_layers)
            ]
            layers += [nn.ELU(), PaddedConv(channels, 2 * channels, 2 * ratio, stride=ratio, pad=pad)]
            channels *= 2
        layers += [nn.ELU(), PaddedConv(channels, config.hidden_size, config.last_kernel_size, pad=pad)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Encode samples to latents, and return the latents and the number of valid latents.

        The number is None if `length` is None.
        """
        for layer in self.layers:
            if isinstance(layer, PaddedConv):
                x, length = layer(x, length), layer.output_length(length)
            else:
                x = layer(x)
        return x, length


class CausalAttention(nn.Module):
    """Causal multi-head attention over all earlier positions."""

    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.theta = config.rope_theta
        width, kv_width = (
            config.num_attention_heads * self.head_dim,
            config.num_key_value_heads * self.head_dim,
        )
        self.q_proj = nn.Linear(config.hidden_size, width, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=config.attention_bias)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=config.attention_bias)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (
            proj(x).view(B, T, -1, self.head_dim).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = rotary(torch.arange(T, device=x.device), self.head_dim, self.theta, x.dtype)
        out = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))


class GeluMlp(nn.Module):
    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.input_layernorm = nn.LayerNorm(width, eps=config.norm_eps)
        self.self_attn = CausalAttention(config)
        self.self_attn_layer_scale = LayerScale(width)
        self.post_attention_layernorm = nn.LayerNorm(width, eps=config.norm_eps)
        self.mlp = GeluMlp(config)
        self.mlp_layer_scale = LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x)))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class EncoderTransformer(nn.Module):
    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class EncoderCodebook(nn.Module):
    """Codebook of the speech encoder's quantizer.

    Published files also contain the training flag `initialized`, which is not used.
    """

    initialized: Tensor
    cluster_usage: Tensor
    embed_sum: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.empty(1))
        self.register_buffer("cluster_usage", torch.empty(size))
        self.register_buffer("embed_sum", torch.empty(size, width))

    def rows(self) -> Tensor:
        return self.embed_sum / self.cluster_usage.clamp(min=CODEBOOK_EPS).unsqueeze(-1)


class EncoderQuantizerLayer(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.codebook = EncoderCodebook(size, width)

    def forward(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Quantize each vector to the nearest row of the codebook.

        Shapes: residual [T, W]; results [T], the row indices, and [T, W], the remaining residual.
        """
        rows = self.codebook.rows()
        codes = torch.cdist(residual[None], rows[None])[0].argmin(dim=-1)
        return codes, residual - rows[codes]


class GreedyQuantizer(nn.Module):
    """Residual quantizer that applies one codebook after another.

    Each codebook selects the row nearest to the residual of the previous codebooks.
    """

    def __init__(self, config: SpeechEncoderConfig, groups: int) -> None:
        super().__init__()
        width = config.vector_quantization_hidden_dimension
        self.layers = nn.ModuleList(
            EncoderQuantizerLayer(config.codebook_size, config.codebook_dim) for _ in range(groups)
        )
        self.input_proj: nn.Module = nn.Identity()
        # The encoder does not use this layer. It exists because published files contain its weight.
        self.output_proj: nn.Module = nn.Identity()
        if width != config.hidden_size:
            self.input_proj = nn.Conv1d(config.hidden_size, width, 1, bias=False)
            self.output_proj = nn.Conv1d(width, config.hidden_size, 1, bias=False)

    def encode(self, x: Tensor, groups: int) -> Tensor:
        """Quantize latents to the codes of the first `groups` codebooks.

        Shapes: x [1, H, T]; result [T, groups] int64.
        """
        residual = self.input_proj(x)[0].T
        codes = []
        for layer in list(self.layers)[:groups]:
            nearest, residual = layer(residual)
            codes.append(nearest)
        return torch.stack(codes, dim=-1)


class EncoderQuantizer(nn.Module):
    """Semantic and acoustic quantizers, which quantize the same latents independently."""

    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        self.semantic = config.num_semantic_quantizers
        self.semantic_residual_vector_quantizer = GreedyQuantizer(config, self.semantic)
        self.acoustic_residual_vector_quantizer = GreedyQuantizer(config, config.num_quantizers - self.semantic)

    def encode(self, x: Tensor, groups: int) -> Tensor:
        semantic = self.semantic_residual_vector_quantizer.encode(x, self.semantic)
        acoustic = self.acoustic_residual_vector_quantizer.encode(x, groups - self.semantic)
        return torch.cat((semantic, acoustic), dim=-1)


class SpeechEncoder(nn.Module):
    """Encoder of the speech tokenizer (audio to codes), with the key prefix ``encoder.``.

    Args:
        groups: Number of codes per frame. Quantization is greedy, so a smaller number does not change the first codes.
        samples_per_frame: Number of audio samples per frame, 1920 in published models.
    """

    def __init__(self, config: SpeechEncoderConfig, groups: int, samples_per_frame: int) -> None:
        super().__init__()
        self.groups = groups
        self.samples_per_frame = samples_per_frame
        self._pad = config.pad_mode
        self.encoder = SEANet(config)
        self.encoder_transformer = EncoderTransformer(config)
        stride = samples_per_frame // config.seanet_stride
        width = config.hidden_size
        self.downsample: nn.Module = nn.Identity()
        if stride > 1:
            self.downsample = PaddedConv(width, width, 2 * stride, stride=stride, bias=False, pad="replicate")
        self.quantizer = EncoderQuantizer(config)

    @property
    def is_loaded(self) -> bool:
        """True if the weights are loaded, and not on the meta device."""
        return not next(self.parameters()).is_meta

    @property
    def takes_lengths(self) -> bool:
        """True if `forward` supports the argument `length`, for recordings in longer buffers."""
        return self._pad in PADDING_MODES

    def forward(self, samples: Tensor, length: Tensor | None = None) -> Tensor:
        """Encode audio to codes.

        If `length` is not None, only the first `length` samples are audio. N must then be a multiple of
        `samples_per_frame`.

        Shapes: samples [N] float32, 24 kHz; result [ceil(N / samples_per_frame), groups] int64.
        """
        x, length = self.encoder(samples[None, None], length)
        x = self.encoder_transformer(x.transpose(1, 2)).transpose(1, 2)
        if isinstance(self.downsample, PaddedConv):
            x = self.downsample(x, length)
        return self.quantizer.encode(x, self.groups)
