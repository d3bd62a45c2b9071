"""Interface between engine and device. The CPU's implementation is the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from runtime.device.fused import Fused

Made = TypeVar("Made")


class Stream(StrEnum):
    """Streams of work on the device, the most urgent first.

    Work of one stream runs in order; streams run in parallel.
    """

    FIRST_AUDIO = "first sound"  # Also short urgent chunks.
    STARTS = "starts"  # Prompts and their first frames.
    VOICES = "voices"  # References of new voices.
    FRAMES = "frames"
    AUDIO = "sound"


URGENT = (Stream.FIRST_AUDIO, Stream.STARTS, Stream.VOICES)  # Work that precedes a request's first audio.


class Event(Protocol):
    """A point in a stream's work."""

    def query(self) -> bool:
        """True if the device has reached this event."""

    def synchronize(self) -> None:
        """Block until the device has reached this event, without holding the interpreter lock."""


class AttendSlots(Protocol):
    """Attention over slots, called once per layer: writes the rows' new positions to their slots, then attends."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend.

        Shapes: q, result [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values [S, kv_heads, T, d].
        """


class Graph(Protocol, Generic[Made]):
    """Captured work: the same operations on the same memory, replayed without Python."""

    result: Made  # Tensors at fixed addresses, overwritten by every replay.

    def replay(self) -> None:
        """Run the captured work on the current stream."""


class Device(Protocol):
    """Device interface: attention, streams, graphs and memory.

    The engine stores the keys and values of a layer in tensors [S, kv_heads, T, d], one slot per request.
    """

    name: str  # One of cpu, cuda, npu and mps.
    torch_device: torch.device
    dtype: torch.dtype  # Default dtype of talker and code predictor.
    holds_graphs: bool
    max_in_flight: int  # Frames that may be in flight when the next one is launched.
    # True to sample with few operators: the host provides noise, and batches without rows that need a sort have their
    # own graphs (runtime/engine/execution/sampling.py).
    lean_sampling: bool
    pads_prompts: bool  # True if prompt chunks are padded to fixed shapes for graphs.
    position_grain: int  # The positions of a slot in memory are a multiple of this.

    @property
    def unit_norm(self) -> Callable[[Tensor, float], Tensor] | None:
        """Return f(x, eps) = x / rms(x) in float32 with one cast, or None to use the networks' own norm."""

    def fused(self, dtype: torch.dtype) -> Fused | None:
        """Return fused operations for networks in `dtype`, or None to use the networks' own operations."""

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """Compute causal attention of the newest positions over themselves and the earlier ones.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, N + P, d], the older ones first; seen [P, N + P] bool, an
        explicit mask for graphs, whose shapes are fixed; result [B, heads, P, d].
        """

    def attend_slots(self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1) -> AttendSlots:
        """Return the attention of `new` positions of some rows, the first of each at `starts`.

        Each position attends to its own slot up to itself.

        Args:
            span: An upper bound of the rows' positions.
            like: The keys of a layer, as an example of shape and dtype.
            new: New positions per row, more than one only if `pads_prompts`.

        Shapes: rows, starts [B] int64.
        """

    def enter_thread(self) -> None:
        """Prepare the calling thread for its first use of the device."""

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        """Run the body's device work on this stream."""

    def mark(self) -> Event:
        """Return an event after all work queued on the current stream so far."""

    def wait(self, event: Event) -> None:
        """Make the current stream wait for an event of another stream; the host does not wait."""

    def precompile(self, works: Iterable[Callable[[], object]]) -> None:
        """Compile the kernels of work that will be captured, if that takes long.

        The results of the work are undefined.
        """

    def capture(self, work: Callable[[], Made], stream: Stream) -> Graph[Made]:
        """Warm up work on a stream, then capture it as a graph. All its operations must be legal in a graph.

        The work may read data that the caller's stream still writes: it runs after that.
        """

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        """Copy into memory from `host_memory` on the current stream, without waiting."""

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Allocate host memory that the device can write asynchronously."""

    def free_bytes(self) -> int:
        """Return the available memory in bytes."""

    def total_bytes(self) -> int:
        """Return the total memory in bytes."""
