"""CPU device that executes work asynchronously, like a GPU.

Each stream has a queue of graphs and copies to the host. Only the work of one stream is ordered, so a frame may run
long after its row has ended, unless one stream waits for the other. Host memory contains an invalid value until the
host has observed the end of the copy that fills it.
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
from runtime.device.interface import Event, Graph, Stream

ResultT = TypeVar("ResultT")
INVALID_NUMBER = -(10**12)  # Content of host memory before a copy fills it. It is not a valid index.


def invalid_number(dtype: torch.dtype) -> int:
    """Return `INVALID_NUMBER`, or the minimum of an integer dtype that cannot hold the number."""
    return INVALID_NUMBER if dtype.is_floating_point else max(INVALID_NUMBER, torch.iinfo(dtype).min)


class LateEvent:
    """Event that is complete when the first `at` operations of a stream have run."""

    def __init__(self, device: LateDevice, stream: Stream | None, at: int) -> None:
        self.device, self.stream, self.at = device, stream, at

    def query(self) -> bool:
        return self.device.query(self)

    def synchronize(self) -> None:
        if not self.device.is_held:
            self.device.publish_until(self.stream, self.at)


class LateGraph(Graph[ResultT]):
    """Fake device graph whose replay adds the captured work to the queue of the stream."""

    def __init__(self, device: LateDevice, work: Callable[[], ResultT]) -> None:
        self._device, self._work = device, work
        self.result = work()

    def replay(self) -> None:
        self._device.replayed += 1
        self._device.enqueue(self._again)

    def _again(self) -> None:
        result = self._work()
        if isinstance(result, Tensor) and isinstance(self.result, Tensor):
            self.result.copy_(result)


class LateDevice(CpuDevice):
    """CPU device that executes work later than it is queued.

    A query of an event completes the work with probability `chance`. With probability 0, only a wait completes it.
    """

    holds_graphs = True
    max_in_flight = 1

    def __init__(self, seed: int = 0, chance: float = 0.4) -> None:
        super().__init__()
        self.chance, self.replayed = chance, 0
        self.is_held = False
        self.host: set[int] = set()  # Data pointers of host memory that may be read without waiting.
        self._luck = random.Random(seed)
        self._lock = threading.RLock()
        self._mine = threading.local()  # Current stream of each thread.
        self._work: dict[Stream | None, deque[Callable[[], None]]] = defaultdict(deque)
        self._copies: dict[Stream | None, deque[tuple[int, Tensor, list[Tensor]]]] = defaultdict(deque)
        self.asked: dict[Stream | None, int] = defaultdict(int)
        self._done: dict[Stream | None, int] = defaultdict(int)
        self._done_upto: dict[Stream | None, int] = defaultdict(int)

    # --- Methods of the device interface, which the engine calls.

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before = self._current
        self._mine.stream = stream
        try:
            if before is None:
                with _InOrder(self):
                    yield
            else:
                yield
        finally:
            self._mine.stream = before

    def record_event(self) -> Event:
        return LateEvent(self, self._current, self.asked[self._current])

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, LateEvent)
        self.enqueue(lambda: self.run_until(event.stream, event.at))

    def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
        return LateGraph(self, work)

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        snapshot: list[Tensor] = []
        into.fill_(invalid_number(into.dtype))
        self.enqueue(lambda: snapshot.append(tensor.clone()))
        with self._lock:
            at = self.asked[self._current]
            self._copies[self._current].append((at, into, snapshot))

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        memory = torch.full(shape, invalid_number(dtype), dtype=dtype)
        self.host.add(memory.untyped_storage().data_ptr())
        return memory

    # --- Methods that simulate the asynchronous execution.

    def enqueue(self, work: Callable[[], None]) -> None:
        """Queue work on the current stream.

        Work without a stream runs immediately.
        """
        with self._lock:
            stream = self._current
            self._work[stream].append(work)
            self.asked[stream] += 1
            if stream is None:
                self.publish_until(None, self.asked[None])

    def run_until(self, stream: Stream | None, upto: int) -> None:
        """Run the first `upto` operations in the queue of a stream."""
        with self._lock, torch.inference_mode():
            before, self._mine.works = self._works, True
            while self._done[stream] < upto:
                self._done[stream] += 1
                self._work[stream].popleft()()
            self._mine.works = before

    def publish_until(self, stream: Stream | None, upto: int) -> None:
        """Run the first `upto` operations of a stream, and make their results visible to the host."""
        with self._lock, torch.inference_mode():
            self.run_until(stream, upto)
            copies = self._copies[stream]
            while copies and copies[0][0] <= upto:
                _, into, snapshot = copies.popleft()
                into.copy_(snapshot[0])
            self._done_upto[stream] = max(self._done_upto[stream], upto)

    def query(self, event: LateEvent) -> bool:
        with self._lock:
            if self._done_upto[event.stream] < event.at and self._luck.random() < self.chance:
                self.publish_until(event.stream, event.at)
            return self._done_upto[event.stream] >= event.at

    @contextmanager
    def held(self) -> Iterator[None]:
        """Complete no work within the ``with`` block, and let waits return immediately."""
        chance, self.chance, self.is_held = self.chance, 0.0, True
        try:
            yield
        finally:
            self.chance, self.is_held = chance, False

    def catch_up(self) -> None:
        """Run all queued work of the current stream."""
        if not self._works:
            self.run_until(self._current, self.asked[self._current])

    @property
    def _works(self) -> bool:
        return getattr(self._mine, "works", False)

    @property
    def _current(self) -> Stream | None:
        return getattr(self._mine, "stream", None)


class _InOrder(TorchDispatchMode):
    """Dispatch mode that runs the stream's queued work before operators outside of graphs."""

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
