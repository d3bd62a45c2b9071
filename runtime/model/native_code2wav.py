"""Code2Wav in C++ for a CPU, for all open streams.

The C++ code is in runtime/device/native/code2wav.cpp. In PyTorch, a chunk needs about 1,500 small operations,
whose calls take longer than computing one frame. The reference implementation, runtime/model/code2wav.py, is used if no
compiler is available, and for bfloat16 on AMX.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.native import KINDS, TILE
from runtime.device.quantized import NativeTiles
from runtime.model.code2wav import SNAKE_EPS, Code2Wav, StreamState
from runtime.model.code2wav_interface import ROW_COLUMNS, UNLIMITED_FRAMES
from runtime.model.native_layers import StructBuilder, UnsupportedLayer
from runtime.model.products import Conv, Linear, TransposedConv


class NativeCode2Wav:
    """Implementation of `Code2WavNetwork` with a single C++ operator for a CPU.

    The state of a stream is one row of numbers. It contains the earlier inputs of every causal convolution, followed by
    the keys and values of the attention window.

    Raises:
        UnsupportedLayer: The weights are not in the layout of the operator.
    """

    max_call_frames = UNLIMITED_FRAMES
    stepped = None

    def __init__(self, code2wav: Code2Wav, slots: int) -> None:
        self.samples, self.tail_frames = code2wav.config.samples_per_frame, code2wav.tail_frames
        self.eps = code2wav.config.rms_norm_eps
        self._words = StructBuilder()
        self._places = [0]
        for module in code2wav.looking_back:
            self._places.append(self._places[-1] + module.left * module.inputs)
        self.plan = self._plan(code2wav)
        config = code2wav.config
        past = config.num_key_value_heads * (config.sliding_window - 1) * config.head_dim
        self._state_numbers = self._places[-1] + 2 * config.num_hidden_layers * past
        self.state = self._fresh_state(slots)

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        return self._decode(self.state, rows, codes, codes.shape[1])

    def reset(self, slot: int) -> None:
        self.state.reset(slot)

    def state_after(self, codes: Tensor) -> tuple[StreamState, int]:
        state, rows = self._fresh_state(1), torch.zeros((1, ROW_COLUMNS), dtype=torch.int32)
        self._decode(state, rows, codes.to(torch.int32).unsqueeze(0), min(len(codes), self.tail_frames))
        return state, 0

    def write_state(self, slot: int, state: StreamState) -> None:
        self.state.write(torch.tensor([slot]), state)

    def _fresh_state(self, rows: int) -> StreamState:
        """Return the state of new streams, which consists of one matrix."""
        return StreamState([torch.zeros(rows, self._state_numbers)], [], [], torch.zeros(rows, dtype=torch.int64))

    def _decode(self, state: StreamState, rows: Tensor, codes: Tensor, sounding: int) -> Tensor:
        """Advance the transformer over all frames, and decode the last `sounding` frames."""
        output = torch.empty((len(codes), sounding * self.samples + 1), dtype=torch.int16)
        torch.ops.voicewright.decode_codes(
            *(self.plan, state.convs[0], rows.contiguous(), codes.contiguous()),
            *(sounding, self.eps, self._norm_eps, output),
        )
        return output

    # --- Methods that fill the structures of code2wav.cpp. They use `Any`, because Torch does not declare the types of
    # the modules in a list.

    def _plan(self, network: Any) -> Tensor:
        """Return the 64-bit words of a `Network` structure in code2wav.cpp."""
        config, words, transformer = network.config, self._words, network.pre_transformer
        first, *blocks, snake, last = network.decoder
        quantizer, d = network.quantizer, config.head_dim
        rates = config.rope_theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
        afters = [*(block.block[0] for block in blocks[1:]), snake]
        tables = (
            [self._codebook(layer) for layer in (*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers)],
            [self._layer(layer) for layer in transformer.layers],
            [self._stage(*stage) for stage in network.upsample],
            [self._block(*block.block, after) for block, after in zip(blocks, afters, strict=True)],
        )
        sizes = [
            *(config.num_quantizers, config.codebook_size, config.codebook_dim // 2),
            *(config.num_attention_heads, config.num_key_value_heads, d, config.sliding_window, self._places[-1]),
            *(config.num_hidden_layers, len(network.upsample), len(blocks)),
            *(last.conv.kernel_size[0], self._places[last.slot]),
        ]
        vectors = (
            rates,
            transformer.norm.weight,
            pack_tiles(last.conv)
            .tiles[0, :, 0]
            .float()
            .reshape(last.conv.kernel_size[0], -1)[:, : last.conv.in_channels]
            .contiguous(),
            last.conv.bias,
        )
        parts = [
            *(self._snake(blocks[0].block[0]), self._taps(quantizer.rvq_first.output_proj)),
            *(self._taps(quantizer.rvq_rest.output_proj), self._causal(network.pre_conv)),
            *(self._taps(transformer.input_proj), self._taps(transformer.output_proj), self._causal(first)),
        ]
        addresses = [
            *(words.address(vector) for vector in vectors),
            *(words.address(words.table(table), torch.int64) for table in tables),
        ]
        return words.table([[*sizes, *addresses, *(word for part in parts for word in part)]])

    def _codebook(self, layer: Any) -> list[int]:
        return [self._words.address(part) for part in (layer._codebook.embedding_sum, layer._codebook.cluster_usage)]

    def _layer(self, layer: Any) -> list[int]:
        attention, mlp = layer.self_attn, layer.mlp
        vectors = (
            *(layer.input_layernorm.weight, pad_channels(layer.self_attn_layer_scale.scale)),
            *(layer.post_attention_layernorm.weight, pad_channels(layer.mlp_layer_scale.scale)),
        )
        linears = attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj
        return [*(self._words.address(vector) for vector in vectors), *(w for one in linears for w in self._taps(one))]

    def _stage(self, upsample: Any, block: Any) -> list[int]:
        conv, norm = block.dwconv.conv, block.norm
        self._norm_eps = norm.eps
        vectors = conv.weight[:, 0].t().contiguous(), conv.bias, norm.weight, norm.bias, pad_channels(block.gamma)
        return [
            *(word for linear in (upsample.conv, block.pwconv1, block.pwconv2) for word in self._taps(linear)),
            *(self._words.address(vector) for vector in vectors),
            *(conv.kernel_size[0], self._places[block.dwconv.slot]),
        ]

    def _block(self, snake: Any, upsample: Any, *units_and_next: Any) -> list[int]:
        """Return the 64-bit words of a `Block` structure in code2wav.cpp.

        The last of `units_and_next` is the SnakeBeta after the block.
        """
        *units, after = units_and_next
        heads = [*(unit.act1 for unit in units[1:]), after]
        return [
            *self._causal(upsample),
            *self._snake(units[0].act1, upsample.conv.stride[0]),
            *(word for unit, head in zip(units, heads, strict=True) for word in self._unit(unit, head)),
        ]

    def _unit(self, unit: Any, after: Any) -> list[int]:
        convolutions = [*self._causal(unit.conv1), *self._taps(unit.conv2.conv)]
        return [*convolutions, *self._snake(unit.act2), *self._snake(after)]

    def _snake(self, snake: Any, repeats: int = 1) -> list[int]:
        parameters = snake.alpha.exp(), 1.0 / (snake.beta.exp() + SNAKE_EPS)
        return [self._words.address(pad_channels(parameter, repeats)) for parameter in parameters]

    def _causal(self, module: Any) -> list[int]:
        return self._taps(module.conv, self._places[module.slot])

    def _taps(self, module: Any, place: int = 0) -> list[int]:
        """Return the 64-bit words of a `Taps` structure in code2wav.cpp."""
        product, taps, dilation, repeats = pack_tiles(module), 1, 1, 1
        if isinstance(module, Conv):
            taps, dilation = module.kernel_size[0], module.dilation[0]
        elif isinstance(module, TransposedConv):
            repeats = module.stride[0]
            taps = module.kernel_size[0] // repeats
        tiles = product.tiles
        bias = 0 if module.bias is None else self._words.address(pad_channels(module.bias, repeats))
        channels = module.in_features if isinstance(module, Linear) else module.in_channels
        sizes = KINDS[tiles.dtype], product.outputs, channels, taps, dilation
        return [*sizes, self._words.address(tiles, tiles.dtype), bias, place]


def pack_tiles(module: Any) -> NativeTiles:
    """Return the weights of a linear layer or a convolution in the operator's tiled layout.

    Raises:
        UnsupportedLayer: The weights have another layout.
    """
    if not isinstance(module.product, NativeTiles):
        raise UnsupportedLayer(type(module.product))
    return module.product


def pad_channels(vector: Tensor, repeats: int = 1) -> Tensor:
    """Repeat a vector of channels, and pad it with zeros to a multiple of the tile size."""
    repeated = vector.detach().repeat(repeats)
    return F.pad(repeated, (0, -len(repeated) % TILE))


def native_code2wav(code2wav: Code2Wav, slots: int) -> NativeCode2Wav | None:
    """Return the C++ version of a Code2Wav network, or None if it cannot be used."""
    try:
        return NativeCode2Wav(code2wav, slots)
    except UnsupportedLayer:
        return None
