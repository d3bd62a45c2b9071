"""Frames from the host's side: which slots, in which graph, and what came of it once the device has told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Graph, Moment, Track
from runtime.engine.frame import Frame
from runtime.engine.prompt import Prompt
from runtime.engine.slots import SlotArena
from runtime.errors import SetUpError
from runtime.model.checkpoint import Checkpoint

log = logging.getLogger(__name__)

Slots = NDArray[np.int64]
Progress = Callable[[int, int], None]  # graphs captured, of how many

# Positions that a frame's attention reads of every slot, where the device cannot stop at each row's own length.
SPANS = (512, 2048)
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rows of a graph
PIECES = (16, 32, 64, 128, 256, 512)  # positions of one


@dataclass(frozen=True, slots=True)
class FrameResult:
    """The new frame of each row, on the host.

    Shapes: codes [B, Q] int64; ended, finite [B] bool. A row that ended has no frame.
    """

    codes: NDArray[np.int64]
    ended: NDArray[np.bool_]
    finite: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pending:
    """A frame that is being made. Shapes: slots [B]; told [B or more, Q + 2] int64, on the host."""

    slots: Slots
    told: Tensor
    moment: Moment

    def ready(self) -> bool:
        """Whether `result` would not wait."""
        return self.moment.query()

    def result(self) -> FrameResult:
        """Wait for the device, and read. What it read stays true although the memory is used again."""
        self.moment.synchronize()
        told = self.told[: len(self.slots)].numpy().copy()
        return FrameResult(told[:, :-2], told[:, -2].astype(np.bool_), told[:, -1].astype(np.bool_))


class FrameRunner:
    """Talker and code predictor of one checkpoint over its arena. Engine thread.

    Args:
        slots, length: rows, and positions of each.
        piece: positions of a prompt that are read at once. Where pieces begin depends on the prompt alone, so that it
            gives the same numbers however busy the engine is.
    """

    def __init__(
        self, checkpoint: Checkpoint, device: Device, dtype: torch.dtype, slots: int, length: int, piece: int
    ) -> None:
        self.device, self.piece = device, piece
        if device.fused(dtype) is not None and checkpoint.talker.tables is None:
            checkpoint.talker.tabulate()
        self.arena = SlotArena(checkpoint.config, slots, length, device.torch_device, dtype)
        largest = next((size for size in BATCHES if size >= slots), slots)
        self.frame = Frame(checkpoint, device, self.arena, dtype, largest)
        self.hidden_size = checkpoint.config.talker.hidden_size
        self.dtype = dtype
        self._spans = [span for span in SPANS if span < length and self.frame.fused is None] + [length]
        self._graphs: dict[tuple[int, int], Graph[Tensor]] = {}  # by rows and span
        self._pieces: dict[tuple[int, bool], Graph[Tensor | None]] = {}  # by positions, and whether a frame follows
        self._rows = torch.full((largest,), slots, device=device.torch_device)
        self._embeds = torch.zeros((max(piece, PIECES[0]), self.hidden_size), device=device.torch_device, dtype=dtype)
        self._place = torch.zeros(3, device=device.torch_device, dtype=torch.int64)  # slot, start, count
        width = checkpoint.config.talker.num_code_groups + 2
        # As many pieces of the host's memory as frames can be under way, and one that is being read.
        self._told = Ring([device.host_memory(largest, width, dtype=torch.int64) for _ in range(device.ahead + 2)])
        self._asked = Ring([device.host_memory(largest, dtype=torch.int64) for _ in range(device.ahead + 2)])
        self._starts = Ring([device.host_memory(1, width, dtype=torch.int64) for _ in range(slots + 1)])
        self._places = Ring([device.host_memory(3, dtype=torch.int64) for _ in range(slots + 1)])
        self._last_of: dict[int, Moment] = {}  # by slot: the last frame that it took part in

    @torch.inference_mode()
    def capture(self, progress: Progress = lambda done, of: None) -> None:
        """Hold the frame of every batch size, and every piece of a prompt, as a graph, where the device can.

        What cannot be captured is said once; the graphs that were made until then serve, and for all else the same
        functions without one.

        Raises:
            SetUpError: the checkpoint cannot be used on this device at all.
        """
        if not self.device.holds_graphs:
            return
        try:
            self._capture(progress)
        except SetUpError:
            raise
        except Exception as error:
            made = len(self._graphs) + len(self._pieces)
            log.warning(
                "capture failed after %d graphs, the rest runs without: %s: %s", made, type(error).__name__, error
            )

    def _capture(self, progress: Progress) -> None:
        sizes = [size for size in BATCHES if size <= len(self._rows)]
        pieces = [size for size in PIECES if size <= self.piece] if self.frame.fused is not None else []
        total = len(sizes) * len(self._spans) + 2 * len(pieces)
        for span, size in product(reversed(self._spans), reversed(sizes)):  # the largest first: its memory fits all
            work = partial(self.frame.next, self._rows[:size], span=span)
            self._graphs[size, span] = self.device.capture(work, Track.FRAMES)
            progress(len(self._graphs), total)
        slot, start, count = torch.split(self._place, 1)
        self._place[0], self._place[2] = self.arena.slots, 1
        for size in reversed(pieces):
            for is_last in (True, False):
                embeds = self._embeds[:size]
                read = partial(self.frame.read_padded, embeds, slot, start, count, is_last=is_last)
                self._pieces[size, is_last] = self.device.capture(read, Track.STARTS)
                progress(len(self._graphs) + len(self._pieces), total)

    @contextmanager
    def starting(self, slot: int) -> Iterator[None]:
        """What is done to a slot before its first frame is done within: beside the frames of the others."""
        with self.device.track(Track.STARTS):
            if (moment := self._last_of.pop(slot, None)) is not None:
                self.device.wait(moment)
            yield

    @torch.inference_mode()
    def prefill(self, slot: int, prompt: Prompt, start: int = 0) -> tuple[int, Pending | None]:
        """Read the piece of a prompt that begins at ``start`` into a slot.

        Returns:
            Where the next piece begins, and, once the prompt is through, its first frame.
        """
        # What every text in this voice begins with is read apart, so that it can be kept.
        stop = min(start + self.piece, prompt.constant if start < prompt.constant else len(prompt.embeds))
        is_last = stop == len(prompt.embeds)
        with self.starting(slot):
            told = self._read(prompt.embeds[start:stop], slot, start, is_last=is_last)
            if told is None:
                return stop, None
            self.arena.host_position[slot], self.arena.host_frame[slot] = stop, 1
            memory = self._starts.next()
            self.device.to_host(told, memory)
            return stop, Pending(np.array([slot]), memory, self.device.mark())

    @torch.inference_mode()
    def step(self, slots: Slots) -> Pending:
        """Make the next frame of some slots, each of which has made one before. Shapes: slots [B]."""
        arena, count = self.arena, len(slots)
        with self.device.track(Track.FRAMES):
            # A row that is full and not told of yet writes behind its last position, where nobody reads.
            reach = min(int(arena.host_position[slots].max()) + 1, arena.length)
            fitting = (key for key in self._graphs if key[0] >= count and key[1] >= reach)
            size, span = key = min(fitting, default=(count, min(span for span in self._spans if span >= reach)))
            asked = self._asked.next()
            asked[:count], asked[count:size] = torch.from_numpy(slots), arena.slots
            rows = self._rows[:size]
            rows.copy_(asked[:size], non_blocking=True)
            if key in self._graphs:
                self._graphs[key].replay()
                told = self._graphs[key].result
            else:
                told = self.frame.next(rows, slots, span)
            memory = self._told.next()
            self.device.to_host(told, memory[:size])
            moment = self.device.mark()
        arena.host_position[slots] += 1
        arena.host_frame[slots] += 1
        self._last_of.update(dict.fromkeys(slots.tolist(), moment))
        return Pending(slots, memory, moment)

    def _read(self, embeds: Tensor, slot: int, start: int, *, is_last: bool) -> Tensor | None:
        count = len(embeds)
        if self.frame.fused is None:
            return self.frame.read(embeds, slot, start, is_last=is_last)
        size = min((size for size in PIECES if size >= count), default=self.piece)
        self._embeds[:count] = embeds
        place = self._places.next()
        place[0], place[1], place[2] = slot, start, count
        self._place.copy_(place, non_blocking=True)
        if (size, is_last) not in self._pieces:
            return self.frame.read_padded(self._embeds[:size], *torch.split(self._place, 1), is_last=is_last)
        graph = self._pieces[size, is_last]
        graph.replay()
        return graph.result


class Ring:
    """Pieces of memory that are used in turn, so that what the device still reads or writes is left alone."""

    def __init__(self, pieces: list[Tensor]) -> None:
        self._pieces, self._turn = pieces, 0

    def next(self) -> Tensor:
        self._turn = (self._turn + 1) % len(self._pieces)
        return self._pieces[self._turn]
