"""Captured CUDA graphs of the audio decoder Code2Wav, one per shape.

A shape is a pair (number of frames, batch size).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Event, Stream
from runtime.engine.execution.graphs import Capture, GraphKind, GraphPool
from runtime.engine.execution.slots import copy_to_device
from runtime.errors import InvalidSetting
from runtime.model.code2wav_interface import ROW_COLUMNS, Code2WavNetwork

Shape = tuple[int, int]  # Number of frames per row, number of rows.


@dataclass(frozen=True, slots=True)
class GraphShapes:
    """Shapes of the Code2Wav graphs of one device stream: frame counts and batch sizes."""

    frames: tuple[int, ...]
    batches: tuple[int, ...]

    def up_to(self, rows: int) -> GraphShapes:
        """Return a copy without the batch sizes that are larger than needed for `rows` streams."""
        enough = next((batch for batch in self.batches if batch >= rows), self.batches[-1])
        return GraphShapes(self.frames, tuple(batch for batch in self.batches if batch <= enough))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple((frames, batch) for frames in self.frames for batch in self.batches)


GRAPH_SHAPES = {
    Stream.FIRST_AUDIO: GraphShapes((1, 2, 4), (1, 2, 4, 8)),
    # Shapes for the first frames of new requests. Their audio is decoded right after the prefill.
    Stream.PROMPTS: GraphShapes((1,), (1, 2, 4, 8)),
    Stream.AUDIO: GraphShapes((1, 2, 4, 8, 12, 16), (1, 2, 4, 8, 16, 32)),
}

GRAPH_KINDS = {
    Stream.FIRST_AUDIO: GraphKind.FIRST_AUDIO,
    Stream.PROMPTS: GraphKind.FOLLOWING_AUDIO,
    Stream.AUDIO: GraphKind.AUDIO,
}


def split_frames(frames: int, sizes: Sequence[int]) -> list[int]:
    """Split a number of frames into pieces whose lengths are in `frame_counts`.

    The largest pieces come first. A remainder that is smaller than every size becomes the last piece.

    Returns:
        The length of each piece in frames.
    """
    cut = []
    for size in sorted(sizes, reverse=True):
        while frames >= size:
            cut.append(size)
            frames -= size
    return [*cut, frames] if frames else cut


class Code2WavGraph:
    """Captured Code2Wav graph of one shape.

    Padding rows of a batch use the slot `spare`.
    """

    def __init__(
        self, network: Code2WavNetwork, device: Device, stream: Stream, frames: int, batch: int, groups: int, spare: int
    ) -> None:
        self._device = device
        self._stream = stream
        self._spare = spare
        self._numbers = device.host_memory(batch * (ROW_COLUMNS + frames * groups), dtype=torch.int32)
        self._numbers.zero_()
        # NumPy views, because writing to them takes less host time than writing to tensors.
        self._host_rows, self._host_codes = (part.numpy() for part in self._parts(self._numbers, frames, batch))
        self._host_rows[:, 0] = spare
        self._inputs = self._numbers.to(device.torch_device)
        self._rows, self._codes = self._parts(self._inputs, frames, batch)
        self._graph = device.capture(lambda: network.decode(self._rows, self._codes), stream)
        self._outputs = device.host_memory(*self._graph.result.shape, dtype=torch.int16)

    @staticmethod
    def _parts(numbers: Tensor, frames: int, batch: int) -> tuple[Tensor, Tensor]:
        return numbers[: ROW_COLUMNS * batch].view(batch, ROW_COLUMNS), numbers[ROW_COLUMNS * batch :].view(
            batch, frames, -1
        )

    def run(self, rows: NDArray[np.int64], codes: Tensor) -> Tensor:
        """Decode codes to audio with the graph, and wait for the result.

        The result is a view of a host buffer. The next call overwrites this buffer.

        Shapes: rows [b, 3]: slot, parity of the decoded chunks, decoded frames; codes [b, frames, Q]; result [b,
        samples + flags] int16, where nonzero flags mark audio that is not finite.
        """
        count = len(rows)
        self._host_rows[:count] = rows
        self._host_rows[count:] = self._spare, 0, 0
        self._host_codes[:count] = codes.numpy()
        with self._device.stream(self._stream):
            self._inputs.copy_(self._numbers, non_blocking=True)
            self._graph.replay()
            self._device.to_host(self._graph.result, self._outputs)
            event = self._device.record_event()
        event.synchronize()
        return self._outputs[:count]

    def begin(self, rows: NDArray[np.int64], codes: Tensor) -> tuple[Tensor, Event]:
        """Start to decode codes with the graph, without waiting for the result.

        The current device stream must be the stream of the graph.

        Shapes: rows [b, 3]; codes [b, frames, Q]; buffer [batch, samples + flags] int16. See `run`.

        Returns:
            A host buffer for the result, and an event. The buffer is valid after the event.
        """
        spare = np.tile([self._spare, 0, 0], (len(self._rows) - len(rows), 1))
        self._rows.copy_(copy_to_device(self._inputs.device, np.concatenate((rows, spare))))
        self._codes[: len(rows)] = codes
        self._graph.replay()
        outputs = self._device.host_memory(*self._graph.result.shape, dtype=torch.int16)
        self._device.to_host(self._graph.result, outputs)
        return outputs, self._device.record_event()


class Code2WavGraphs:
    """Captured Code2Wav graphs of all device streams."""

    def __init__(
        self,
        network: Code2WavNetwork,
        device: Device,
        groups: int,
        slots: int,
        spare: int,
        graphs: GraphPool,
        shapes: Sequence[Shape] = (),
    ) -> None:
        """Choose the shapes of the graphs, but capture no graph yet.

        Args:
            groups: Number of codes per frame.
            slots: Number of slots, which limits the batch sizes.
            spare: Slot for the padding rows of a batch.
            graphs: Pool that stores the captured graphs.
            shapes: Shapes that replace the default shapes of ``Stream.AUDIO``.

        Raises:
            InvalidSetting: A shape has more frames than the network supports in one call.
        """
        if too_long := [frames for frames, _ in shapes if frames > network.max_call_frames]:
            why = f"Code2Wav supports at most {network.max_call_frames} frames per call"
            raise InvalidSetting(name="sound_graphs", value=max(too_long), why=why)
        self._network = network
        self._device = device
        self._groups = groups
        self._spare = spare
        self._graphs = graphs
        self._shapes = {stream: family.up_to(slots).shapes for stream, family in GRAPH_SHAPES.items()}
        if shapes:
            self._shapes[Stream.AUDIO] = tuple(shapes)

    def captures(self) -> Iterator[Capture]:
        """Yield the description of every graph to capture, the largest shape first."""
        for stream, frames, batch in self._wanted():
            make = partial(Code2WavGraph, self._network, self._device, stream, frames, batch, self._groups, self._spare)
            yield Capture(GRAPH_KINDS[stream], (frames, batch), make)

    def warmup_functions(self) -> Iterator[Callable[[], object]]:
        """Yield one function per shape that calls the network with dummy inputs.

        `Device.precompile` calls the functions to compile all kernels.
        """
        device = self._device.torch_device
        for frames, batch in sorted({(frames, batch) for _, frames, batch in self._wanted()}):
            rows = torch.zeros((batch, ROW_COLUMNS), device=device, dtype=torch.int32)
            codes = torch.zeros((batch, frames, self._groups), device=device, dtype=torch.int32)
            yield partial(self._network.decode, rows, codes)

    def _wanted(self) -> list[tuple[Stream, int, int]]:
        """Return (stream, frames, batch size) of every graph, the largest shape first."""
        all_shapes = [(stream, *shape) for stream, shapes in self._shapes.items() for shape in shapes]
        return sorted(all_shapes, key=lambda shape: -shape[1] * shape[2])

    def frame_counts(self, stream: Stream) -> list[int]:
        """Return the numbers of frames for which a device stream has graphs, in ascending order."""
        return sorted({frames for frames, _ in self._graphs.of(GRAPH_KINDS[stream])})

    def max_batch_size(self, stream: Stream) -> int:
        return max(batch for _, batch in self._graphs.of(GRAPH_KINDS[stream]))

    def graph_for(self, stream: Stream, frames: int, rows: int) -> Code2WavGraph | None:
        """Return the smallest graph for `frames` frames of at least `rows` streams, or None."""
        buckets = self._graphs.of(GRAPH_KINDS[stream])
        fitting = [shape for shape in buckets if shape[0] == frames and shape[1] >= rows]
        return buckets[min(fitting)] if fitting else None
