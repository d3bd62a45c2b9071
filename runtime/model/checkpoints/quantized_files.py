"""Format of int8 and int4 weights in safetensors files.

A linear layer NAME has the tensors ``NAME.values`` and ``NAME.steps`` (scales), and with int4 also ``NAME.middles``
(offsets). Published projections with the same input are stored as one layer, as in runtime/model/layers.py. A byte
contains two int4 values, the first value in the lower half. All other tensors are as published (docs/model.md 1.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from runtime.device.quantized import GROUP_WEIGHTS, Int4, Int8, Quantization, Rounded, supports_int4
from runtime.model.checkpoints.headers import TensorHeader
from runtime.model.products import Linear

VALUES, SCALES, OFFSETS = "values", "steps", "middles"


def quantized_headers(network: nn.Module, prefix: str, kind: Quantization) -> dict[str, TensorHeader]:
    """Return the headers that a network's quantized tensors must have in a file, by key.

    The network may be on the meta device.
    """
    headers: dict[str, TensorHeader] = {}
    for name, module in quantized_linears(network):
        N, K = module.out_features, module.in_features
        is_four = kind is Quantization.INT4 and supports_int4(N, K)
        headers[f"{prefix}{name}.{VALUES}"] = TensorHeader((N, K // 2), "U8") if is_four else TensorHeader((N, K), "I8")
        if is_four:
            groups = TensorHeader((N, K // GROUP_WEIGHTS), "BF16")
            headers |= {f"{prefix}{name}.{SCALES}": groups, f"{prefix}{name}.{OFFSETS}": groups}
        else:
            headers[f"{prefix}{name}.{SCALES}"] = TensorHeader((N,), "F32")
    return headers


def quantized_linears(network: nn.Module) -> Iterator[tuple[str, Linear]]:
    """Yield the name and the module of each linear layer that a quantization changes."""
    return ((name, module) for name, module in network.named_modules() if isinstance(module, Linear))


def quantized_tensors(name: str, weights: Rounded) -> dict[str, Tensor]:
    """Return the tensors that store a quantized layer in a file, by key."""
    if isinstance(weights, Int8):
        return {f"{name}.{VALUES}": weights.values, f"{name}.{SCALES}": weights.scales}
    low, high = weights.values.to(torch.uint8).reshape(len(weights.values), -1, 2).unbind(2)
    return {
        f"{name}.{VALUES}": low | high << 4,
        f"{name}.{SCALES}": weights.scales,
        f"{name}.{OFFSETS}": weights.offsets,
    }


def read_quantized_weights(name: str, tensor: Callable[[str], Tensor], has_middles: bool) -> Rounded:
    """Read the quantized weights of a linear layer from a file.

    Args:
        name: Name of the layer, including the key prefix.
        tensor: Function that returns a tensor of the file by its key.
        has_middles: True for int4 weights.
    """
    values, scales = tensor(f"{name}.{VALUES}"), tensor(f"{name}.{SCALES}")
    if not has_middles:
        return Int8(values, scales)
    halves = torch.stack((values & 15, values >> 4), dim=2).flatten(1)
    return Int4(halves.to(torch.int32), scales, tensor(f"{name}.{OFFSETS}"))
