"""Packing of prompt chunks into a few prefill launches of fixed shapes.

A chunk is a part of one prompt: the positions that are prefilled in one step of the engine. A launch processes pieces
of equal length.

With fused operations, chunks are cut into pieces of ``PIECE_POSITIONS``, and the pieces of all chunks are concatenated.
A row's result is bitwise independent of the other rows (runtime/device/kernels). A layer writes all keys before it
reads a key, so a piece can attend to an earlier piece of the same launch. The padding is less than one piece per
prompt, plus the difference to the next larger shape.

Without fused operations, each chunk is one piece, and the chunks of a launch are padded to the longest chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

PROMPT_BATCH_SIZES = (1, 2, 4, 8)  # Numbers of prompts, or of first frames, that one launch can process.
CHUNK_POSITIONS = (16, 32, 64, 128, 256, 512)  # Padded lengths in positions of chunks that are not divided into pieces.
MAX_UNDIVIDED_POSITIONS = 128  # Maximum total number of positions per launch for chunks that are not divided.
PIECE_POSITIONS = 16
# Total numbers of positions per launch. A graph is captured for each of them.
POSITIONS = (16, 32, 64, 128, 192, 256, 384, 512)
# Total numbers of positions that a decode step can prefill, and minimum number of speaking rows for such steps. A graph
# is captured for each number of positions and each batch size from this minimum on.
JOINING_POSITIONS = (32, 64, 128, 256)
MIN_JOINED_ROWS = 48

Inputs = Tensor | NDArray[np.int64]  # Embeddings or ids, as in `Prompt.inputs`.
Chunk = tuple[int, int, Inputs]  # Slot, first position, and inputs of P positions.
Shape = tuple[int, int]  # Number of pieces, positions per piece.


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Input of one prefill launch, which processes pieces of equal length.

    Shapes:
        places: [5, pieces] int64. The rows are: slot; first position; number of positions; slot for the last hidden
            state; position after the piece. The fourth row is the scratch slot for all pieces that do not end a chunk.
        inputs: Pairs of an offset in the concatenated pieces and inputs of P positions.
    """

    shape: Shape
    places: NDArray[np.int64]
    inputs: list[tuple[int, Inputs]]

    @property
    def reach(self) -> int:
        """Return the highest end position of all pieces, including their padding."""
        return int(self.places[1].max()) + self.shape[1]


class PromptBatches(Protocol):
    """Packing of prompt chunks into prefill launches of fixed shapes."""

    def shapes(self) -> Iterable[Shape]:
        """Return all shapes of prefill launches, from small to large."""

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        """Yield the inputs of the launches that prefill all chunks.

        Args:
            chunks: Slot, first position and inputs of each chunk.
            scratch: Number of the scratch slot, which padding writes to.
        """


class PackedPieces:
    """Packing that cuts all chunks into pieces of `PIECE_POSITIONS` positions.

    Args:
        positions: Possible total numbers of positions of a launch.
    """

    def __init__(self, positions: Sequence[int] = POSITIONS) -> None:
        self._positions = positions

    def shapes(self) -> Iterable[Shape]:
        return ((positions // PIECE_POSITIONS, PIECE_POSITIONS) for positions in self._positions)

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        places: list[tuple[int, int, int, int, int]] = []
        begins = []  # Index of each chunk's first position in the concatenated pieces.
        for slot, start, part in chunks:
            begins.append(PIECE_POSITIONS * len(places))
            for at in range(0, len(part), PIECE_POSITIONS):
                stop = min(at + PIECE_POSITIONS, len(part))
                stored_at = (slot, start + stop) if stop == len(part) else (scratch, 0)
                places.append((slot, start + at, stop - at, *stored_at))
        most = self._positions[-1]
        for first in range(0, PIECE_POSITIONS * len(places), most):
            now = places[first // PIECE_POSITIONS : (first + most) // PIECE_POSITIONS]
            pieces = next(count for count, _ in self.shapes() if count >= len(now))
            inputs = [
                (max(begin - first, 0), part[max(first - begin, 0) : first + most - begin])
                for begin, (_, _, part) in zip(begins, chunks, strict=True)
                if begin - most < first < begin + len(part)
            ]
            yield PromptBatch((pieces, PIECE_POSITIONS), _filled(now, pieces, scratch), inputs)


class WholeChunks:
    """Packing that does not divide chunks: each chunk is one piece.

    A launch has at most `MAX_UNDIVIDED_POSITIONS` positions, unless it has a single chunk.

    Args:
        chunk: Number of positions of the longest chunk.
        counts: Possible numbers of chunks in a launch.
    """

    def __init__(self, chunk: int, counts: Sequence[int] = PROMPT_BATCH_SIZES) -> None:
        # The smallest padded length that is at least as long as the longest chunk.
        padded_size = next((size for size in CHUNK_POSITIONS if size >= chunk), chunk)
        self._widths = [*(size for size in CHUNK_POSITIONS if size < padded_size), padded_size]
        self._counts = counts

    def shapes(self) -> Iterable[Shape]:
        for size in self._widths:
            for count in self._counts:
                if count == 1 or count * size <= MAX_UNDIVIDED_POSITIONS:
                    yield count, size

    def batches(self, chunks: Sequence[Chunk], scratch: int) -> Iterator[PromptBatch]:
        remaining = list(chunks)
        while remaining:
            size, number = self._fitting(remaining)
            now, remaining = remaining[:number], remaining[number:]
            count = next(count for count in self._counts if count >= len(now))
            places = [(slot, start, len(part), slot, start + len(part)) for slot, start, part in now]
            inputs = [(place * size, part) for place, (_, _, part) in enumerate(now)]
            yield PromptBatch((count, size), _filled(places, count, scratch), inputs)

    def _fitting(self, chunks: Sequence[Chunk]) -> tuple[int, int]:
        """Return the padded length of the next launch's pieces, and the number of its chunks."""
        size = count = 0
        for number, (_, _, part) in enumerate(chunks[: self._counts[-1]], 1):
            larger = max(size, next(width for width in self._widths if width >= len(part)))
            width = next(count for count in self._counts if count >= number)
            if number > 1 and width * larger > MAX_UNDIVIDED_POSITIONS:
                break
            size, count = larger, number
        return size, count


def _filled(places: list[tuple[int, int, int, int, int]], pieces: int, scratch: int) -> NDArray[np.int64]:
    """Pad places to the number of a launch's pieces.

    Shapes: result [5, pieces].
    """
    padding = [(scratch, 0, 1, scratch, 0)] * (pieces - len(places))
    return np.ascontiguousarray(np.array([*places, *padding], np.int64).T)
