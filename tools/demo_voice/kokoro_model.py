"""Batched PyTorch version of Kokoro-82M (Apache-2.0), with weights from its ONNX export.

The int8 export stores three tensors for each weight: integers (uint8 or int8), a scale and a zero point. `read_weights`
dequantizes the weights and returns them under the names of the PyTorch modules. Unlike the export, `Kokoro` supports
batches of utterances with different lengths. Reference: the PyPI package `kokoro` 0.9.4 and Li et al., "StyleTTS 2"
(2023).
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HOP_SAMPLES = 600  # Samples per frame of the predicted durations, which have 40 frames per second at 24 kHz.
ALBERT = "bert.encoder.albert_layer_groups.0.albert_layers.0"


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the dequantized float32 weights of the ONNX export, keyed by module name."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    raw = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}

    def clean(name: str) -> str:
        return re.sub(r"^(decoder|encoder)\.", "", name).replace("predictor.F0", "F0").replace("predictor.N", "N")

    def weight_of(name: str, zero: str | None = None, index: tuple = (...,)) -> Tensor:
        if not name.endswith("_quantized"):
            return raw[name]
        weight = raw[name].float() - (raw[zero].float() if zero else 0.0)
        return weight * raw[name.replace("_quantized", "_scale")][index]

    out = {clean(k): t for k, t in raw.items() if t.dtype == torch.float32 and not k.startswith(("/", "onnx"))}
    for node in graph.node:
        stored = [i for i in node.input if i in raw and raw[i].dtype != torch.int64]
        module = re.sub(r"/([^/]+)/\1(\.\d+)/", r"/\1\2/", node.name.rsplit("/", 1)[0] + "/").strip("/")
        module = clean(module.replace("/", "."))
        if node.op_type == "DynamicQuantizeLSTM":
            inputs, states, bias, *_ = stored
            for which, name in (("ih", inputs), ("hh", states)):
                out[f"{module}.{which}"] = weight_of(name, index=(slice(None), None, None)).transpose(1, 2)
            out[f"{module}.bias"] = raw[bias]
        elif stored and node.op_type.startswith(("Conv", "MatMul", "Gather")):
            weight = weight_of(*stored[:2])
            out.setdefault(f"{module}.weight", weight.T if node.op_type.startswith("MatMul") else weight)
    return out


def lstm(weights: dict[str, Tensor], name: str) -> nn.LSTM:
    """Return a bidirectional LSTM with weights of the ONNX export.

    The order of the gates is input, output, forget, cell in ONNX, and input, forget, cell, output in PyTorch.
    """
    module = nn.LSTM(weights[f"{name}.ih"].shape[2], 256, batch_first=True, bidirectional=True)
    (bias_ih, bias_hh), state = weights[f"{name}.bias"].chunk(2, 1), {}
    parts = {"bias_ih": bias_ih, "bias_hh": bias_hh}
    parts |= {f"weight_{which}": weights[f"{name}.{which}"] for which in ("ih", "hh")}
    for part, gates in parts.items():
        i, o, f, c = gates.chunk(4, 1)
        state[f"{part}_l0"], state[f"{part}_l0_reverse"] = torch.cat((i, f, c, o), 1)
    module.load_state_dict(state)
    return module


def normalised(x: Tensor, gamma: Tensor, beta: Tensor, mask: Tensor) -> Tensor:
    """Apply adaptive instance normalization to the valid frames, and set the others to 0.

    Shapes: x [B, C, T]; mask [B, 1, T].
    """
    count = mask.sum(-1, keepdim=True)
    centred = (x - (x * mask).sum(-1, keepdim=True) / count) * mask
    variance = centred.square().sum(-1, keepdim=True) / count
    return ((1 + gamma) * (centred * torch.rsqrt(variance + 1e-5)) + beta) * mask


def normalised_snake(x: Tensor, gamma: Tensor, beta: Tensor, mask: Tensor, alpha: Tensor) -> Tensor:
    x = normalised(x, gamma, beta, mask)
    return x + torch.sin(alpha * x).square() / alpha


class Kokoro:
    """Text-to-speech model whose inputs are phoneme ids and a style vector."""

    def __init__(self, weights: dict[str, Tensor], device: torch.device) -> None:
        self.w = {name: weight.to(device) for name, weight in weights.items()}
        names = [name.removesuffix(".ih") for name in weights if name.endswith(".ih")]
        self.lstms = {name: lstm(weights, name).to(device) for name in names}
        is_cuda = device.type == "cuda"
        self.norm = torch.compile(normalised, dynamic=True) if is_cuda else normalised
        self.snake = torch.compile(normalised_snake, dynamic=True) if is_cuda else normalised_snake

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def conv(self, x: Tensor, name: str, **kwargs: int) -> Tensor:
        return F.conv1d(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"), **kwargs)

    def layer_norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-12)

    def recur(self, x: Tensor, lengths: Tensor, name: str) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = self.lstms[name](packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0]

    def albert(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the hidden states [B, N, 768] of the phoneme-level language model."""
        names = (f"bert.embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type"))
        word, position, kind = (self.w[name] for name in names)
        x = F.embedding(ids, word) + position[: ids.shape[1]] + kind[0]
        x = self.linear(self.layer_norm(x, "bert.embeddings.LayerNorm"), "bert.encoder.embedding_hidden_mapping_in")
        for _ in range(12):
            q, k, v = (self.linear(x, f"{ALBERT}.attention.{n}").unflatten(-1, (12, 64)).transpose(1, 2)
                       for n in ("query", "key", "value"))  # fmt: skip
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
            y = self.linear(y.transpose(1, 2).flatten(2), f"{ALBERT}.attention.dense")
            x = self.layer_norm(x + y, f"{ALBERT}.attention.LayerNorm")
            y = self.linear(F.gelu(self.linear(x, f"{ALBERT}.ffn"), approximate="tanh"), f"{ALBERT}.ffn_output")
            x = self.layer_norm(x + y, f"{ALBERT}.full_layer_layer_norm")
        return x

    def style(self, s: Tensor, name: str) -> tuple[Tensor, ...]:
        return self.linear(s, f"{name}.fc")[..., None].chunk(2, 1)

    def block(self, x: Tensor, s: Tensor, name: str, mask: Tensor, up: bool = False) -> tuple[Tensor, Tensor]:
        """Apply a residual block with adaptive normalization, and return the output and its mask.

        If `up` is true, the number of frames is doubled.
        """
        y = F.leaky_relu(self.norm(x, *self.style(s, f"{name}.norm1"), mask), 0.2)
        if up:
            pool = self.w[f"{name}.pool.weight"], self.w[f"{name}.pool.bias"]
            y = F.conv_transpose1d(y, *pool, stride=2, padding=1, output_padding=1, groups=x.shape[1])
            x, mask = x.repeat_interleave(2, -1), mask.repeat_interleave(2, -1)
            y = y * mask
        y = self.conv(y, f"{name}.conv1", padding=1)
        y = F.leaky_relu(self.norm(y, *self.style(s, f"{name}.norm2"), mask), 0.2)
        y = self.conv(y, f"{name}.conv2", padding=1)
        shortcut = self.conv(x, f"{name}.conv1x1") if f"{name}.conv1x1.weight" in self.w else x
        return (y + shortcut) / math.sqrt(2), mask

    def residual(self, x: Tensor, s: Tensor, name: str, mask: Tensor) -> Tensor:
        """Apply a residual block of the generator: adaptive normalization and three dilations."""
        kernel = self.w[f"{name}.convs1.0.weight"].shape[-1]
        for i, dilation in enumerate((1, 3, 5)):
            y = self.snake(x, *self.style(s, f"{name}.adain1.{i}"), mask, self.w[f"{name}.alpha1.{i}"])
            y = self.conv(y, f"{name}.convs1.{i}", padding=dilation * (kernel - 1) // 2, dilation=dilation)
            y = self.snake(y, *self.style(s, f"{name}.adain2.{i}"), mask, self.w[f"{name}.alpha2.{i}"])
            x = x + self.conv(y, f"{name}.convs2.{i}", padding=(kernel - 1) // 2)
        return x

    def source(self, f0: Tensor) -> Tensor:
        """Return the STFT (magnitudes and phases [B, 22, 60 T]) of harmonics of F0.

        F0 is in Hz, with the shape [B, 2 T].
        """
        rate = f0[:, :, None] * torch.arange(1, 10, device=f0.device) / 24000 % 1
        start = torch.rand(len(f0), 9, device=f0.device)
        start[:, 0] = 0
        # The reference implementation adds the start phase to the first of 300 samples, and then averages two of them.
        phase = torch.cumsum(rate.double(), 1)
        phase = F.interpolate((phase.transpose(1, 2) * 2 * math.pi * 300).float(), scale_factor=300, mode="linear")
        sines = torch.sin(phase + start[..., None] * 2 * math.pi) * 0.1
        voiced = (f0 > 10).float().repeat_interleave(300, 1)[:, None]
        sines = sines * voiced + (voiced * 0.003 + (1 - voiced) * 0.1 / 3) * torch.randn_like(sines)
        merged = torch.tanh(self.linear(sines.transpose(1, 2), "decoder.generator.m_source.l_linear"))[..., 0]
        spectrum = torch.stft(merged, 20, 5, window=torch.hann_window(20, device=f0.device), return_complex=True)
        return torch.cat((spectrum.abs(), spectrum.angle()), 1)

    def generator(self, x: Tensor, s: Tensor, f0: Tensor, mask: Tensor) -> Tensor:
        """Return audio [B, 600 T] from features [B, 512, 2 T]."""
        g, har = "decoder.generator", self.source(f0)
        for i, (rate, kernel) in enumerate(((10, 20), (6, 12))):
            mask = mask.repeat_interleave(rate, -1)
            conv = {"stride": 6, "padding": 3} if i == 0 else {}
            if i == 1:
                mask = F.pad(mask, (1, 0), value=1.0)
            side = self.residual(self.conv(har, f"{g}.noise_convs.{i}", **conv), s, f"{g}.noise_res.{i}", mask)
            x = F.conv_transpose1d(F.leaky_relu(x, 0.1), self.w[f"{g}.ups.{i}.weight"], self.w[f"{g}.ups.{i}.bias"],
                                   stride=rate, padding=(kernel - rate) // 2)  # fmt: skip
            x = (F.pad(x, (1, 0), mode="reflect") if i == 1 else x) + side
            x = sum(self.residual(x, s, f"{g}.resblocks.{3 * i + j}", mask) for j in range(3)) / 3 * mask
        x = self.conv(F.leaky_relu(x), f"{g}.conv_post", padding=3).float()
        magnitude, phase = x.chunk(2, 1)
        spectrum = torch.polar(magnitude.exp() * mask, phase.sin())
        # The exported model does not divide by the overlap of the windows, which is 1.5.
        return 1.5 * torch.istft(spectrum, 20, 5, window=torch.hann_window(20, device=x.device))

    @torch.no_grad()
    def generate(self, ids: Tensor, lengths: Tensor, style: Tensor, speed: Tensor, pitch: Tensor) -> tuple[Tensor, ...]:
        """Generate speech for a batch of utterances.

        Args:
            ids: Phoneme ids [B, N], with 0 at both ends and as padding.
            lengths: Number of ids of each utterance [B].
            style: Style vectors [B, 256].
            speed: Factors on the speed [B].
            pitch: Factors on the predicted F0 [B].

        Returns:
            Audio [B, 600 T], durations of the ids in frames [B, N], F0 in Hz [B, 2 T], and numbers of frames [B].
        """
        timbre, prosody = style.chunk(2, 1)
        valid = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        d = self.linear(self.albert(ids, valid), "bert_encoder")
        side = prosody[:, None].expand(-1, ids.shape[1], -1)
        d = torch.cat((d, side), -1) * valid[..., None]
        for i in (0, 2, 4):
            y = self.recur(d, lengths, f"predictor.text_encoder.lstms.{i}")
            gamma, beta = self.linear(prosody, f"predictor.text_encoder.lstms.{i + 1}.fc")[:, None].chunk(2, -1)
            y = (1 + gamma) * F.layer_norm(y, y.shape[-1:], eps=1e-5) + beta
            d = torch.cat((y, side), -1) * valid[..., None]
        x = self.recur(d, lengths, "predictor.lstm")
        duration = self.linear(x, "predictor.duration_proj.linear_layer").sigmoid().sum(-1) / speed[:, None]
        duration = duration.round().clamp(min=1).long() * valid
        frames = duration.sum(1)
        ends = duration.cumsum(1)
        at = torch.arange(int(frames.max()), device=ids.device)
        token = torch.searchsorted(ends, at.expand(len(ids), -1).contiguous(), right=True).clamp(max=ids.shape[1] - 1)
        mask = (at < frames[:, None]).float()[:, None]

        def stretched(y: Tensor) -> Tensor:  # Shapes: y [B, N, C]; result [B, C, T].
            return y.gather(1, token[..., None].expand(-1, -1, y.shape[-1])).transpose(1, 2) * mask

        shared = self.recur(stretched(d).transpose(1, 2), frames, "shared").transpose(1, 2)
        curves = []
        for name in ("F0", "N"):
            y, m = shared, mask
            for i in range(3):
                y, m = self.block(y, prosody, f"{name}.{i}", m, up=i == 1)
            curves.append(self.conv(y, f"{name}_proj")[:, 0] * m[:, 0])
        f0, energy = curves[0] * pitch[:, None], curves[1]
        y = F.embedding(ids, self.w["text_encoder.embedding.weight"]) * valid[..., None]
        for i in range(3):
            y = self.conv(y.transpose(1, 2), f"text_encoder.cnn.{i}.0", padding=2).transpose(1, 2)
            gamma, beta = (self.w[f"text_encoder.cnn.{i}.1.{name}"] for name in ("gamma", "beta"))
            y = F.leaky_relu(F.layer_norm(y, y.shape[-1:], gamma, beta, 1e-5), 0.2) * valid[..., None]
        text = stretched(self.recur(y, lengths, "text_encoder.lstm"))
        low = [self.conv(c[:, None], f"decoder.{n}_conv", stride=2, padding=1) for c, n in ((f0, "F0"), (energy, "N"))]
        x, m = self.block(torch.cat((text, *low), 1), timbre, "decoder.encode", mask)
        rest = torch.cat((self.conv(text, "decoder.asr_res.0"), *low), 1)
        for i in range(4):
            x, m = self.block(torch.cat((x, rest), 1), timbre, f"decoder.decode.{i}", m, up=i == 3)
        return self.generator(x * m, timbre, f0, m), duration, f0, frames
