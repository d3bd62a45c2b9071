"""Decoder layers and code predictor as C++ operators for the CPU.

The C++ code is in runtime/device/native/decoder.cpp. A frame of a published checkpoint has thousands of small
operations between the matrix products. Calling a small operation from Python takes about as long as computing it, and
holds the GIL, which the Code2Wav worker also needs.

The reference implementations, `layers.py` and `code_predictor.py`, are used for dtypes that the C++ operators do not
support, such as bfloat16, and if no compiler is available.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from runtime.device import native
from runtime.device.native import KINDS
from runtime.device.quantized import NativeFloat16, NativeInt4, NativeInt8
from runtime.model.code_predictor import CodePredictor, FrameCache
from runtime.model.layers import DecoderLayer, DecoderStack
from runtime.model.products import Linear, MappedEmbedding

INT8, INT4 = 3, 4  # Values of the enum `Kind` in products.h.

Angles = tuple[Tensor, Tensor]  # Cosine and sine of every position, [T, d] each.


@dataclass(frozen=True, slots=True)
class RowSampling:
    """Sampling settings of the code predictor for all slots, and the rows to sample.

    Shapes: reals [2, S] float32: temperature, top_p; ints [2, S] int64: top_k, greedy; seeds, frames [S] int64; rows
    [B] int64, slot numbers.
    """

    reals: Tensor
    ints: Tensor
    seeds: Tensor
    frames: Tensor
    rows: Tensor


class NativeLayers:
    """All layers of a decoder as one C++ operator with a KV cache.

    Raises:
        UnsupportedLayer: The operator does not support a matrix product of the layers.
    """

    def __init__(self, stack: DecoderStack) -> None:
        self._words = StructBuilder()
        layers = [layer for layer in stack.layers if isinstance(layer, DecoderLayer)]
        self.layers = self._words.table([self._layer(layer) for layer in layers])
        self.eps = stack.norm.eps  # Epsilon of every norm in the stack.

    def __call__(
        self, x: Tensor, cache: tuple[Tensor, Tensor], angles: Angles, slots: Tensor, starts: Tensor
    ) -> Tensor:
        """Run the inputs of new positions through all layers, without the final norm.

        Shapes: x, result [B * new positions, H]; keys and values of the cache [layers, S, kv_heads, T, d], contiguous;
        cosine and sine tables [T, d] each; slots [B] int64; starts [B] int64, first new position of each row.
        """
        output: Tensor = torch.ops.voicewright.decode_layers(
            x.contiguous(), self.layers, *cache, *angles, slots, starts, self.eps
        )
        return output

    def _layer(self, layer: DecoderLayer) -> list[int]:
        """Return the 64-bit words of a `Layer` structure in decoder.cpp."""
        attention, mlp = layer.self_attn, layer.mlp
        norms = layer.input_layernorm, layer.post_attention_layernorm, attention.q_norm, attention.k_norm
        linears = attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj
        addresses = [self._words.address(norm.weight) for norm in norms]
        return addresses + [word for linear in linears for word in self._words.matrix(linear)]


class NativePredictor(NativeLayers):
    """Code predictor as one C++ operator: all passes of a frame, including the sampling.

    Raises:
        UnsupportedLayer: See `NativeLayers`.
    """

    def __init__(self, predictor: CodePredictor) -> None:
        super().__init__(predictor.model)
        addresses, small = self._words, predictor.small_to_mtp_projection
        self._norm = predictor.model.norm.weight.detach()
        self._codebooks = addresses.table(
            [*addresses.matrix(head), *addresses.embeddings(table)]
            for head, table in zip(predictor.lm_head, predictor.model.codec_embedding, strict=True)
        )
        self._project = addresses.table([addresses.matrix(small)] if isinstance(small, Linear) else [])

    def predict(self, x: Tensor, cache: FrameCache, sampling: RowSampling) -> Tensor:
        """Sample codes 1 to Q-1 of every row.

        Shapes: x [B, 2, H']; result [B, Q] int64: the codes, then 1 if all logits of the row were finite.
        """
        output: Tensor = torch.ops.voicewright.predict_codes(
            *(x, self.layers, self._norm, self._codebooks, self._project),
            *(cache.keys, cache.values, cache.cos[0, 0], cache.sin[0, 0]),
            *(sampling.reals, sampling.ints, sampling.seeds, sampling.frames, sampling.rows, self.eps),
        )
        return output


class UnsupportedLayer(Exception):
    """Error for a matrix product or a dtype that the C++ operators do not support."""


class StructBuilder:
    """Builder of C++ structures as lists of 64-bit integers: sizes and memory addresses.

    The builder keeps references to the tensors, so the addresses stay valid.
    """

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []

    def address(self, tensor: Tensor, dtype: torch.dtype = torch.float32) -> int:
        if not tensor.is_cpu or tensor.dtype is not dtype or not tensor.is_contiguous():
            raise UnsupportedLayer(tensor.dtype)
        self._tensors.append(tensor.detach())
        return tensor.data_ptr()

    def matrix(self, linear: nn.Module) -> list[int]:
        """Return the 64-bit integers of the structure `Matrix` in products.h for a linear layer."""
        assert isinstance(linear, Linear)
        product, scales = linear.product, 0
        if product is None:
            kind, values = KINDS[torch.float32], self.address(linear.weight)
        elif isinstance(product, NativeFloat16):
            kind, values = KINDS[torch.float16], self.address(product.weight, torch.float16)
        elif isinstance(product, NativeInt8):
            kind, values, scales = INT8, self.address(product.tiles, torch.uint8), self.address(product.scales)
        elif isinstance(product, NativeInt4):
            kind, values = INT4, self.address(product.blocks, torch.uint8)
        else:
            raise UnsupportedLayer(type(product))
        bias = 0 if linear.bias is None else self.address(linear.bias)
        return [kind, linear.out_features, linear.in_features, values, scales, bias]

    def embeddings(self, table: nn.Module) -> list[int]:
        """Return the dtype number and the memory address of an embedding table."""
        assert isinstance(table, MappedEmbedding)
        if table.weight.dtype not in KINDS:
            raise UnsupportedLayer(table.weight.dtype)
        return [KINDS[table.weight.dtype], self.address(table.weight, table.weight.dtype)]

    @staticmethod
    def table(rows: Iterable[list[int]]) -> Tensor:
        return torch.tensor([*rows], dtype=torch.int64)


def native_layers(stack: DecoderStack) -> NativeLayers | None:
    """Return the C++ layers of a decoder stack, or None if the library cannot be used."""
    try:
        return NativeLayers(stack) if native.is_loaded() else None
    except UnsupportedLayer:
        return None


def native_predictor(predictor: CodePredictor) -> NativePredictor | None:
    """Return the C++ version of a code predictor, or None if the library cannot be used."""
    try:
        return NativePredictor(predictor) if native.is_loaded() else None
    except UnsupportedLayer:
        return None
