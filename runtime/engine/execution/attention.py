"""Attention of the talker over the slot cache, for prefill chunks and decode steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.fused import Fused
from runtime.engine.execution.slots import SlotCache
from runtime.model.layers import Attention, Operations, join_heads
from runtime.model.talker import Talker

Angles = tuple[Tensor, Tensor]  # Cosine and sine of every position, [T, d] each.


class PrefillAttention:
    """Attention of one prefill chunk on devices without fused operations.

    The host passes the slot and the positions as numbers, so graphs cannot capture this attention.
    """

    def __init__(
        self,
        slot_cache: SlotCache,
        device: Device,
        talker: Talker,
        slot: int,
        start: int,
        stop: int,
        ops: Operations,
    ) -> None:
        self._slot_cache = slot_cache
        self._device = device
        self._ops = ops
        self._slot = slot
        self._start = start
        self._stop = stop
        positions = torch.arange(start, stop, device=device.torch_device).unsqueeze(0)
        self._cos, self._sin = talker.angles(positions)

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = self._ops.heads(attention, qkv, self._cos, self._sin)
        keys, values = self._slot_cache.keys[layer][self._slot], self._slot_cache.values[layer][self._slot]
        keys[:, self._start : self._stop], values[:, self._start : self._stop] = k[0], v[0]
        keys, values = (cached[None, :, : self._stop].to(q.dtype) for cached in (keys, values))
        return join_heads(self._device.prefill_attention(q, keys, values))


class SlotAttention:
    """Attention of each batch row's `new` newest positions, after storing keys and values.

    Slot numbers are on the device, so graphs can capture the attention.

    Shapes: rows [B] int64, slot numbers; starts [B] int64, first new positions. Positions from `span` on are padding.
    """

    def __init__(
        self,
        slot_cache: SlotCache,
        device: Device,
        talker: Talker,
        rows: Tensor,
        starts: Tensor,
        span: int,
        ops: Operations,
        new: int = 1,
    ) -> None:
        self._slot_cache = slot_cache
        self._ops = ops
        positions = starts.unsqueeze(1)
        if new > 1:
            positions = positions + torch.arange(new, device=device.torch_device)
        self._cos, self._sin = talker.angles(positions)
        self._attend = device.attend_slots(rows, starts, span, slot_cache.keys[0], new)

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = self._ops.heads(attention, qkv, self._cos, self._sin)
        return join_heads(self._attend(q, k, v, self._slot_cache.keys[layer], self._slot_cache.values[layer]))


@dataclass(frozen=True, slots=True)
class FusedPrefillAttention:
    """Attention of several prefill chunks of equal length, with fused operations.

    Shapes: slot [n] int64, slot numbers on the device; start [n] int64, first new positions.
    """

    slot_cache: SlotCache
    fused: Fused
    angles: Angles
    slot: Tensor
    start: Tensor

    def __call__(self, layer: int, attention: Attention, qkv: Tensor, out: Tensor | None = None) -> Tensor:
        norms, cache = attention.qk_norm_rope(*self.angles), self.slot_cache.view(layer)
        output = self.fused.prefill_attention(qkv.flatten(0, 1), norms, cache, self.slot, self.start, out)
        return output.view(*qkv.shape[:2], -1)


@dataclass(frozen=True, slots=True)
class FusedDecodeAttention:
    """Attention of one new position per batch row, with one fused launch per layer.

    `SlotAttention` computes the same without fused operations.

    Shapes: rows [B] int64, slot numbers; positions [B] int64.
    """

    slot_cache: SlotCache
    fused: Fused
    angles: Angles
    rows: Tensor
    positions: Tensor

    def __call__(self, layer: int, attention: Attention, qkv: Tensor, out: Tensor | None = None) -> Tensor:
        return self.fused.decode_attention(
            qkv[:, 0],
            attention.qk_norm_rope(*self.angles),
            self.slot_cache.view(layer),
            self.rows,
            self.positions,
            # Only the first layer must wait for earlier launches.
            inputs_ready=layer > 0,
            out=out,
        )[:, None]


@dataclass(frozen=True, slots=True)
class FusedStepAttention:
    """Attention of a decode step that also prefills prompts, with fused operations.

    The rows of `decode` come first, and then the pieces of `prefill`.
    """

    decode: FusedDecodeAttention
    prefill: FusedPrefillAttention

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        count, out = len(self.decode.rows), qkv.new_empty(len(qkv), attention.heads * attention.head_dim)
        self.decode(layer, attention, qkv[:count], out[:count])
        self.prefill(layer, attention, qkv[count:], out[count:])
        return out[:, None]
