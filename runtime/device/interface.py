"""Interface between the engine and a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from runtime.device.fused import Fused

ResultT = TypeVar("ResultT")


class Stream(StrEnum):
    """Device streams, in order of priority: the most urgent stream is first.

    Work on one stream runs in order. Different streams run in parallel.
    """

    FIRST_AUDIO = "first audio"  # First chunk of each request, and other urgent chunks of a few frames.
    PROMPTS = "prompts"  # Prompts and the first frame of each request.
    VOICES = "voices"  # Encoding of reference audio for new voices.
    FRAMES = "frames"
    AUDIO = "audio"


# Streams of the work that is done before the first audio of a request.
URGENT_STREAMS = (Stream.FIRST_AUDIO, Stream.PROMPTS, Stream.VOICES)


class Event(Protocol):
    """Marker in the work queue of a stream, like a CUDA event."""

    def query(self) -> bool:
        """True if the device has finished all work before the event."""

    def synchronize(self) -> None:
        """Block the thread until the device has finished all work before the event.

        The GIL is released in the meantime.
        """


class SlotAttentionFunction(Protocol):
    """Function that computes attention over the slots of the KV cache, called once per layer."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Write the new keys and values to the slots, and return the attention output.

        Shapes: q, result [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values [S, kv_heads, T, d].
        """


class Graph(Protocol, Generic[ResultT]):
    """Captured graph of device operations, which can be replayed without Python code."""

    result: ResultT  # Tensors with the results. Every replay writes to the same addresses.

    def replay(self) -> None:
        """Run the captured operations on the current stream."""


class Device(Protocol):
    """Interface of a device: attention, streams, graphs and memory.

    The engine stores the keys and values of a layer in tensors [S, kv_heads, T, d], with one slot per request.
    """

    name: str  # One of cpu, cuda, npu and mps.
    torch_device: torch.device
    dtype: torch.dtype  # Default dtype of the talker and code predictor.
    holds_graphs: bool
    max_in_flight: int  # Maximum number of launched frames whose results are not read yet.
    # True if sampling should use few operators. The host then provides the noise, and there are separate graphs for
    # batches in which no row needs a sort (runtime/engine/execution/sampling.py).
    lean_sampling: bool
    pads_prompts: bool  # True if prompts are padded to the fixed shapes of captured graphs.
    position_grain: int  # The number of positions of a slot must be a multiple of this number.

    @property
    def unit_norm(self) -> Callable[[Tensor, float], Tensor] | None:
        """Return a function f(x, eps) = x / rms(x), or None if the device has no such operator.

        The function computes in float32 and casts the result once.
        """

    def fused(self, dtype: torch.dtype) -> Fused | None:
        """Return the fused operations for networks in `dtype`, or None if there are none."""

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """Compute the causal attention of the P newest positions over all N + P positions.

        Args:
            seen: Attention mask, True for positions to attend to, or None for the causal mask. Graphs have fixed shapes
                and need a mask.

        Shapes: q, result [B, heads, P, d]; k, v [B, kv_heads, N + P, d], the oldest position first; seen [P, N + P]
        bool.
        """

    def attend_slots(
        self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1
    ) -> SlotAttentionFunction:
        """Return an attention function for the `new` next positions of each row.

        Each position attends to itself and to all earlier positions of its slot.

        Args:
            rows: Slot number of each row.
            starts: First new position of each row.
            span: Upper bound of the rows' positions.
            like: Key cache of any layer, which defines shape and dtype.
            new: Number of new positions per row. A number above 1 is only supported if `pads_prompts` is True.

        Shapes: rows, starts [B] int64.
        """

    def enter_thread(self) -> None:
        """Prepare the calling thread to use the device.

        Every thread must call this method once.
        """

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        """Return a context manager that queues the device work of a ``with`` block on `stream`."""

    def record_event(self) -> Event:
        """Record an event on the current stream, after all work that is queued there."""

    def wait_event(self, event: Event) -> None:
        """Make the current stream wait for an event of another stream.

        The host does not wait.
        """

    def precompile(self, functions: Iterable[Callable[[], object]]) -> None:
        """Compile the kernels that the given functions launch, before their graphs are captured.

        Each function is called once. Its results are undefined and must not be used.
        """

    def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
        """Capture the device work of a function as a graph, after a warm-up call.

        All operations of the function must support graphs. The capture starts after the work that is queued on the
        caller's stream.

        Args:
            stream: Stream on which the graph will be replayed.
        """

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        """Queue a copy of a tensor to host memory, and do not wait for it.

        Args:
            into: Destination tensor, allocated with `host_memory`.
        """

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Allocate a tensor in host memory that the device can write asynchronously."""

    def free_bytes(self) -> int:
        """Return the available device memory in bytes."""

    def total_bytes(self) -> int:
        """Return the total device memory in bytes."""
