"""A CPU that behaves as a card does: it does what it was asked for later, and tells of it later still.

Graphs and copies to the host stand in a queue a track. What is asked for on a track comes after what stands in its
queue, and in front of nothing else: a frame may run long after the host believes that its row has ended, unless
somebody lets the tracks wait for each other. What the host was to be told stays poison until it has been told.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Graph, Moment, Track

Made = TypeVar("Made")
POISON = -(10**12)  # out of every table's range


def poison(dtype: torch.dtype) -> int:
    """As far out as the type reaches."""
    return max(POISON, torch.iinfo(dtype).min)


class LateMoment:
    """After so much work on a track."""

    def __init__(self, device: LateDevice, track: Track | None, at: int) -> None:
        self.device, self.track, self.at = device, track, at

    def query(self) -> bool:
        return self.device.ask(self)

    def synchronize(self) -> None:
        self.device.tell(self.track, self.at)


class LateGraph(Graph[Made]):
    """The same work on the same memory, in its turn."""

    def __init__(self, device: LateDevice, work: Callable[[], Made]) -> None:
        self._device, self._work = device, work
        self.result = work()

    def replay(self) -> None:
        self._device.replayed += 1
        self._device.put(self._again)

    def _again(self) -> None:
        result = self._work()
        if isinstance(result, Tensor) and isinstance(self.result, Tensor):
            self.result.copy_(result)


class LateDevice(CpuDevice):
    """``chance``: that a question finds the work done. With 0 nothing is known until somebody waits for it."""

    holds_graphs = True
    ahead = 1

    def __init__(self, seed: int = 0, chance: float = 0.4) -> None:
        super().__init__()
        self.chance, self.replayed = chance, 0
        self.host: set[int] = set()  # storages that are no work of the device to look at
        self._luck = random.Random(seed)
        self._lock = threading.RLock()
        self._mine = threading.local()  # the track of each thread
        self._work: dict[Track | None, deque[Callable[[], None]]] = defaultdict(deque)
        self._copies: dict[Track | None, deque[tuple[int, Tensor, list[Tensor]]]] = defaultdict(deque)
        self._asked: dict[Track | None, int] = defaultdict(int)
        self._done: dict[Track | None, int] = defaultdict(int)
        self._told: dict[Track | None, int] = defaultdict(int)

    # --- what the engine asks

    @contextmanager
    def track(self, track: Track) -> Iterator[None]:
        before = self._current
        self._mine.track = track
        try:
            if before is None:
                with _InOrder(self):
                    yield
            else:
                yield
        finally:
            self._mine.track = before

    def mark(self) -> Moment:
        return LateMoment(self, self._current, self._asked[self._current])

    def wait(self, moment: Moment) -> None:
        assert isinstance(moment, LateMoment)
        self.put(lambda: self.do(moment.track, moment.at))

    def capture(self, work: Callable[[], Made], track: Track) -> Graph[Made]:
        return LateGraph(self, work)

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        snapshot: list[Tensor] = []
        into.fill_(poison(into.dtype))
        self.put(lambda: snapshot.append(tensor.clone()))
        with self._lock:
            at = self._asked[self._current]
            self._copies[self._current].append((at, into, snapshot))

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        memory = torch.full(shape, poison(dtype), dtype=dtype)
        self.host.add(memory.untyped_storage().data_ptr())
        return memory

    # --- what it does about it

    def put(self, work: Callable[[], None]) -> None:
        """Ask for work on the current track; without a track it is done at once."""
        with self._lock:
            track = self._current
            self._work[track].append(work)
            self._asked[track] += 1
            if track is None:
                self.tell(None, self._asked[None])

    def do(self, track: Track | None, upto: int) -> None:
        """Do the work of a track as far as asked."""
        with self._lock, torch.inference_mode():
            before, self._mine.works = self._works, True
            while self._done[track] < upto:
                self._done[track] += 1
                self._work[track].popleft()()
            self._mine.works = before

    def tell(self, track: Track | None, upto: int) -> None:
        """Do it, and let the host know."""
        with self._lock, torch.inference_mode():
            self.do(track, upto)
            copies = self._copies[track]
            while copies and copies[0][0] <= upto:
                _, into, snapshot = copies.popleft()
                into.copy_(snapshot[0])
            self._told[track] = max(self._told[track], upto)

    def ask(self, moment: LateMoment) -> bool:
        with self._lock:
            if self._told[moment.track] < moment.at and self._luck.random() < self.chance:
                self.tell(moment.track, moment.at)
            return self._told[moment.track] >= moment.at

    def catch_up(self) -> None:
        """What comes now comes after all that its track was asked for before."""
        if not self._works:
            self.do(self._current, self._asked[self._current])

    @property
    def _works(self) -> bool:
        return getattr(self._mine, "works", False)

    @property
    def _current(self) -> Track | None:
        return getattr(self._mine, "track", None)


class _InOrder(TorchDispatchMode):
    """Every operation outside of graphs is work of its track too."""

    def __init__(self, device: LateDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensors = [part for part in (*args, *(kwargs or {}).values()) if isinstance(part, Tensor)]
        if not tensors or any(part.untyped_storage().data_ptr() not in self._device.host for part in tensors):
            self._device.catch_up()
        return func(*args, **(kwargs or {}))
