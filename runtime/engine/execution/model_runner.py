"""Execution of prefill chunks and decode steps, with graphs if they were captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Event, Graph, Stream
from runtime.engine.execution.frame import EMBEDDED, Frame
from runtime.engine.execution.graphs import DECODE_BUCKETS, Capture, GraphKind, GraphPool, Progress, Shape
from runtime.engine.execution.noise import HostNoise
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.prompt_batches import (
    JOINING_POSITIONS,
    MAX_UNDIVIDED_POSITIONS,
    MIN_JOINED_ROWS,
    PIECE_POSITIONS,
    POSITIONS,
    PROMPT_BATCH_SIZES,
    Chunk,
    PackedPieces,
    PromptBatch,
    PromptBatches,
    WholeChunks,
)
from runtime.engine.execution.slots import SlotCache, copy_into
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.talker import NO_CODEC

Slots = NDArray[np.int64]

# Available numbers of positions that attention reads per slot, on devices where attention cannot stop at the end of
# each row.
SPANS = (512, 2048)
# Sampling kinds, which are the last dimension of a graph's shape. PLAIN is for a top-k of at most MAX_UNSORTED_K
# without top-p, and SORTED is for any top-k and top-p. A SORTED graph can also run PLAIN rows.
PLAIN, SORTED = 0, 1


class UnreadableFrame(Exception):
    """Error for a frame that the device has generated, but whose result the host cannot read.

    The launch cannot be retried, because a retry would generate the next frame.
    """


@dataclass(frozen=True, slots=True)
class FrameResult:
    """New frame of each sequence in a batch, in host memory.

    Shapes: codes [B, Q] int64; ended, finite [B] bool. A row with `ended` has no frame. `finite` is True if all logits
    of the row were finite.
    """

    codes: NDArray[np.int64]
    ended: NDArray[np.bool_]
    finite: NDArray[np.bool_]

    @property
    def has_frame(self) -> NDArray[np.bool_]:
        """Return a mask of the rows with a usable frame.

        Shapes: result [B].
        """
        return self.finite & ~self.ended


@dataclass(frozen=True, slots=True)
class LaunchedFrame:
    """Frame that was launched for some slots, with an output that is valid after `event`.

    Shapes: slots [B]; output [>= B, Q + 2] int64, on the host.
    """

    slots: Slots
    output: Tensor
    event: Event

    def result(self) -> FrameResult:
        """Wait for the device, and return a copy of the output.

        A copy is needed, because later launches reuse the memory of the output.
        """
        self.event.synchronize()
        output = self.output[: len(self.slots)].numpy().copy()
        return FrameResult(output[:, :-2], output[:, -2].astype(np.bool_), output[:, -1].astype(np.bool_))


class ModelRunner:
    """Talker and code predictor of one checkpoint with its slot cache.

    Thread: engine.

    Args:
        slots, length: Number of slots, and number of positions per slot.
        chunk: Number of positions of a prefill chunk, or 0 for the device's default. Chunk boundaries depend only on
            the prompt, so results do not depend on the load.
        prompts: Maximum number of first frames in flight.
        graphs: Pool shared with the graphs of Code2Wav.
        cache_dtype: Dtype of the KV cache, or None for `dtype`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        dtype: torch.dtype,
        slots: int,
        length: int,
        chunk: int,
        prompts: int = PROMPT_BATCH_SIZES[-1],
        graphs: GraphPool | None = None,
        cache_dtype: torch.dtype | None = None,
    ) -> None:
        self.device = device
        if device.fused(dtype) is not None and checkpoint.talker.tables is None:
            checkpoint.talker.tabulate()
        target, grain = device.torch_device, device.position_grain
        self.slot_cache = SlotCache(checkpoint.config, slots, length, target, cache_dtype or dtype, grain)
        largest = next((size for size in DECODE_BUCKETS if size >= slots), slots)
        # Batch sizes for prompts. The largest one is the first size in PROMPT_BATCH_SIZES that is not smaller than the
        # number of slots.
        self._prompt_batch_sizes = [size for size in PROMPT_BATCH_SIZES if size < 2 * slots]
        config, talker = checkpoint.config, checkpoint.talker
        self.frame = Frame(
            config, talker, device, self.slot_cache, dtype, largest, self._prompt_batch_sizes[-1], prompts
        )
        self._pads = self.frame.fused is not None or device.pads_prompts
        self.hidden_size = checkpoint.config.talker.hidden_size
        self._is_lean = device.lean_sampling and self.frame.fused is None
        self._spans = [span for span in SPANS if span < length and self.frame.fused is None] + [length]
        self.graphs = GraphPool(device) if graphs is None else graphs
        self._rows = torch.full((largest,), slots, device=device.torch_device)
        self._first_rows = torch.full((PROMPT_BATCH_SIZES[-1],), slots, device=device.torch_device)
        packs = self.frame.fused is not None
        self.chunk = chunk or (POSITIONS[-1] if packs else MAX_UNDIVIDED_POSITIONS)
        self._batches: PromptBatches = PackedPieces() if packs else WholeChunks(self.chunk, self._prompt_batch_sizes)
        shapes = list(self._batches.shapes()) if self._pads else [(1, 1)]
        width, pieces = max(count * size for count, size in shapes), max(count for count, _ in shapes)
        self._embeds = torch.zeros((width, self.hidden_size), device=target, dtype=dtype)
        self._prompt_inputs = PromptBuffer(pieces, width, target)
        # Decode steps have a separate buffer, because they run at the same time as prefills.
        self._joining_batches = PackedPieces(JOINING_POSITIONS)
        self._joining_inputs = PromptBuffer(JOINING_POSITIONS[-1] // PIECE_POSITIONS, JOINING_POSITIONS[-1], target)
        self._embeds_ids = packs
        width = checkpoint.config.talker.num_code_groups + 2
        # One host buffer for each frame that can be in flight, and one for the frame that is being read.
        self._outputs = HostBufferRing(
            [device.host_memory(largest, width, dtype=torch.int64) for _ in range(device.max_in_flight + 2)]
        )
        self._row_buffers = HostBufferRing(
            [device.host_memory(largest, dtype=torch.int64) for _ in range(device.max_in_flight + 2)]
        )
        # The ring for first frames may need more buffers than there are slots, because first frames of ended requests
        # may still be running on the device.
        self._first_outputs = HostBufferRing(
            [device.host_memory(PROMPT_BATCH_SIZES[-1], width, dtype=torch.int64) for _ in range(prompts + 1)]
        )
        self._last_of: dict[int, Event] = {}  # Event after the last frame of each slot.

    @torch.inference_mode()
    def capture(self, progress: Progress = lambda done, of: None) -> None:
        """Capture graphs of all prefill chunks and of the frames of every batch size.

        On devices without graphs, this method does nothing.

        Raises:
            SetUpError: The checkpoint cannot be used on this device.
        """
        if self.device.holds_graphs:
            self.graphs.capture(
                (Capture(work, shape, partial(self.device.capture, *how)) for work, shape, how in self._works()),
                progress,
            )

    def warmup_functions(self) -> list[Callable[[], object]]:
        """Return one function per graph, which launches the operations of the graph eagerly.

        `Device.precompile` calls the functions to compile all kernels. The list is empty on devices without fused
        operations.
        """
        return [run for _, _, (run, _) in self._works()] if self.frame.fused is not None else []

    def _works(self) -> Iterator[tuple[GraphKind, Shape, tuple[Callable[[], object], Stream]]]:
        """Yield all work to capture: kind, shape, function and stream, the largest first."""
        sizes, scratch = [size for size in DECODE_BUCKETS if size <= len(self._rows)], self.slot_cache.slots
        chunks = list(self._batches.shapes()) if self._pads else []
        capture_keys: list[tuple[int, ...]] = [(SORTED,), (PLAIN,)] if self._is_lean else [()]
        for span, size, drawn in product(reversed(self._spans), reversed(sizes), capture_keys):
            following = partial(self.frame.next, self._rows[:size], span=span, plain=drawn == (PLAIN,))
            yield GraphKind.DECODE, (size, span, *drawn), (following, Stream.FRAMES)
        for buffer in (self._prompt_inputs, self._joining_inputs):
            buffer.places[:] = torch.tensor([scratch, 0, 1, scratch, 0])[:, None]
        joining = [*self._joining_batches.shapes()] if self._embeds_ids else []
        for size, (pieces, _) in product(reversed(sizes), reversed(joining)):
            if size >= MIN_JOINED_ROWS:
                inputs = self._joining_inputs.views(pieces, PIECE_POSITIONS)
                following = partial(self.frame.next_with_prompts, self._rows[:size], *inputs)
                yield GraphKind.DECODE_WITH_PROMPTS, (size, pieces), (following, Stream.FRAMES)
        for count, size in reversed(chunks):
            embeds, places, ids = self._chunk(count, size)
            prefill = partial(self.frame.prefill_padded, embeds, places, self._spans[0], ids)
            yield GraphKind.PREFILL, (count, size), (prefill, Stream.PROMPTS)
        for count, drawn in product(reversed(self._prompt_batch_sizes), capture_keys):
            first = partial(self.frame.first, self._first_rows[:count], plain=drawn == (PLAIN,))
            yield GraphKind.FIRST_FRAME, (count, *drawn), (first, Stream.PROMPTS)

    def _chunk(self, count: int, size: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return views of a launch's buffers: embeddings, places and ids.

        The ids are None if the launch does not embed ids.

        Shapes: embeds [count, size, H]; places [5, count]; ids [count * size, 2].
        """
        places, ids = self._prompt_inputs.views(count, size)
        return self._embeds[: count * size].view(count, size, -1), places, ids if self._embeds_ids else None

    @contextmanager
    def prompt_stream(self, slot: int) -> Iterator[None]:
        """Queue the device work of the ``with`` block on the prompt stream.

        The work waits for the last frame of the slot. It runs in parallel with the frames of other slots.
        """
        with self.device.stream(Stream.PROMPTS):
            self._after_last_frame(slot)
            yield

    def prefill(self, slot: int, prompt: Prompt, start: int = 0) -> tuple[int, LaunchedFrame | None]:
        """Prefill the next chunk of one prompt, and launch the first frame after the last chunk.

        Returns:
            The start position of the next chunk, and the first frame or None.
        """
        (stop,) = self.prefill_chunks([(slot, prompt, start)])
        return stop, self.first(np.array([slot])) if stop == len(prompt.inputs) else None

    @torch.inference_mode()
    def prefill_chunks(self, prompts: Sequence[tuple[int, Prompt, int]]) -> list[int]:
        """Prefill the next chunk of each prompt, and return the end position of each chunk.

        Chunk boundaries and results do not depend on the other prompts of the batch.

        Args:
            prompts: Slot, prompt and start position of the chunk.
        """
        stops = [
            # The prefix that all texts of a voice share is a separate chunk, so that the prefix can be cached.
            min(start + self.chunk, prompt.constant if start < prompt.constant else len(prompt.inputs))
            for _, prompt, start in prompts
        ]
        chunks = [
            (slot, start, prompt.inputs[start:stop]) for (slot, prompt, start), stop in zip(prompts, stops, strict=True)
        ]
        with self.device.stream(Stream.PROMPTS):
            for slot, _, _ in chunks:
                self._after_last_frame(slot)
            if not self._pads:
                for slot, start, embeds in chunks:
                    assert isinstance(embeds, Tensor), "only fused operations embed ids"
                    self.frame.prefill(embeds, slot, start)
            else:
                self._prefill_together(chunks)
        for (slot, _, _), stop in zip(prompts, stops, strict=True):
            self.slot_cache.host_position[slot] = stop
        return stops

    def _after_last_frame(self, slot: int) -> None:
        """Make the current stream wait for the last frame of a slot."""
        if (event := self._last_of.pop(slot, None)) is not None:
            self.device.wait_event(event)

    def _prefill_together(self, chunks: list[Chunk]) -> None:
        """Prefill chunks together, in as few launches as the available shapes allow."""
        for batch in self._batches.batches(chunks, self.slot_cache.slots):
            embeds, places, ids = self._chunk(*batch.shape)
            flat = embeds.flatten(0, 1)
            if ids is None:
                # The buffer must not contain NaN, because attention multiplies padding by 0, and 0 * NaN is NaN.
                flat.zero_()
            for at, part in batch.inputs:
                if isinstance(part, Tensor):
                    flat[at : at + len(part)] = part
                else:
                    assert ids is not None, "only fused operations embed ids"
            self._prompt_inputs.write(batch)
            span = self._span_of(batch.reach)
            graph = self.graphs.get(GraphKind.PREFILL, *batch.shape) if span == self._spans[0] else None
            if graph is not None:
                graph.replay()
            else:
                self.frame.prefill_padded(embeds, places, span, ids)

    @torch.inference_mode()
    def first(self, slots: Slots, then: Callable[[Tensor], None] = lambda codes: None) -> LaunchedFrame:
        """Launch the first frame of some slots whose prompts are prefilled.

        A launch supports at most `PROMPT_BATCH_SIZES[-1]` slots.

        Args:
            slots: Slot numbers [B].
            then: Function that is called with the codes [B, Q] on the device. It may launch further work on this
                stream, which is part of the launch.

        Raises:
            UnreadableFrame: The frame cannot be retried. After other exceptions, prefill and frame may be retried.
        """
        slot_cache, count = self.slot_cache, len(slots)
        with self.device.stream(Stream.PROMPTS):
            slot_cache.write(slots.tolist())
            plain = self._is_lean and slot_cache.is_plain(slots)
            (size, *_), graph = self._fitting(slots, GraphKind.FIRST_FRAME, count, plain=plain)
            rows = self._first_rows[:size]
            copy_into(rows, np.append(slots, [slot_cache.slots] * (size - count)).astype(np.int64))
            if self.frame.first_frame_noise is not None:
                self._put_noise(self.frame.first_frame_noise, slots)
            if graph is None:
                output = self.frame.first(rows, slots, plain=plain)
            else:
                graph.replay()
                output = graph.result
            memory = self._first_outputs.next()
            event = self._to_host(output, memory[:size], lambda: then(output[:count, :-2]))
        slot_cache.host_frame[slots] += 1
        return LaunchedFrame(slots, memory, event)

    def end_prefill(self, slots: Slots) -> Event:
        """Finish the prefill of slots whose first frame is part of a step.

        Returns:
            Event after which the step may be launched.
        """
        with self.device.stream(Stream.PROMPTS):
            self.slot_cache.write(slots.tolist())
            return self.device.record_event()

    def joining_pieces(self, prompt: Prompt) -> int:
        """Return the number of pieces of a prompt that a decode step can prefill, or 0.

        The prompt must consist of ids, which need no earlier work on the prompt stream.
        """
        if self.frame.fused is None or isinstance(prompt.inputs, Tensor) or prompt.key:
            return 0
        pieces = -(-len(prompt.inputs) // PIECE_POSITIONS)
        return pieces if pieces * PIECE_POSITIONS <= JOINING_POSITIONS[-1] else 0

    @torch.inference_mode()
    def step(self, slots: Slots, prompts: Sequence[tuple[int, Prompt]] = ()) -> LaunchedFrame:
        """Launch the next frame of the given slots, which may include slots with new prompts.

        Other slots without a frame must have reached the event of `end_prefill`.

        Args:
            slots: Slot numbers [B].
            prompts: Slot and complete prompt of each prompt that the launch prefills. The prompts have together at most
                `JOINING_POSITIONS[-1]` positions in whole pieces (`joining_pieces`).

        Raises:
            UnreadableFrame: The frame cannot be retried. After other exceptions, the frame may be retried for any slot.
        """
        slot_cache, count = self.slot_cache, len(slots)
        with self.device.stream(Stream.FRAMES):
            pieces = self._write_prompts(prompts)
            # If a row has filled its slot, one more frame may be launched before the result is read. This frame writes
            # to the padding position, which is never read.
            reach = min(int(slot_cache.host_position[slots].max()) + 1, slot_cache.length)
            plain = self._is_lean and slot_cache.is_plain(slots)
            if pieces:
                (size, pieces), graph = self.graphs.fitting(GraphKind.DECODE_WITH_PROMPTS, count, pieces)
            else:
                (size, *_), graph = self._fitting(slots, GraphKind.DECODE, count, reach, plain=plain)
            requested_slots = self._row_buffers.next()
            host_slots = requested_slots.numpy()  # Writing to arrays takes less host time than writing to tensors.
            host_slots[:count], host_slots[count:size] = slots, slot_cache.slots
            rows = self._rows[:size]
            rows.copy_(requested_slots[:size], non_blocking=True)
            if self.frame.noise is not None:
                self._put_noise(self.frame.noise, slots)
            if graph is None and pieces:
                output = self.frame.next_with_prompts(rows, *self._joining_inputs.views(pieces, PIECE_POSITIONS))
            elif graph is None:
                output = self.frame.next(rows, slots, self._span_of(reach), plain=plain)
            else:
                graph.replay()
                output = graph.result
            memory = self._outputs.next()
            event = self._to_host(output, memory[:size])
        slot_cache.host_position[slots] += slot_cache.host_frame[slots] > 0
        slot_cache.host_frame[slots] += 1
        self._last_of.update(dict.fromkeys(slots.tolist(), event))
        return LaunchedFrame(slots, memory, event)

    def _write_prompts(self, prompts: Sequence[tuple[int, Prompt]]) -> int:
        """Write the inputs of prompts for a decode step, and return the number of pieces."""
        if not prompts:
            return 0
        self.slot_cache.write(slot for slot, _ in prompts)
        chunks = [(slot, 0, prompt.inputs) for slot, prompt in prompts]
        (batch,) = self._joining_batches.batches(chunks, self.slot_cache.slots)
        self._joining_inputs.write(batch)
        for slot, prompt in prompts:
            self.slot_cache.host_position[slot] = len(prompt.inputs)
        return batch.shape[0]

    def _span_of(self, reach: int) -> int:
        """Return the smallest span of at least `reach` positions, or the largest span."""
        return next((span for span in self._spans if span >= reach), self._spans[-1])

    def _put_noise(self, noise: HostNoise, slots: Slots) -> None:
        """Write the noise of the slots' next frames to the first rows of the batch."""
        slot_cache = self.slot_cache
        seeds = np.array([slot_cache.inputs[slot].seed for slot in slots.tolist()], np.int64)
        noise.write(seeds, slot_cache.host_frame[slots], slot_cache.drawing(slots))

    def _fitting(
        self, slots: Slots, work: GraphKind, *least: int, plain: bool = False
    ) -> tuple[Shape, Graph[Tensor] | None]:
        """Return the shape and the graph for a launch of some slots, or None as the graph.

        Only fused operations support embeddings of another checkpoint in graphs.
        """
        if self._is_lean:
            least = (*least, PLAIN if plain else SORTED)
        if self.frame.fused is None and self.slot_cache.host_cross_embedded[slots].any():
            return least, None
        return self.graphs.fitting(work, *least)

    def _to_host(self, output: Tensor, memory: Tensor, then: Callable[[], None] = lambda: None) -> Event:
        """Copy the output to the host, call `then`, and return an event after both."""
        try:
            self.device.to_host(output, memory)
            then()
            return self.device.record_event()
        except Exception as error:
            raise UnreadableFrame from error


class PromptBuffer:
    """Device buffer for the places and ids of the prompts in a launch, which one copy writes.

    Shapes: places [5, pieces] int64, see `PromptBatch`; ids [positions, 2] int64, text id and codec id.
    """

    def __init__(self, pieces: int, positions: int, device: torch.device) -> None:
        self._numbers = torch.zeros(5 * pieces + 2 * positions, device=device, dtype=torch.int64)
        self.places, self.ids = self._numbers[: 5 * pieces].view(5, -1), self._numbers[5 * pieces :].view(-1, 2)

    def views(self, pieces: int, size: int) -> tuple[Tensor, Tensor]:
        """Return the places and ids of a launch, with pieces of `size` positions.

        Shapes: results [5, pieces] and [pieces * size, 2].
        """
        return self.places[:, :pieces], self.ids[: pieces * size]

    def write(self, batch: PromptBatch) -> None:
        """Write the places and ids of a launch.

        Positions of embeddings get the text id `EMBEDDED`.
        """
        pieces, size = batch.shape
        ids = np.full((pieces * size, 2), (0, NO_CODEC))
        for at, part in batch.inputs:
            ids[at : at + len(part)] = (EMBEDDED, NO_CODEC) if isinstance(part, Tensor) else part
        places = np.zeros(self.places.shape, np.int64)
        places[:, :pieces] = batch.places
        numbers = np.concatenate((places.ravel(), ids.ravel()))
        copy_into(self._numbers[: len(numbers)], numbers)


class HostBufferRing:
    """Ring of host buffers for the results of launches.

    The number of buffers is larger than the number of launches in flight, so the device never writes to a buffer that
    is reused.
    """

    def __init__(self, buffers: list[Tensor]) -> None:
        self._buffers = buffers
        self._buffer_index = 0

    def next(self) -> Tensor:
        self._buffer_index = (self._buffer_index + 1) % len(self._buffers)
        return self._buffers[self._buffer_index]
