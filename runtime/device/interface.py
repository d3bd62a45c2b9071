"""Interface between the engine and a device."""

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
    """Device streams, the most urgent first.

    Work on one stream runs in order. Different streams run in parallel.
    """

    FIRST_AUDIO = "first audio"  # Also used for short urgent chunks.
    PROMPTS = "prompts"  # Prompts and first frames.
    VOICES = "voices"  # Encoding of new voices.
    FRAMES = "frames"
    AUDIO = "audio"


URGENT_STREAMS = (Stream.FIRST_AUDIO, Stream.PROMPTS, Stream.VOICES)  # Work that is needed for a request's first audio.


class Event(Protocol):
    """Point in the work of a stream."""

    def query(self) -> bool:
        """True if the device has reached this event."""

    def synchronize(self) -> None:
        """Block until the device has reached this event.

        The GIL is released.
        """


class AttendSlots(Protocol):
    """Attention over slots, called once per layer.

    It writes the new positions to the slots first.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Write the new keys and values, then compute attention.

        Shapes: q, result [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values [S, kv_heads, T, d].
        """


class Graph(Protocol, Generic[Made]):
    """Captured graph: the same operations on the same memory, replayed without Python."""

    result: Made  # Tensors at fixed addresses. Every replay overwrites them.

    def replay(self) -> None:
        """Run the captured work on the current stream."""


class Device(Protocol):
    """Device interface: attention, streams, graphs and memory.

    The engine stores the keys and values of a layer in tensors [S, kv_heads, T, d], one slot per request.
    """

    name: str  # One of cpu, cuda, npu and mps.
    torch_device: torch.device
    dtype: torch.dtype  # Default dtype of the talker and code predictor.
    holds_graphs: bool
    max_in_flight: int  # Maximum number of frames that are launched and not read yet.
    # True if sampling should use few operators. The host then provides the noise, and there are separate graphs for
    # batches in which no row needs a sort (runtime/engine/execution/sampling.py).
    lean_sampling: bool
    pads_prompts: bool  # True if prompts are padded to fixed shapes, for which there are graphs.
    position_grain: int  # A slot's number of positions in memory is a multiple of this number.

    @property
    def unit_norm(self) -> Callable[[Tensor, float], Tensor] | None:
        """Return f(x, eps) = x / rms(x) in float32 with one cast.

        None: the networks use their own norm.
        """

    def fused(self, dtype: torch.dtype) -> Fused | None:
        """Return fused operations for networks in `dtype`.

        None: the networks use their own operations.
        """

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """Compute causal attention of the newest positions over all positions so far.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, N + P, d], the older ones first; seen [P, N + P] bool, an
        explicit mask, needed in graphs because their shapes are fixed; result [B, heads, P, d].
        """

    def attend_slots(self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1) -> AttendSlots:
        """Return an attention function for `new` positions of some rows, starting at `starts`.

        Each position attends to the positions of its own slot up to itself.

        Args:
            span: An upper bound of the rows' positions.
            like: Keys of any layer, for their shape and dtype.
            new: Number of new positions per row; more than one only if `pads_prompts`.

        Shapes: rows, starts [B] int64.
        """

    def enter_thread(self) -> None:
        """Prepare the calling thread for its first use of the device."""

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        """Context manager that runs device work of its body on this stream."""

    def mark(self) -> Event:
        """Return an event after all work that was queued on the current stream."""

    def wait(self, event: Event) -> None:
        """Make the current stream wait for an event of another stream.

        The host does not wait.
        """

    def precompile(self, works: Iterable[Callable[[], object]]) -> None:
        """Compile the kernels of functions that will be captured, if this takes long.

        The functions are called, and their results are undefined.
        """

    def capture(self, work: Callable[[], Made], stream: Stream) -> Graph[Made]:
        """Warm up a function on a stream, then capture it as a graph.

        A graph must support all its operations.

        It runs after the work that is queued on the caller's stream.
        """

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        """Copy a tensor to memory from `host_memory` on the current stream, without waiting."""

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Allocate host memory that the device can write asynchronously."""

    def free_bytes(self) -> int:
        """Return the available memory in bytes."""

    def total_bytes(self) -> int:
        """Return the total memory in bytes."""
