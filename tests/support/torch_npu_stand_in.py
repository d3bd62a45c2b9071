"""Replacement for torch_npu that computes with PyTorch on the CPU.

The replacement raises an error if torch_npu would refuse an operation or compute an unintended result. Its tensors
have the device type ``npu`` (npu_backend.py), and its operators are in npu_operators.py. Names, defaults and rules are
from torch_npu 2.14.0: its wheel's operator table and Python sources (docs/npu.md).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support import npu_ai_cpu, npu_backend, npu_operators
from tests.support.npu_backend import NpuTensor, compute
from tests.support.npu_graphs import Capture
from tests.support.npu_operators import Operator, need

INDEXING = {"index", "index_put_", "_index_put_impl_", "index_select", "gather", "embedding"}
# Operators that do not launch a kernel.
FREE = {
    "empty",
    "empty_strided",
    "detach",
    "alias",
    "lift_fresh",
    "_unsafe_view",
    "_local_scalar_dense",
}


class NpuStream:
    """NPU stream whose work runs immediately.

    ``threads`` contains the threads that have used the stream.
    """

    def __init__(self, npu: StandInNpu, priority: int = 0) -> None:
        need(priority in (-1, 0), f"priorities of a stream are -1 and 0, not {priority}")
        self._npu, self.priority, self.waited_for = npu, priority, 0
        self.threads: set[int] = set()

    def wait_event(self, event: Event) -> None:
        need(event.recorded is not None, "an event that was never recorded stops nobody")
        self.waited_for += 1

    def synchronize(self) -> None:
        self._npu.host_waits()


class Event:
    def __init__(self, npu: StandInNpu) -> None:
        self._npu = npu
        self.recorded: NpuStream | None = None

    def record(self, stream: NpuStream | None = None) -> None:
        self._npu.needs_context()
        self.recorded = stream or self._npu.current_stream()

    def query(self) -> bool:
        self._npu.needs_context()
        return self.recorded is not None

    def synchronize(self) -> None:
        self._npu.host_waits()


class Setting:
    """Namespace of boolean settings.

    Unknown names raise an error.
    """

    def __init__(self, **defaults: bool | None) -> None:
        for name, value in defaults.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> bool:
        raise AttributeError(name)

    def __setattr__(self, name: str, value: object) -> None:
        need(hasattr(self, name) and isinstance(value, bool), f"no such setting: {name} = {value!r}")
        object.__setattr__(self, name, value)


class Graph:
    """Captured NPU graph of the torch_npu replacement."""

    def __init__(self) -> None:
        self.npu: StandInNpu | None = None
        self.capture: Capture | None = None
        self.pool: object = None

    def replay(self) -> None:
        need(self.npu is not None and self.capture is not None, "a graph is replayed that was never captured")
        assert self.npu is not None
        assert self.capture is not None
        self.npu.replays(self)
        self.capture.replay()


class StandInNpu:
    """Replacement of the module ``torch_npu.npu``, and driver of the device type ``npu``.

    ``launches`` counts operators by name. ``ai_cpu`` lists operators that run on the AI CPU with the reason. ``copied``
    is the number of bytes that indexing operators copy to make tensors contiguous.
    """

    NPUGraph = Graph

    def __init__(self) -> None:
        self.available, self.name = True, "Ascend910B4"
        self.config, self.compiles_on_the_way = Setting(allow_internal_format=True), True
        self.conv, self.matmul = Setting(allow_hf32=True), Setting(allow_hf32=False)
        self.free, self.total, self.reserved, self.allocated = 48 * 2**30, 64 * 2**30, 3 * 2**30, 2**30
        self.graphs: list[Graph] = []
        self.pools: list[object] = []
        self.capturing: Capture | None = None
        self.launches: Counter[str] = Counter()
        self.ai_cpu: list[tuple[str, str]] = []
        self.copied = 0
        self._default, self._mine = NpuStream(self), threading.local()
        self._replayed_on: dict[int, NpuStream] = {}  # Stream of the last replay, keyed by memory pool.
        self._lock = threading.Lock()

    # --- Functions of torch_npu.npu.

    def is_available(self) -> bool:
        return self.available

    def current_device(self) -> int:
        self._mine.has_context = True  # The first call in a process creates the context.
        return 0

    def set_device(self, device: object) -> None:
        need(isinstance(device, torch.device) and device.type == "npu", f"no NPU: {device}")
        self._mine.has_context = True

    def get_device_name(self, device: object = None) -> str:
        return self.name

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        return self.free, self.total

    def memory_reserved(self, device: object = None) -> int:
        return self.reserved

    def memory_allocated(self, device: object = None) -> int:
        return self.allocated

    def set_compile_mode(self, jit_compile: bool = False) -> None:
        self.compiles_on_the_way = jit_compile

    def Stream(self, device: object = None, priority: int = 0) -> NpuStream:
        return NpuStream(self, priority)

    def Event(self) -> Event:
        return Event(self)

    def current_stream(self, device: object = None) -> NpuStream:
        entered: list[NpuStream] = self._mine.__dict__.setdefault("streams", [])
        return entered[-1] if entered else self._default

    def synchronize(self, device: object = None) -> None:
        self.host_waits()

    @contextmanager
    def stream(self, stream: NpuStream) -> Iterator[None]:
        self.current_stream()
        self._mine.streams.append(stream)
        try:
            yield
        finally:
            self._mine.streams.pop()

    def is_current_stream_capturing(self) -> bool:
        return self.capturing is not None and self.capturing.stream is self.current_stream()

    def graph_pool_handle(self) -> object:
        self.pools.append(object())
        return self.pools[-1]

    @contextmanager
    def graph(
        self,
        npu_graph: Graph,
        pool: object = None,
        stream: NpuStream | None = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> Iterator[None]:
        need(isinstance(npu_graph, Graph), "a capture fills an NPUGraph")
        need(pool is None or pool in self.pools, "a pool that graph_pool_handle did not make")
        need(stream is not self._default, "the default stream cannot be captured")
        need(capture_error_mode in ("global", "thread_local", "relaxed"), f"no such mode: {capture_error_mode}")
        need(os.environ.get("TASK_QUEUE_ENABLE") != "2", "no capture while TASK_QUEUE_ENABLE is 2")
        need(
            self.config.allow_internal_format is False and not self.compiles_on_the_way,
            "private formats and operators compiled on the way run as aclop, which no capture takes",
        )
        stream = stream or NpuStream(self)
        others = stream.threads - {threading.get_ident()}
        need(not others, "a stream is captured that other threads work on: theirs would end up in the graph")
        with self._lock:
            need(self.capturing is None, "a capture begins within another, or while another thread captures")
            capture = self.capturing = npu_graph.capture = Capture(stream)
            npu_graph.npu, npu_graph.pool = self, pool
        try:
            with self.stream(stream), capture:
                yield
        finally:
            self.capturing = None
            stream.threads.discard(threading.get_ident())  # The capture has ended.
        self.graphs.append(npu_graph)

    # --- Checks of the simulated device and its driver.

    def launch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Check an NPU operator, compute it on the CPU, and return its result."""
        stream, capture = self.current_stream(), self.capturing
        name = func.overloadpacket.__name__
        if not func.is_view and name not in FREE:
            self.launches[name] += 1
            stream.threads.add(threading.get_ident())
            if (why := npu_ai_cpu.reason(func, args, kwargs)) is not None:
                self.ai_cpu.append((name, why))
            if name in INDEXING and not (args[0].is_contiguous()):
                self.copied += args[0].nbytes
        if capture is None:
            return compute(func, args, kwargs)
        if capture.thread != threading.get_ident():
            need(stream is not capture.stream, f"{func}: a stream is used that another thread captures")
            return compute(func, args, kwargs)
        need(stream is capture.stream, f"{func} goes to another stream than the one that is captured")
        return capture.write_down(func, args, kwargs)

    def operator(self, function: Operator, *args: Any, **kwargs: Any) -> Any:
        """Check an operator of torch_npu itself, compute it on the CPU, and return its result."""
        given = [part for part in (*args, *kwargs.values()) if isinstance(part, Tensor)]
        strange = next((part for part in given if not isinstance(part, NpuTensor)), None)
        need(strange is None, f"{function}: a tensor of the host's")
        return npu_backend.launch(function, args, kwargs)

    def needs_context(self) -> None:
        has = getattr(self._mine, "has_context", False)
        need(has, "this thread has no context of the device (107002): call set_device on it first")

    def host_waits(self) -> None:
        mine = self.capturing is not None and self.capturing.thread == threading.get_ident()
        need(not mine, "a host that waits within a capture waits for ever")
        self.needs_context()

    def replays(self, graph: Graph) -> None:
        stream = self.current_stream()
        need(not self.is_current_stream_capturing(), "a graph is replayed into another one's capture")
        stream.threads.add(threading.get_ident())
        if graph.pool is not None:
            before = self._replayed_on.setdefault(id(graph.pool), stream)
            need(before is stream, "graphs that share their memory are replayed on two streams")


class StandIn(ModuleType):
    """Replacement of the module ``torch_npu``.

    ``calls`` lists the operator, query shape, key shape and sparse mode of each attention call.
    """

    def __init__(self) -> None:
        super().__init__("torch_npu")
        self.npu = StandInNpu()
        self.calls: list[tuple[str, tuple[int, ...], tuple[int, ...], int]] = []
        self.npu_rms_norm = partial(self.npu.operator, npu_operators.npu_rms_norm)

    def npu_fused_infer_attention_score(self, query: Tensor, key: Tensor, value: Tensor, **kwargs: Any) -> Any:
        made = self.npu.operator(npu_operators.npu_fused_infer_attention_score, query, key, value, **kwargs)
        self.calls.append(("infer", tuple(query.shape), tuple(key.shape), kwargs.get("sparse_mode", 0)))
        return made

    def npu_fusion_attention(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        made = self.npu.operator(npu_operators.npu_fusion_attention, query, key, value, *args, **kwargs)
        self.calls.append(("fusion", tuple(query.shape), tuple(key.shape), kwargs.get("sparse_mode", 0)))
        return made


def install(patch: pytest.MonkeyPatch) -> StandIn:
    """Replace the module ``torch_npu`` by a new stand-in, and return the stand-in."""
    module = StandIn()
    patch.setitem(sys.modules, "torch_npu", module)
    patch.setattr(Tensor, "pin_memory", lambda tensor, device=None: tensor)
    npu_backend.register(module.npu, module.npu)
    return module
