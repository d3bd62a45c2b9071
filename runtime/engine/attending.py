"""Lets talker layers attend over the slot cache: prefill chunks, and decode steps of many rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.fused import Fused
from runtime.engine.slots import SlotCache
from runtime.model.layers import Attention, join_heads
from runtime.model.talker import Talker

Angles = tuple[Tensor, Tensor]  # cosine and sine of every position, [T, d] each


class PrefillAttention:
    """A prefill chunk into one slot; the host knows the number and the positions."""

    def __init__(self, slot_cache: SlotCache, device: Device, talker: Talker, slot: int, start: int, stop: int) -> None:
        self._slot_cache = slot_cache
        self._device = device
        self._slot = slot
        self._start = start
        self._stop = stop
        positions = torch.arange(start, stop, device=device.torch_device).unsqueeze(0)
        self._cos, self._sin = talker.angles(positions)

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = attention.heads_of(qkv, self._cos, self._sin)
        keys, values = self._slot_cache.keys[layer][self._slot], self._slot_cache.values[layer][self._slot]
        keys[:, self._start : self._stop], values[:, self._start : self._stop] = k[0], v[0]
        return join_heads(self._device.prefill_attention(q, keys[None, :, : self._stop], values[None, :, : self._stop]))


class DecodeAttention:
    """The newest position of every row, written to its slot and attended from.

    Shapes: rows, positions [B] int64, positions below ``span``.
    """

    def __init__(
        self, slot_cache: SlotCache, device: Device, talker: Talker, rows: Tensor, positions: Tensor, span: int
    ) -> None:
        self._slot_cache = slot_cache
        self._device = device
        self._rows = rows
        self._positions = positions
        self._span = span
        self._cos, self._sin = talker.angles(positions.unsqueeze(1))
        self._lengths = positions + 1

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = attention.heads_of(qkv, self._cos, self._sin)
        keys, values = self._slot_cache.keys[layer], self._slot_cache.values[layer]
        keys[self._rows, :, self._positions] = k[:, :, 0]
        values[self._rows, :, self._positions] = v[:, :, 0]
        keys, values = keys[:, :, : self._span], values[:, :, : self._span]
        return join_heads(self._device.decode_attention(q, keys, values, self._rows, self._lengths))


@dataclass(frozen=True, slots=True)
class FusedPrefillAttention:
    """Prefill chunks of equal length: slots and starts lie on the device. Shapes: slot, start [n] int64."""

    slot_cache: SlotCache
    fused: Fused
    angles: Angles
    slot: Tensor
    start: Tensor

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        norms, cache = attention.qk_norm_rope(*self.angles), self.slot_cache.view(layer)
        made = self.fused.prefill_attention(qkv.flatten(0, 1), norms, cache, self.slot, self.start)
        return made.view(*qkv.shape[:2], -1)


@dataclass(frozen=True, slots=True)
class FusedDecodeAttention:
    """``DecodeAttention`` in one launch a layer. Shapes: rows, positions [B] int64."""

    slot_cache: SlotCache
    fused: Fused
    angles: Angles
    rows: Tensor
    positions: Tensor

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        return self.fused.decode_attention(
            qkv[:, 0],
            attention.qk_norm_rope(*self.angles),
            self.slot_cache.view(layer),
            self.rows,
            self.positions,
            settled=layer > 0,  # the first layer's attention waits for what is ahead, and lets the others find it
        )[:, None]
