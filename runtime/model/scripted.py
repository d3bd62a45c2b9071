"""Decoder layers as TorchScript on a CPU, which saves the interpreter's overhead.

A frame of a published size has some thousands of small operations between its products. Calling one from Python takes
about as long as computing it, and holds the interpreter lock that the Code2Wav worker also needs. The operations and
their order are those of `runtime/model/layers.py` and `runtime/model/normed_operations.py`, the readable versions, and
the results are bitwise equal. No machine code is generated, so no compiler is needed.

All layers of a stack are scripted together, because one module per layer, norm and product would take a second at
every start.

TorchScript reads the source of the methods and evaluated annotations, so this file does not postpone annotations.
"""

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device.packed import PackedProduct
from runtime.device.quantized import (
    GROUP,
    PIECE,
    SMALLEST,
    THREE,
    NativeInt4,
    NativeInt8,
    RoundedRowsInt8,
    WeightOnlyFloat16,
    WeightOnlyInt4,
    WeightOnlyInt8,
)
from runtime.model.code_predictor import CodePredictor
from runtime.model.layers import DecoderLayer, DecoderStack, RMSNorm
from runtime.model.products import GRAIN, Linear

log = logging.getLogger(__name__)

# Signature of `DecodeStep.forward`.
ScriptedStep = Callable[[Tensor, list[Tensor], list[Tensor], list[int], list[int], Tensor, Tensor], Tensor]

_SCRIPTING = threading.Lock()


class NativeRows8(nn.Module):
    """List of `NativeInt8` products, selected by index. Shapes: rows [M, K]; result [M, N], float32."""

    def __init__(self, products: Sequence[NativeInt8]) -> None:
        super().__init__()
        self.tiles = [product.tiles for product in products]
        self.steps = [product.steps for product in products]
        self.outputs = [product.outputs for product in products]

    def forward(self, rows: Tensor, index: int) -> Tensor:
        return torch.ops.voicewright.int8_product(
            rows.contiguous(), self.tiles[index], self.steps[index], self.outputs[index]
        )


class NativeRows4(nn.Module):
    """List of `NativeInt4` products, selected by index. Shapes: as above."""

    def __init__(self, products: Sequence[NativeInt4]) -> None:
        super().__init__()
        self.blocks = [product.blocks for product in products]
        self.outputs = [product.outputs for product in products]

    def forward(self, rows: Tensor, index: int) -> Tensor:
        return torch.ops.voicewright.int4_product(rows.contiguous(), self.blocks[index], self.outputs[index])


class RoundedRows(nn.Module):
    """List of `RoundedRowsInt8` products, selected by index. Shapes: rows [M, K]; result [M, N], float32."""

    def __init__(self, products: Sequence[RoundedRowsInt8]) -> None:
        super().__init__()
        self.packed = [product.packed for product in products]
        self.steps = products[0].steps  # The same for all products of a processor.
        self.smallest = SMALLEST

    def forward(self, rows: Tensor, index: int) -> Tensor:
        most = rows.abs().amax(dim=-1, keepdim=True).clamp_(min=self.smallest)
        made = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows / most, 1 / self.steps, self.steps + 1, self.packed[index]
        )
        return made.mul_(most)


class Float16Weights(nn.Module):
    """List of `WeightOnlyFloat16` products, selected by index. Shapes: as above."""

    def __init__(self, products: Sequence[WeightOnlyFloat16]) -> None:
        super().__init__()
        self.packed = [product.packed for product in products]
        self.three = THREE

    def forward(self, rows: Tensor, index: int) -> Tensor:
        count = rows.shape[0]
        more = -count % self.three
        if more:
            rows = F.pad(rows, [0, 0, 0, more])
        return torch.ops.quantized.linear_dynamic_fp16(rows, self.packed[index])[:count]


class Int8Weights(nn.Module):
    """List of `WeightOnlyInt8` products, selected by index. Shapes: as above."""

    def __init__(self, products: Sequence[WeightOnlyInt8]) -> None:
        super().__init__()
        self.values = [product.values for product in products]
        self.steps = [product.steps for product in products]
        self.piece = PIECE

    def forward(self, rows: Tensor, index: int) -> Tensor:
        values, steps = self.values[index], self.steps[index]
        parts = torch.split(rows.to(torch.bfloat16), self.piece)
        made = [torch.ops.aten._weight_int8pack_mm(part, values, steps) for part in parts]
        return torch.cat(made).to(rows.dtype)


class Int4Weights(nn.Module):
    """List of `WeightOnlyInt4` products, selected by index. Shapes: as above."""

    def __init__(self, products: Sequence[WeightOnlyInt4]) -> None:
        super().__init__()
        self.values = [product.values for product in products]
        self.groups = [product.groups for product in products]
        self.piece = PIECE
        self.group = GROUP

    def forward(self, rows: Tensor, index: int) -> Tensor:
        values, groups = self.values[index], self.groups[index]
        parts = torch.split(rows.to(torch.bfloat16), self.piece)
        made = [torch.ops.aten._weight_int4pack_mm_for_cpu(part, values, self.group, groups) for part in parts]
        return torch.cat(made).to(rows.dtype)


class PackedRows(nn.Module):
    """List of `PackedProduct`, selected by index. Shapes: as above, in the dtype of the weights."""

    def __init__(self, products: Sequence[PackedProduct]) -> None:
        super().__init__()
        self.weights = [product.weight for product in products]
        self.least = [product.least for product in products]

    def forward(self, rows: Tensor, index: int) -> Tensor:
        count, least = rows.shape[0], self.least[index]
        if count < least:
            rows = F.pad(rows, [0, 0, 0, least - count])
        made = torch.ops.mkldnn._linear_pointwise(rows, self.weights[index], None, "none", [], "")
        return made[:count]


_KINDS: dict[type, Callable[[Any], nn.Module]] = {
    NativeInt8: NativeRows8,
    NativeInt4: NativeRows4,
    RoundedRowsInt8: RoundedRows,
    WeightOnlyFloat16: Float16Weights,
    WeightOnlyInt8: Int8Weights,
    WeightOnlyInt4: Int4Weights,
    PackedProduct: PackedRows,
}


class Fours(nn.Module):
    """`runtime.model.products.linear` with weights and biases selected by index. Shapes: as above, float32."""

    biases: list[Tensor | None]

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
        super().__init__()
        self.weights = list(weights)
        self.biases = list(biases)
        self.grain = GRAIN

    def forward(self, rows: Tensor, index: int) -> Tensor:
        M, K = rows.shape
        weight = self.weights[index]
        more_rows, more = -M % self.grain, -K % self.grain
        if more_rows or more:
            rows = F.pad(rows, [0, more, 0, more_rows])
        if more:
            weight = F.pad(weight, [0, more])
        return F.linear(rows, weight, self.biases[index])[:M]


class Biased(nn.Module):
    """Packed or quantized products with a bias."""

    def __init__(self, products: nn.Module, biases: Sequence[Tensor]) -> None:
        super().__init__()
        self.products = products
        self.biases = list(biases)

    def forward(self, rows: Tensor, index: int) -> Tensor:
        return self.products(rows, index).add_(self.biases[index])


class Same(nn.Module):
    """Identity instead of a product."""

    def forward(self, rows: Tensor, index: int) -> Tensor:
        return rows


def unit_norm(x: Tensor, eps: float) -> Tensor:
    """Compute `torch.nn.functional.rms_norm` without a weight, by the same operations."""
    wide = x.to(torch.float32)
    return (wide * (wide * wide).sum(dim=-1, keepdim=True).div_(x.shape[-1]).add_(eps).rsqrt_()).to(x.dtype)


class Norms(nn.Module):
    """List of `RMSNorm`, selected by index."""

    def __init__(self, norms: Sequence[RMSNorm]) -> None:
        super().__init__()
        self.weights = [norm.weight.detach() for norm in norms]
        self.eps = norms[0].eps  # The same for all norms of a stack.

    def forward(self, x: Tensor, index: int) -> Tensor:
        return unit_norm(x, self.eps).mul_(self.weights[index])


class Layers(nn.Module):
    """Layers of a `DecoderStack`, each divided into the operations before and after its attention."""

    def __init__(self, stack: DecoderStack) -> None:
        super().__init__()
        layers = [layer for layer in stack.layers if isinstance(layer, DecoderLayer)]
        attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
        self.count = len(layers)
        self.before = Norms([layer.input_layernorm for layer in layers])
        self.behind = Norms([layer.post_attention_layernorm for layer in layers])
        self.qkv = products_of([attention.qkv_proj for attention in attentions])
        self.o = products_of([attention.o_proj for attention in attentions])
        self.gate_up, self.down = (
            products_of([mlp.gate_up_proj for mlp in mlps]),
            products_of([mlp.down_proj for mlp in mlps]),
        )
        first = attentions[0]
        self.queries, self.key_heads, self.head_dim = first.heads, first.kv_heads, first.head_dim
        self.head_weights = [
            torch.cat(
                [
                    attention.q_norm.weight.detach().expand(self.queries, -1),
                    attention.k_norm.weight.detach().expand(self.key_heads, -1),
                ]
            )
            for attention in attentions
        ]
        self.eps = first.q_norm.eps
        self.inner = mlps[0].down_proj.in_features

    def heads(self, index: int, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v.

        Shapes: x [B, T, H]; cos, sin [B or 1, 1, T, d]; q [B, heads, T, d]; k, v [B, kv_heads, T, d].
        """
        B, T, H = x.shape
        both = self.queries + self.key_heads
        heads = self.qkv(self.before(x, index).view(B * T, H), index).view(B, T, -1, self.head_dim)
        normed = unit_norm(heads[:, :, :both], self.eps).mul_(self.head_weights[index]).transpose(1, 2)
        half = self.head_dim // 2
        first, second = normed[:, :, :, :half], normed[:, :, :, half:]
        turned = (normed * cos).add_(torch.cat((-second, first), dim=-1).mul_(sin))
        return turned[:, : self.queries], turned[:, self.queries :], heads[:, :, both:].transpose(1, 2)

    def forward(self, index: int, x: Tensor, attended: Tensor) -> Tensor:
        """Run the operations after attention. Shapes: x, result [B, T, H]; attended [B, heads, T, d]."""
        B, T, H = x.shape
        joined = attended.transpose(1, 2).reshape(B * T, self.queries * self.head_dim)
        x = self.o(joined, index).view(B, T, H).add_(x)
        both = self.gate_up(self.behind(x, index).view(B * T, H), index)
        gate, up = both[:, : self.inner], both[:, self.inner :]
        return self.down(F.silu(gate).mul_(up), index).view(B, T, H).add_(x)


class PredictorPass(nn.Module):
    """One pass of the code predictor, after the earlier positions of the frame."""

    def __init__(self, predictor: CodePredictor) -> None:
        super().__init__()
        self.layers = Layers(predictor.model)
        self.norm = Norms([predictor.model.norm])
        self.heads = products_of(predictor.lm_head)

    def forward(
        self, x: Tensor, group: int, used: int, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """Return the logits of one codebook (`group` from 1 on) for new positions after the first `used` ones.

        Shapes: x [B, T, H']; keys, values [layers, rows, kv_heads, Q, d], whose first B rows are written; cos, sin
        [1, 1, Q, d]; result [B, V].
        """
        B, T, _ = x.shape
        end = used + T
        cos, sin = cos[:, :, used:end], sin[:, :, used:end]
        for index in range(self.layers.count):
            q, k, v = self.layers.heads(index, x, cos, sin)
            seen, told = keys[index, :B], values[index, :B]
            seen[:, :, used:end].copy_(k)
            told[:, :, used:end].copy_(v)
            # Only the first pass of a frame has two positions; the first must not attend to the second.
            attended = F.scaled_dot_product_attention(
                q, seen[:, :, :end], told[:, :, :end], is_causal=T > 1, enable_gqa=True
            )
            x = self.layers(index, x, attended)
        return self.heads(self.norm(x[:, -1], 0), group - 1)


class DecodeStep(nn.Module):
    """Decode step of the talker's layers: one new position of some rows."""

    def __init__(self, stack: DecoderStack) -> None:
        super().__init__()
        self.layers = Layers(stack)

    def forward(
        self,
        x: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        slots: list[int],
        positions: list[int],
        cos: Tensor,
        sin: Tensor,
    ) -> Tensor:
        """Return hidden states before the final norm.

        Shapes: x, result [B, 1, H]; keys, values, one per layer, [S, kv_heads, T, d]; slots, positions [B]; cos, sin
        [B, 1, 1, d].
        """
        for index in range(self.layers.count):
            q, k, v = self.layers.heads(index, x, cos, sin)
            q = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])  # As in `CpuDevice.decode_attention`.
            parts: list[Tensor] = []
            for row in range(len(slots)):
                at, seen, told = positions[row], keys[index][slots[row]], values[index][slots[row]]
                seen[:, at].copy_(k[row, :, 0])
                told[:, at].copy_(v[row, :, 0])
                parts.append(
                    F.scaled_dot_product_attention(
                        q[row : row + 1], seen[:, : at + 1].unsqueeze(0), told[:, : at + 1].unsqueeze(0)
                    )
                )
            attended = torch.cat(parts).view(x.shape[0], self.layers.queries, 1, self.layers.head_dim)
            x = self.layers(index, x, attended)
        return x


def products_of(linears: Iterable[nn.Module]) -> nn.Module:
    """Return a module with the products of linear layers of one kind, selected by index.

    Raises:
        ValueError: The layers have different kinds of products.
    """
    every = [linear for linear in linears if isinstance(linear, Linear)]
    products = [linear.product for linear in every]
    biases = [None if linear.bias is None else linear.bias.detach() for linear in every]
    if all(product is None for product in products):
        return Fours([linear.weight.detach() for linear in every], biases)
    made = _like_products(products)
    added = [bias for bias in biases if bias is not None]
    if not added:
        return made
    if len(added) < len(every):
        raise ValueError("some of like products have a bias and others none")
    return Biased(made, added)


def _like_products(products: Sequence[Any]) -> nn.Module:
    """Return a module for products of one kind, selected by index.

    Raises:
        ValueError: The kinds differ, or this module does not support the kind.
    """
    for kind, scripted_kind in _KINDS.items():
        if all(isinstance(product, kind) for product in products):
            return scripted_kind(products)
    raise ValueError("products of one place in several layers are of several kinds")


def can_script(network: nn.Module, dtype: torch.dtype) -> bool:
    """True if a loaded network uses only products that have a scripted version."""
    known = tuple(kind for kind in _KINDS if (kind is PackedProduct) is not (dtype is torch.float32))
    layers = [module for module in network.modules() if isinstance(module, DecoderLayer)]
    products = [module for layer in layers for module in layer.modules() if isinstance(module, Linear)]
    if isinstance(network, CodePredictor):
        ends = (*network.lm_head, network.small_to_mtp_projection)
        products += [end for end in ends if isinstance(end, Linear)]
    return bool(products) and all(
        linear.weight.is_cpu
        and (isinstance(linear.product, known) or (linear.product is None and dtype is torch.float32))
        for linear in products
    )


def scripted_step(stack: DecoderStack, dtype: torch.dtype) -> ScriptedStep | None:
    """Return a `DecodeStep` that shares the weights of a talker's layers; None if TorchScript is not available."""
    return scripted(DecodeStep, stack, dtype) if can_script(stack, dtype) else None


def scripted(kind: Callable[[Any], nn.Module], network: nn.Module, dtype: torch.dtype) -> Any:
    """Create a module of this file from a loaded network and script it; log a failure and return None."""
    try:
        with _SCRIPTING, warnings.catch_warnings():  # Warning filters are shared by all threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            return AsWritten(torch.jit.script(kind(network).eval()))
    except Exception:
        log.exception("layers in %s could not be scripted; they are run operation by operation", dtype)
        return None


class AsWritten:
    """TorchScript module that runs without the profiling executor's optimizations.

    The executor would profile the first call and optimize at the second. For layers of a published size this takes a
    second in the middle of a request, and saves a hundredth of a frame.
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module

    def __call__(self, *arguments: Any) -> Any:
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]  # of this thread
            return self._module(*arguments)
