"""Which tiles serve the products of Code2Wav best: every product of one call again, by itself, in other tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from benchmarks.timing import microseconds
from runtime.device.kernels.convolution import Packed, Tile, convolve, tile_for
from runtime.device.kernels.residual_unit import PackedUnit, residual_unit
from runtime.device.kernels.residual_unit import tile_for as unit_tile_for
from runtime.model import packed_sound
from runtime.model.config import Code2WavConfig
from runtime.model.packed_sound import PackedSound

LARGE = (
    Tile(128, 256, 8, 3),
    Tile(128, 256, 8, 4),
    Tile(256, 128, 8, 3),
    Tile(128, 128, 8, 3),
    Tile(128, 128, 4, 4),
    Tile(128, 128, 8, 4),
    Tile(128, 128, 8, 3, 128),
    Tile(64, 256, 4, 3),
    Tile(64, 128, 4, 4),
    Tile(128, 64, 4, 4),
)
SMALL = (Tile(64, 16, 4, 6), Tile(64, 16, 4, 4, 128), Tile(64, 32, 4, 6), Tile(64, 32, 4, 4, 128), Tile(64, 64, 4, 5))
UNITS = (
    Tile(128, 0, 8, 3),
    Tile(128, 0, 8, 4),
    Tile(128, 0, 8, 4, 32),
    Tile(128, 0, 4, 3),
    Tile(128, 0, 4, 4, 32),
    Tile(64, 0, 4, 3),
    Tile(64, 0, 4, 4, 32),
    Tile(256, 0, 8, 3, 32),
)


@contextmanager
def recorded(into: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> Iterator[None]:
    """Note every product that a call makes, with its arguments."""

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            into.append((work, arguments, named))
            return work(*arguments, **named)

        return noted

    with mock.patch.multiple(packed_sound, convolve=noting(convolve), residual_unit=noting(residual_unit)):
        yield


@torch.inference_mode()
def tune(sound: PackedSound, config: Code2WavConfig) -> None:
    """Print, for each kind of product in a small and in a large call, its time by tile."""
    for frames, batch, tiles in ((12, 32, LARGE), (1, 1, SMALL)):
        rows = torch.tensor([[slot, 0, 100] for slot in range(batch)], device=sound.device, dtype=torch.int32)
        codes = torch.randint(0, config.codebook_size, (batch, frames, config.num_quantizers), device=sound.device)
        calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        with recorded(calls):
            sound.decode(rows, codes.to(torch.int32))
        kinds: dict[str, list[tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {}
        for call in calls:
            kinds.setdefault(_kind(call), []).append(call)
        for kind, alike in kinds.items():
            work, arguments, named = alike[len(alike) // 2]
            packed, x = arguments[0], arguments[1]
            if named.get("squares"):
                continue  # their tile is a part of their meaning
            is_unit = isinstance(packed, PackedUnit)
            weights = packed.wide if is_unit else packed
            flops = 2 * x.shape[0] * x.shape[1] * weights.weight.shape[1] * (x.shape[2] if is_unit else weights.width)
            if frames > 1 and flops < 2e9:
                continue
            M = x.shape[0] * x.shape[1]
            ours = unit_tile_for(M, x.shape[2]) if is_unit else tile_for(M, weights.width)
            lines = []
            for tile in dict.fromkeys((ours, *(UNITS if is_unit else tiles))):
                try:
                    time = microseconds(lambda: work(*arguments, **{**named, "tile": tile}))  # noqa: B023
                except Exception as error:
                    print(f"    {kind} {_name(tile)}: {type(error).__name__} {str(error)[:80]}")
                    continue
                lines.append((time, _name(tile) + (" (ours)" if tile == ours else "")))
            shown = ", ".join(f"{name} {time:.1f}" for time, name in sorted(lines)[:4])
            mine = next((time for time, name in lines if "ours" in name), float("nan"))
            print(
                f"{frames}x{batch} {kind} x{len(alike)}: ours {mine:.1f} us, {flops / mine / 1e6:.0f} TFLOP/s; {shown}",
                flush=True,
            )


def _name(tile: Tile) -> str:
    return f"{tile.rows}x{tile.columns}x{tile.depth}/w{tile.warps}s{tile.stages}"


def _kind(call: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> str:
    _, arguments, named = call
    packed, x = arguments[0], arguments[1]
    if isinstance(packed, PackedUnit):
        return f"unit C{x.shape[2]} M{x.shape[0] * x.shape[1]}"
    assert isinstance(packed, Packed)
    extras = "".join(f" {name}" for name in ("residual", "then", "norm") if named.get(name) is not None)
    return f"K{packed.weight.shape[1]} N{packed.width} M{x.shape[0] * x.shape[1]}{extras}"
