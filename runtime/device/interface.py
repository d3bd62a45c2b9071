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
    """Streams of work on the device, the most urgent first. Work on one runs in order; streams run side by side."""

    FIRST_SOUND = "first sound"  # Also short urgent chunks.
    STARTS = "starts"  # Prompts and their first frames.
    VOICES = "voices"  # References of new voices.
    FRAMES = "frames"
    SOUND = "sound"


URGENT = (Stream.FIRST_SOUND, Stream.STARTS, Stream.VOICES)  # Work that precedes a request's first audio.


class Event(Protocol):
    """A point in a stream's work."""

    def query(self) -> bool:
        """True if the device has reached this event."""

    def synchronize(self) -> None:
        """Wait until it has; other threads may run meanwhile."""


class AttendSlots(Protocol):
    """Writes the new positions of some rows to their slots and attends over each row's own, one layer after another."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Shapes: q, result [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values [S, kv_heads, T, d]."""


class Graph(Protocol, Generic[Made]):
    """Work that was captured once: the same operations on the same memory, without a word from the host."""

    result: Made  # Tensors at fixed addresses, overwritten by every replay.

    def replay(self) -> None:
        """Do the work again, on the current stream."""


class Device(Protocol):
    """One device: its ways to attend, its lines of work, its graphs.

    The engine keeps the keys and values of a layer in one tensor [S, kv_heads, T, d], one slot a request.
    """

    name: str  # One of cpu, cuda, npu and mps.
    torch_device: torch.device
    dtype: torch.dtype  # Default dtype of talker and code predictor.
    holds_graphs: bool
    max_in_flight: int  # Frames that may be in flight when the next one is launched.
    # Whether sampling is kept to few operators: noise comes from the host, and batches that no row makes sort have
    # graphs of their own (runtime/engine/execution/sampling.py).
    lean_sampling: bool
    pads_prompts: bool  # True if prompt chunks are padded to fixed shapes for graphs.
    position_grain: int  # The positions of a slot in memory are a multiple of this.

    @property
    def unit_norm(self) -> Callable[[Tensor, float], Tensor] | None:
        """(x, eps) -> x divided by its root mean square, float32 inside, cast once; None: the networks' own."""

    def fused(self, dtype: torch.dtype) -> Fused | None:
        """Operations in one launch each for networks in ``dtype``; None: the networks' own, one after the other."""

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """Causal attention of the newest positions over themselves and those before them, as many in every row.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, N + P, d], the older ones first; seen [P, N + P] bool, where a
        query may look at other keys than those (in graphs, whose shapes are fixed); result [B, heads, P, d].
        """

    def attend_slots(self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1) -> AttendSlots:
        """Return attention for ``new`` positions of some rows, the first of each at ``starts``.

        Each position attends to its own slot up to itself.

        Args:
            span: upper bound of the positions that the longest row reaches.
            like: keys of a layer.
            new: more than one only if ``pads_prompts``.

        Shapes: rows, starts [B] int64.
        """

    def enter_thread(self) -> None:
        """Prepare the calling thread for its first use of the device."""

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        """Run the body's device work on this stream."""

    def mark(self) -> Event:
        """Return the point that the current stream has been given work up to."""

    def wait(self, event: Event) -> None:
        """Let the current stream go on only after an event of another stream; the host does not wait."""

    def precompile(self, works: Iterable[Callable[[], object]]) -> None:
        """Have ready what some works need that will be captured, if that takes long; what they compute is rubbish."""

    def capture(self, work: Callable[[], Made], stream: Stream) -> Graph[Made]:
        """Run work on a stream until it is warm, then hold it as a graph. All of it must be legal in a graph.

        It may read what the caller's stream still fills: it is run behind that.
        """

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        """Copy into memory from `host_memory` on the current stream, without waiting."""

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Memory of the host that the device can write on its own."""

    def free_bytes(self) -> int:
        """Memory that can still be taken."""

    def total_bytes(self) -> int:
        """Memory that there is, free or not."""
