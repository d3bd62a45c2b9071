"""CUDA device with streams, CUDA graphs and optional Triton kernels."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device import kernels
from runtime.device.cpu import CpuDevice
from runtime.device.fused import Fused
from runtime.device.interface import Event, Graph, Stream

log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")


class CudaGraph(Graph[ResultT]):
    """Captured CUDA graph and its output tensors."""

    def __init__(self, graph: torch.cuda.CUDAGraph, result: ResultT) -> None:
        self._graph = graph
        self.result = result

    def replay(self) -> None:
        self._graph.replay()


class CudaDevice(CpuDevice):
    name = "cuda"
    dtype = torch.bfloat16
    holds_graphs = True
    max_in_flight = 1
    unit_norm = None  # `None` selects the norm that the networks compute with torch operations.

    def __init__(self, *, eager: bool = False) -> None:
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        self.holds_graphs = not eager
        self._kernels = _kernels()
        self._streams = _streams()
        self._capturing = _streams()
        # Graphs of one stream never run at the same time, so they can share memory.
        self._pools = {stream: torch.cuda.graph_pool_handle() for stream in Stream}
        # Captures run one at a time on separate streams. Otherwise a capture could record the work of other threads.
        self._capture_lock = threading.Lock()

    def fused(self, dtype: torch.dtype) -> Fused | None:
        # The kernels are only used for bfloat16. They would not be faster than torch for float32, which does not use
        # tensor cores.
        return self._kernels if dtype is torch.bfloat16 else None

    def decode_attention(self, q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        B, heads, _, d = q.shape
        kv_heads = keys.shape[1]
        seen = (torch.arange(keys.shape[2], device=q.device) < lengths[:, None])[:, None]
        grouped = q.view(B, kv_heads, heads // kv_heads, d)
        # Keys and values after the end of a row may be NaN from an earlier request. They are set to zero, because 0 *
        # NaN is NaN.
        values = values[rows].masked_fill_(~seen[..., None], 0)
        out = F.scaled_dot_product_attention(grouped, keys[rows], values, attn_mask=seen[:, None])
        return out.reshape(B, heads, 1, d)

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        return torch.cuda.stream(self._streams[stream])

    def record_event(self) -> Event:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, torch.cuda.Event)
        torch.cuda.current_stream().wait_event(event)

    def precompile(self, functions: Iterable[Callable[[], object]]) -> None:
        if self._kernels is None:
            return
        from runtime.device.kernels.compiling import compile_all

        began = time.monotonic()
        try:
            with self._capture_lock:  # No other checkpoint may launch kernels in the meantime.
                count = compile_all(functions)
            log.info("%d kernels compiled in %.1f s", count, time.monotonic() - began)
        except Exception:
            log.exception("kernels could not be compiled in parallel; each is compiled at its first launch")
        # Wait for this thread's stream here, because a later graph capture does not wait for it.
        self.record_event().synchronize()

    def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
        capture_stream = self._capturing[stream]  # A graph inherits the priority of its capture stream.
        filled = self.record_event()
        with self._capture_lock, torch.cuda.stream(capture_stream):
            self.wait_event(filled)  # The caller's stream may still be writing the inputs.
            work()  # The first run compiles kernels and lets libraries choose their algorithms.
            capture_stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            # The mode is thread_local, because other threads may use the GPU during the capture.
            with torch.cuda.graph(graph, self._pools[stream], capture_stream, capture_error_mode="thread_local"):
                result = work()
        return CudaGraph(graph, result)

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor, non_blocking=True)

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, pin_memory=True)

    def free_bytes(self) -> int:
        cached_bytes = torch.cuda.memory_reserved(self.torch_device) - torch.cuda.memory_allocated(self.torch_device)
        return torch.cuda.mem_get_info(self.torch_device)[0] + cached_bytes

    def total_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.torch_device)[1]


# Priority of each stream. A lower number is a higher priority. AUDIO and FRAMES have the same priority, because a
# finished row occupies a slot until its audio is decoded.
PRIORITIES = {Stream.FIRST_AUDIO: -3, Stream.PROMPTS: -2, Stream.VOICES: -2, Stream.FRAMES: -1, Stream.AUDIO: -1}


def _streams() -> dict[Stream, torch.cuda.Stream]:
    """Create a CUDA stream for each `Stream`."""
    return {stream: torch.cuda.Stream(priority=PRIORITIES[stream]) for stream in Stream}  # type: ignore[no-untyped-call]


def _kernels() -> Fused | None:
    """Return the Triton kernels, or None if Triton is not available."""
    if not kernels.available():
        log.warning("Triton is not available: PyTorch operations are used, which are several times slower")
        return None
    from runtime.device.kernels import dispatch

    return dispatch
