"""What the engine asks of a device. The CPU's answer is the readable truth that the others are tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from runtime.device.fused import Fused

Made = TypeVar("Made")


class Track(StrEnum):
    """A line of work on the device, the most urgent first. Work on one runs in order; tracks run beside each other."""

    FIRST_SOUND = "first sound"
    STARTS = "starts"  # prompts and their first frames
    FRAMES = "frames"
    SOUND = "sound"


URGENT = (Track.FIRST_SOUND, Track.STARTS)  # who waits for these hears nothing yet


class Moment(Protocol):
    """A point in a track's work."""

    def query(self) -> bool:
        """Whether the device has come there."""

    def synchronize(self) -> None:
        """Wait until it has; other threads may run meanwhile."""


class Graph(Protocol, Generic[Made]):
    """Work that was captured once: the same operations on the same memory, without a word from the host."""

    result: Made  # tensors at fixed addresses, written anew by every replay

    def replay(self) -> None:
        """Do the work again, on the current track."""


class Device(Protocol):
    """One device: its ways to attend, its lines of work, its graphs.

    The engine keeps the keys and values of a layer in an arena [S, kv_heads, T, d], one slot a request.
    """

    name: str  # cpu, cuda or npu
    torch_device: torch.device
    dtype: torch.dtype  # what talker and code predictor use unless told otherwise
    holds_graphs: bool
    ahead: int  # frames that may be under way when the next one is begun

    def fused(self, dtype: torch.dtype) -> Fused | None:
        """Operations in one launch each for networks in ``dtype``; None: the networks' own, one after the other."""

    def attend_prompt(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """Causal attention of the newest positions over themselves and those before them, as many in every row.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, N + P, d], the older ones first; seen [P, N + P] bool, where a
        query may look at other keys than those (in graphs, whose shapes are fixed); result [B, heads, P, d].
        """

    def attend_rows(self, q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        """Attention of each row's newest position over its own slot, up to its own length and no further.

        Shapes: q [B, heads, 1, d]; keys, values [S, kv_heads, T, d]; rows, lengths [B] int64, lengths count the
        newest position; result [B, heads, 1, d].
        """

    def track(self, track: Track) -> AbstractContextManager[None]:
        """What is asked of the device within goes to this track."""

    def mark(self) -> Moment:
        """The point that the current track has been given work up to."""

    def wait(self, moment: Moment) -> None:
        """Let the current track go on only after a moment of another track; the host does not wait."""

    def rehearse(self, works: Iterable[Callable[[], object]]) -> None:
        """Have ready what some works need that will be captured, if that takes long; what they compute is rubbish."""

    def capture(self, work: Callable[[], Made], track: Track) -> Graph[Made]:
        """Run work on a track until it is warm, then hold it as a graph. All of it must be legal in a graph."""

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        """Copy into memory from `host_memory` on the current track, without waiting."""

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Memory of the host that the device can write on its own."""

    def free_bytes(self) -> int:
        """Memory that can still be taken."""

    def total_bytes(self) -> int:
        """Memory that there is, whoever holds it."""

    def lay_out(self, network: nn.Module) -> None:
        """Store the weights of a loaded network in formats of the device's own; their values stay."""
