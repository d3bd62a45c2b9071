"""Runs decoder layers on a CPU as TorchScript, which asks for each operation without the interpreter.

A frame of a published size asks for some thousands of small operations between its products. Asking for one from
Python takes about as long as doing it, and holds the interpreter that the Code2Wav worker asks with at the same time.
The operations are those of `runtime/model/layers.py` and `runtime/model/normed_operations.py`, which are the readable
twins, in their order: the numbers are theirs to the bit. Nothing becomes machine code, and no compiler is needed.

TorchScript reads the sources of the methods here, and annotations as they stand: no postponed ones in this file.
"""

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device.packed import LEAST, PackedProduct
from runtime.device.quantized import SMALLEST, RoundedRowsInt8
from runtime.model.code_predictor import CodePredictor
from runtime.model.layers import DecoderLayer, DecoderStack, RMSNorm
from runtime.model.products import GRAIN, Linear

log = logging.getLogger(__name__)

# `DecodeStep.forward`
ScriptedStep = Callable[[Tensor, list[Tensor], list[Tensor], list[int], list[int], Tensor, Tensor], Tensor]

_SCRIPTING = threading.Lock()


class RoundedRows(nn.Module):
    """`RoundedRowsInt8`. Shapes: rows [M, K]; result [M, N], float32."""

    def __init__(self, product: RoundedRowsInt8) -> None:
        super().__init__()
        self.packed = product.packed
        self.steps = product.steps
        self.smallest = SMALLEST

    def forward(self, rows: Tensor) -> Tensor:
        most = rows.abs().amax(dim=-1, keepdim=True).clamp_(min=self.smallest)
        made = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows / most, 1 / self.steps, self.steps + 1, self.packed
        )
        return made.mul_(most)


class PackedRows(nn.Module):
    """`PackedProduct`. Shapes: as above, in the dtype of the weights."""

    def __init__(self, product: PackedProduct) -> None:
        super().__init__()
        self.weight = product.weight
        self.least = LEAST

    def forward(self, rows: Tensor) -> Tensor:
        count = rows.shape[0]
        if count < self.least:
            rows = F.pad(rows, [0, 0, 0, self.least - count])
        made = torch.ops.mkldnn._linear_pointwise(rows, self.weight, None, "none", [], "")
        return made[:count]


class Fours(nn.Module):
    """`runtime.model.products.linear`. Shapes: as above, float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = weight
        self.bias = bias
        self.grain = GRAIN

    def forward(self, rows: Tensor) -> Tensor:
        M, K = rows.shape
        weight = self.weight
        more_rows, more = -M % self.grain, -K % self.grain
        if more_rows or more:
            rows = F.pad(rows, [0, more, 0, more_rows])
        if more:
            weight = F.pad(weight, [0, more])
        return F.linear(rows, weight, self.bias)[:M]


class Biased(nn.Module):
    """A product with weights that are laid out or rounded, and the bias of its outputs."""

    def __init__(self, product: nn.Module, bias: Tensor) -> None:
        super().__init__()
        self.product = product
        self.bias = bias

    def forward(self, rows: Tensor) -> Tensor:
        return self.product(rows).add_(self.bias)


def unit_norm(x: Tensor, eps: float) -> Tensor:
    """`torch.nn.functional.rms_norm` of float32 without a weight, by the operations that it asks for itself."""
    return x * (x * x).sum(dim=-1, keepdim=True).div_(x.shape[-1]).add_(eps).rsqrt_()


class Norm(nn.Module):
    """`RMSNorm`."""

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        self.weight = norm.weight.detach()
        self.eps = norm.eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return unit_norm(x, self.eps).mul_(self.weight)
        return self.weight * F.rms_norm(x, [x.shape[-1]], None, self.eps)


class Layer(nn.Module):
    """A `DecoderLayer` in two halves: what comes before attention, and what comes behind it."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.before, self.behind = Norm(layer.input_layernorm), Norm(layer.post_attention_layernorm)
        self.qkv, self.o = product_of(attention.qkv_proj), product_of(attention.o_proj)
        self.gate_up, self.down = product_of(mlp.gate_up_proj), product_of(mlp.down_proj)
        self.queries, self.key_heads, self.head_dim = attention.heads, attention.kv_heads, attention.head_dim
        weights = (attention.q_norm.weight, self.queries), (attention.k_norm.weight, self.key_heads)
        self.head_weights = torch.cat([weight.detach().expand(count, -1) for weight, count in weights])
        self.eps = attention.q_norm.eps
        self.inner = mlp.down_proj.in_features

    def heads(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes: x [B, T, H]; cos, sin [B or 1, 1, T, d]; q [B, heads, T, d]; k, v [B, kv_heads, T, d]."""
        B, T, H = x.shape
        both = self.queries + self.key_heads
        heads = self.qkv(self.before(x).view(B * T, H)).view(B, T, -1, self.head_dim)
        if x.dtype == torch.float32:
            normed = unit_norm(heads[:, :, :both], self.eps).mul_(self.head_weights)
        else:
            normed = F.rms_norm(heads[:, :, :both], [self.head_dim], None, self.eps) * self.head_weights
        normed = normed.transpose(1, 2)
        half = self.head_dim // 2
        first, second = normed[:, :, :, :half], normed[:, :, :, half:]
        turned = (normed * cos).add_(torch.cat((-second, first), dim=-1).mul_(sin))
        return turned[:, : self.queries], turned[:, self.queries :], heads[:, :, both:].transpose(1, 2)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        """Shapes: x, result [B, T, H]; attended [B, heads, T, d]."""
        B, T, H = x.shape
        x = self.o(attended.transpose(1, 2).reshape(B * T, self.queries * self.head_dim)).view(B, T, H).add_(x)
        both = self.gate_up(self.behind(x).view(B * T, H))
        gate, up = both[:, : self.inner], both[:, self.inner :]
        return self.down(F.silu(gate).mul_(up)).view(B, T, H).add_(x)


class PredictorPass(nn.Module):
    """One pass of the code predictor, behind whatever was read of the frame before."""

    def __init__(self, predictor: CodePredictor) -> None:
        super().__init__()
        self.layers = layers_of(predictor.model)
        self.norm = Norm(predictor.model.norm)
        self.heads = nn.ModuleList(product_of(head) for head in predictor.lm_head)

    def forward(
        self, x: Tensor, group: int, used: int, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """Scores of one codebook, ``group`` from 1 on, from new positions that come behind ``used``.

        Shapes: x [B, T, H']; keys, values [layers, rows, kv_heads, Q, d], whose first B rows are written; cos, sin
        [1, 1, Q, d]; result [B, V].
        """
        B, T, _ = x.shape
        end = used + T
        cos, sin = cos[:, :, used:end], sin[:, :, used:end]
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, cos, sin)  # type: ignore[operator]
            seen, told = keys[index, :B], values[index, :B]
            seen[:, :, used:end].copy_(k)
            told[:, :, used:end].copy_(v)
            # A frame begins with its only pass of two positions, of which the first does not see the second.
            attended = F.scaled_dot_product_attention(
                q, seen[:, :, :end], told[:, :, :end], is_causal=T > 1, enable_gqa=True
            )
            x = layer(x, attended)
        x = self.norm(x[:, -1])
        scores = x
        for index, head in enumerate(self.heads):
            if index + 1 == group:
                scores = head(x)
        return scores


class DecodeStep(nn.Module):
    """One new position of each of some rows through the talker's layers."""

    def __init__(self, stack: DecoderStack) -> None:
        super().__init__()
        self.layers = layers_of(stack)

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
        """Hidden states before the final norm.

        Shapes: x, result [B, 1, H]; keys, values, one a layer, [S, kv_heads, T, d]; slots, positions [B]; cos, sin [B,
        1, 1, d].
        """
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, cos, sin)  # type: ignore[operator]
            q = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])  # as `CpuDevice.decode_attention` has it
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
            x = layer(x, torch.cat(parts).view(x.shape[0], layer.queries, 1, layer.head_dim))  # type: ignore[call-overload]
        return x


def layers_of(stack: DecoderStack) -> nn.ModuleList:
    return nn.ModuleList(Layer(layer) for layer in stack.layers if isinstance(layer, DecoderLayer))


def product_of(linear: nn.Module) -> nn.Module:
    assert isinstance(linear, Linear)
    bias = None if linear.bias is None else linear.bias.detach()
    if linear.product is None:
        return Fours(linear.weight.detach(), bias)
    made: nn.Module
    if isinstance(linear.product, RoundedRowsInt8):
        made = RoundedRows(linear.product)
    else:
        assert isinstance(linear.product, PackedProduct)
        made = PackedRows(linear.product)
    return made if bias is None else Biased(made, bias)


def can_script(network: nn.Module, dtype: torch.dtype) -> bool:
    """Whether a loaded network has products that are written here too."""
    known = (RoundedRowsInt8,) if dtype is torch.float32 else (PackedProduct,)
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
    """`DecodeStep` that shares the weights of a loaded talker's layers; None where TorchScript cannot be had."""
    return scripted(DecodeStep, stack, dtype) if can_script(stack, dtype) else None


def scripted(kind: Callable[[Any], nn.Module], network: nn.Module, dtype: torch.dtype) -> Any:
    """A module here, made of a loaded network, as TorchScript; None where that fails, which is logged."""
    try:
        with _SCRIPTING, warnings.catch_warnings():  # whose filters are all threads'
            warnings.simplefilter("ignore", DeprecationWarning)
            return AsWritten(torch.jit.script(kind(network).eval()))
    except Exception:
        log.exception("layers in %s could not be scripted; they are run operation by operation", dtype)
        return None


class AsWritten:
    """Runs TorchScript operation by operation, without what it would do to the program first.

    It would look on at the first call and rewrite the program at the second, which takes a second for layers of a
    published size, in the middle of somebody's reply, and saves a hundredth of a frame.
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module

    def __call__(self, *arguments: Any) -> Any:
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]  # of this thread
            return self._module(*arguments)
