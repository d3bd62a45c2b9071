"""How talker layers meet the arena: a piece of one prompt, or the newest position of many rows."""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.fused import Fused
from runtime.engine.slots import SlotArena
from runtime.model.layers import Attention, join_heads
from runtime.model.talker import Talker

Angles = tuple[Tensor, Tensor]  # cosine and sine of every position, [T, d] each


class AttendPiece:
    """A piece of a prompt into one slot, whose number and positions the host knows."""

    def __init__(self, arena: SlotArena, device: Device, talker: Talker, slot: int, start: int, stop: int) -> None:
        self._arena, self._device, self._slot, self._start, self._stop = arena, device, slot, start, stop
        positions = torch.arange(start, stop, device=device.torch_device).unsqueeze(0)
        self._cos, self._sin = talker.angles(positions)

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = attention.heads_of(qkv, self._cos, self._sin)
        keys, values = self._arena.keys[layer][self._slot], self._arena.values[layer][self._slot]
        keys[:, self._start : self._stop], values[:, self._start : self._stop] = k[0], v[0]
        return join_heads(self._device.attend_prompt(q, keys[None, :, : self._stop], values[None, :, : self._stop]))


class AttendRows:
    """The newest position of every row, written to its slot and attended from.

    Shapes: rows, positions [B] int64, positions below ``span``.
    """

    def __init__(
        self, arena: SlotArena, device: Device, talker: Talker, rows: Tensor, positions: Tensor, span: int
    ) -> None:
        self._arena, self._device, self._rows, self._positions, self._span = arena, device, rows, positions, span
        self._cos, self._sin = talker.angles(positions.unsqueeze(1))
        self._lengths = positions + 1

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = attention.heads_of(qkv, self._cos, self._sin)
        keys, values = self._arena.keys[layer], self._arena.values[layer]
        keys[self._rows, :, self._positions] = k[:, :, 0]
        values[self._rows, :, self._positions] = v[:, :, 0]
        keys, values = keys[:, :, : self._span], values[:, :, : self._span]
        return join_heads(self._device.attend_rows(q, keys, values, self._rows, self._lengths))


class FusedPiece:
    """A piece of a prompt in a graph: slot and start lie on the device. Shapes: slot, start [1] int64."""

    def __init__(self, arena: SlotArena, fused: Fused, angles: Angles, slot: Tensor, start: Tensor) -> None:
        self._arena, self._fused, self._angles, self._slot, self._start = arena, fused, angles, slot, start

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        arena = self._arena
        return self._fused.attend_piece(
            qkv[0],
            attention.q_norm.plain,
            attention.k_norm.plain,
            *self._angles,
            arena.keys[layer],
            arena.values[layer],
            self._slot,
            self._start,
        )[None]


class FusedRows:
    """``AttendRows`` in one launch a layer. Shapes: rows, positions [B] int64."""

    def __init__(self, arena: SlotArena, fused: Fused, angles: Angles, rows: Tensor, positions: Tensor) -> None:
        self._arena, self._fused, self._angles, self._rows, self._positions = arena, fused, angles, rows, positions

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        arena = self._arena
        return self._fused.attend_rows(
            qkv[:, 0],
            attention.q_norm.plain,
            attention.k_norm.plain,
            *self._angles,
            arena.keys[layer],
            arena.values[layer],
            self._rows,
            self._positions,
        )[:, None]
