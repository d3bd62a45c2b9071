"""NPU device: Ascend's streams, graphs and fused attention (docs/npu.md).

This device has not been run on Ascend hardware. Tests check every call against the documented rules of torch_npu.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import URGENT_STREAMS, Event, Graph, SlotAttentionFunction, Stream
from runtime.device.npu_attention import (
    BLOCK_POSITIONS,
    BOTTOM_RIGHT,
    COMPRESSED_MASK_SIZE,
    EXPLICIT_MASK_MODE,
    NpuSlotAttention,
    check_attention,
)
from runtime.errors import DeviceUnavailable

log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

DEVICE_TYPE = "npu"
# Number of runs before a capture. In these runs, the operators choose their tiling and allocate workspace.
WARM_UP_RUNS = 2
HIGH, NORMAL = -1, 0  # Priorities of device streams.
TASK_QUEUE_VARIABLE = "TASK_QUEUE_ENABLE"  # Environment variable of torch_npu that controls how operators are launched.
NO_CAPTURES_VALUE = "2"  # Value that makes torch_npu refuse to capture graphs.


class NpuGraph(Graph[ResultT]):
    """Captured NPU graph and its output tensors."""

    def __init__(self, graph: Any, result: ResultT, capturing: Callable[[], bool]) -> None:
        self._graph = graph
        self.result = result
        self._capturing = capturing

    def replay(self) -> None:
        assert not self._capturing(), "a graph cannot be replayed while another graph is captured"
        self._graph.replay()


class NpuDevice(CpuDevice):
    """NPU device without fused operations.

    Ascend's fused norm, RoPE and SwiGLU are not used, because they cast in another order than the reference
    implementation (docs/npu.md).
    """

    name = "npu"
    dtype = torch.bfloat16
    holds_graphs = True
    max_in_flight = 1
    lean_sampling = True
    pads_prompts = True
    position_grain = BLOCK_POSITIONS

    def __init__(self, *, eager: bool = False) -> None:
        """Import torch_npu and initialize the device.

        Raises:
            DeviceUnavailable: torch_npu is not installed, cannot be loaded, or sees no device.
        """
        self._ops = _library()
        npu = self._npu = self._ops.npu
        if not npu.is_available():
            raise DeviceUnavailable(
                device="npu", why="torch_npu sees no NPU; is the driver installed and CANN's set_env.sh sourced?"
            )
        # Private formats and late (JIT) compilation are disabled, because operators that use them cannot be captured.
        npu.config.allow_internal_format = False
        npu.set_compile_mode(jit_compile=False)
        # HF32 is disabled, because its mantissa is shorter than that of float32 and could change the speech codes of
        # reference audio.
        npu.conv.allow_hf32 = False
        npu.matmul.allow_hf32 = False
        self.torch_device = torch.device(DEVICE_TYPE, npu.current_device())
        self.holds_graphs = not eager and _may_capture()
        self.streams = self._new_streams()
        # Captures use separate streams, because a capture must not record the work of other threads. A captured graph
        # may be replayed on any stream.
        self.capturing = self._new_streams()
        self._capture_lock = threading.Lock()  # Only one capture may run at a time.
        # Graphs of one stream never run at the same time, so they can share memory.
        self.pools = {stream: npu.graph_pool_handle() for stream in Stream}
        everything = torch.ones(COMPRESSED_MASK_SIZE, COMPRESSED_MASK_SIZE, device=self.torch_device, dtype=torch.bool)
        self._ahead_of_itself = everything.triu(1)
        self._ones: dict[tuple[int, torch.dtype], Tensor] = {}  # Tensors of ones, which `unit_norm` uses as weights.

    def enter_thread(self) -> None:
        self._npu.set_device(self.torch_device)

    def unit_norm(self, x: Tensor, eps: float) -> Tensor:
        """Return x / rms(x), computed with Ascend's RMSNorm operator and a weight of ones.

        The networks apply the real weight afterwards, because Ascend's operator would multiply before the cast.
        """
        key = x.shape[-1], x.dtype
        if key not in self._ones:
            self._ones[key] = torch.ones(x.shape[-1], device=self.torch_device, dtype=x.dtype)
        output: Tensor = self._ops.npu_rms_norm(x, self._ones[key], eps)[0]
        return output

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        k, v = k.contiguous(), v.contiguous()
        if seen is not None:
            return self._attend(q, k, v, ~seen, EXPLICIT_MASK_MODE)
        if q.shape[2] == 1:  # A single new position attends to all keys, so it needs no mask.
            return self._attend(q, k, v, None, EXPLICIT_MASK_MODE)
        return self._attend(q, k, v, self._ahead_of_itself, BOTTOM_RIGHT)

    def attend_slots(
        self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1
    ) -> SlotAttentionFunction:
        return NpuSlotAttention(self._attend, rows, starts, span, like, new)

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        return self._npu.stream(self.streams[stream])

    def record_event(self) -> Event:
        event = self._npu.Event()
        event.record()
        return event

    def wait_event(self, event: Event) -> None:
        self._npu.current_stream().wait_event(event)

    def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
        npu, capture_stream = self._npu, self.capturing[stream]
        assert not npu.is_current_stream_capturing(), "a capture cannot begin inside another capture"
        filled = self.record_event()
        with self._capture_lock, npu.stream(capture_stream):
            self.wait_event(filled)  # The caller's stream may still be writing the inputs.
            for _ in range(WARM_UP_RUNS):
                work()
            capture_stream.synchronize()
            graph = npu.NPUGraph()
            # The mode is thread_local, because other threads may use the device during the capture.
            with npu.graph(graph, pool=self.pools[stream], stream=capture_stream, capture_error_mode="thread_local"):
                result = work()
        return NpuGraph(graph, result, npu.is_current_stream_capturing)

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor, non_blocking=True)

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype).pin_memory()

    def free_bytes(self) -> int:
        npu, device = self._npu, self.torch_device
        cached_bytes = npu.memory_reserved(device) - npu.memory_allocated(device)
        return int(npu.mem_get_info(device)[0] + cached_bytes)

    def total_bytes(self) -> int:
        return int(self._npu.mem_get_info(self.torch_device)[1])

    def _new_streams(self) -> dict[Stream, Any]:
        return {stream: self._npu.Stream(priority=HIGH if stream in URGENT_STREAMS else NORMAL) for stream in Stream}

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, unseen: Tensor | None, mode: int) -> Tensor:
        """Return the attention of q over k and v with a mask.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, T, d]; unseen, True for masked keys: [2048, 2048] in mode 3, else
        [P, T] or [B, 1, P, T], or None; result [B, heads, P, d].

        Raises:
            DeviceUnavailable, AttentionRefused: See `check_attention`.
        """
        q = q.contiguous()
        check_attention(q, k, v, unseen, mode)
        heads, scale = q.shape[1], q.shape[3] ** -0.5
        output: Tensor
        # The inference operator does not support float32, so the training operator is used.
        if q.dtype is torch.float32:
            output = self._ops.npu_fusion_attention(
                q, k, v, heads, "BNSD", atten_mask=unseen, scale=scale, sparse_mode=mode
            )[0]
            return output
        output = self._ops.npu_fused_infer_attention_score(
            q,
            k,
            v,
            atten_mask=unseen,
            num_heads=heads,
            num_key_value_heads=k.shape[1],
            input_layout="BNSD",
            scale=scale,
            sparse_mode=mode,
        )[0]
        return output


def has_npu() -> bool:
    """True if torch_npu is installed and sees a device."""
    try:
        return bool(_library().npu.is_available())
    except DeviceUnavailable:
        return False


def _may_capture() -> bool:
    """True if torch_npu can capture graphs with this process's environment."""
    if os.environ.get(TASK_QUEUE_VARIABLE) != NO_CAPTURES_VALUE:
        return True
    log.warning(
        "%s is %s, so torch_npu cannot capture graphs and is several times slower. Unset it or set it to 1",
        TASK_QUEUE_VARIABLE,
        NO_CAPTURES_VALUE,
    )
    return False


def _library() -> Any:
    """Import torch_npu, which needs CANN's libraries.

    Raises:
        DeviceUnavailable: The import failed.
    """
    try:
        import torch_npu
    except (ImportError, OSError, RuntimeError) as error:
        why = f"torch_npu cannot be imported ({error}); install the extra npu and CANN, then source its set_env.sh"
        raise DeviceUnavailable(device="npu", why=why) from error
    return torch_npu
