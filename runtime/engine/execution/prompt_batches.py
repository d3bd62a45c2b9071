"""Packing of several prompts' chunks into few launches of fixed shapes.

A launch reads as many positions of each of some pieces. Where operations are fused, a chunk is cut into pieces of
``PIECE`` positions and the pieces of all chunks lie one behind the other: a row's bits do not depend on the others
(runtime/device/kernels), and all keys of a layer are written before any is read, so that a piece may attend to the one
ahead of it in the same launch. What is filled up is then less than a piece a prompt, and at the end of a launch what
the next larger shape has more. Elsewhere a chunk is one piece, and chunks of one launch are filled up to the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

STARTS = (1, 2, 4, 8)  # Prompts read together, and first frames drawn together.
CHUNKS = (16, 32, 64, 128, 256, 512)  # Positions to which an uncut chunk is padded.
TOGETHER = 128  # Positions of such chunks in one launch, of one or several prompts.
PIECE = 16
POSITIONS = (16, 32, 64, 128, 192, 256, 384, 512)  # Positions of a launch's pieces; each size has a graph.

Chunk = tuple[int, int, Tensor]  # Slot, first position, embeds [P, H].
Shape = tuple[int, int]  # Pieces, positions of each.


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Input of one prefill launch.

    Shapes: places [5, pieces] int64: each piece's slot, first position and number of positions, the row to which the
    last of them and the position behind it are written (the scratch row, unless the piece is the last of its chunk),
    and that position (0 for the scratch row). embeds: where in the launch's pieces some positions begin, and those
    positions [P, H].
    """

    shape: Shape
    places: NDArray[np.int64]
    embeds: list[tuple[int, Tensor]]

    @property
    def reach(self) -> int:
        """Positions that the furthest of the pieces has, filled up."""
        return int(self.places[1].max()) + self.shape[1]


class PromptBatches(Protocol):
    """Shapes of prefill launches, and the packing of prompt chunks into them."""

    def shapes(self) -> Iterable[Shape]:
        """Return all that a launch may have, small ones first."""

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        """Launches, in their order, that read all of some chunks."""


class PackedPieces:
    """Chunks are cut into pieces, which fill a launch whoever they are of."""

    def shapes(self) -> Iterable[Shape]:
        return ((positions // PIECE, PIECE) for positions in POSITIONS)

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        places: list[tuple[int, int, int, int, int]] = []
        begins = []  # Start of each chunk in the concatenated pieces.
        for slot, start, part in chunks:
            begins.append(PIECE * len(places))
            for at in range(0, len(part), PIECE):
                stop = min(at + PIECE, len(part))
                kept = (slot, start + stop) if stop == len(part) else (scratch, 0)
                places.append((slot, start + at, stop - at, *kept))
        most = POSITIONS[-1]
        for first in range(0, PIECE * len(places), most):
            now = places[first // PIECE : (first + most) // PIECE]
            pieces = next(count for count, _ in self.shapes() if count >= len(now))
            embeds = [
                (max(begin - first, 0), part[max(first - begin, 0) : first + most - begin])
                for begin, (_, _, part) in zip(begins, chunks, strict=True)
                if begin - most < first < begin + len(part)
            ]
            yield PromptBatch((pieces, PIECE), _filled(now, pieces, scratch), embeds)


class WholeChunks:
    """A chunk is a piece; several are read together as far as ``TOGETHER``.

    Args:
        chunk: positions of the longest.
        counts: how many may be read at once.
    """

    def __init__(self, chunk: int, counts: Sequence[int] = STARTS) -> None:
        # Positions that a chunk may be filled up to: no more than what holds a whole one.
        whole = next((size for size in CHUNKS if size >= chunk), chunk)
        self._widths = [*(size for size in CHUNKS if size < whole), whole]
        self._counts = counts

    def shapes(self) -> Iterable[Shape]:
        for size in self._widths:
            for count in self._counts:
                if count == 1 or count * size <= TOGETHER:
                    yield count, size

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        left = list(chunks)
        while left:
            size, number = self._fitting(left)
            now, left = left[:number], left[number:]
            count = next(count for count in self._counts if count >= len(now))
            places = [(slot, start, len(part), slot, start + len(part)) for slot, start, part in now]
            embeds = [(place * size, part) for place, (_, _, part) in enumerate(now)]
            yield PromptBatch((count, size), _filled(places, count, scratch), embeds)

    def _fitting(self, chunks: Sequence[Chunk]) -> tuple[int, int]:
        """Positions of the next launch's pieces, and how many of the chunks go into it."""
        size = count = 0
        for number, (_, _, part) in enumerate(chunks[: self._counts[-1]], 1):
            larger = max(size, next(width for width in self._widths if width >= len(part)))
            width = next(count for count in self._counts if count >= number)
            if number > 1 and width * larger > TOGETHER:
                break
            size, count = larger, number
        return size, count


def _filled(places: list[tuple[int, int, int, int, int]], pieces: int, scratch: int) -> NDArray[np.int64]:
    """Places of as many pieces as a launch has. Shapes: result [5, pieces]."""
    spare = [(scratch, 0, 1, scratch, 0)] * (pieces - len(places))
    return np.ascontiguousarray(np.array([*places, *spare], np.int64).T)
