"""The NPU device uses Ascend's streams, graphs and fused attention (docs/npu.md).

Nothing here has run on Ascend hardware; tests hold every call to the rules that torch_npu writes down.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from runtime.device.cpu import CpuDevice
from runtime.device.interface import URGENT, Event, Graph, Stream
from runtime.errors import DeviceUnavailable

Made = TypeVar("Made")

KIND = "npu"  # torch's name of the device type
WARM_UPS = 2  # runs before a capture: operators choose their tiling and workspace then
HIGH, NORMAL = -1, 0  # priorities of a stream

# Modes of a mask. A mask is True where a query may NOT look, the opposite of torch's own attention.
EXPLICIT = 0  # a mask for every query and key, or none: every query sees every key
BOTTOM_RIGHT = 3  # causal, the last query sees the last key; mode 2 aligns the first with the first and is never used
COMPRESSED = 2048  # width and height of the one mask that mode 3 takes, for any number of queries and keys

FRACTAL_Z, FRACTAL_NZ = 4, 29  # formats of convolution weights and of matrices
NO_FRACTAL_Z = "Ascend950"  # names of chips whose convolutions take plain weights only


class NpuGraph(Graph[Made]):
    """A graph and what it leaves."""

    def __init__(self, graph: Any, result: Made, capturing: Callable[[], bool]) -> None:
        self._graph = graph
        self.result = result
        self._capturing = capturing

    def replay(self) -> None:
        assert not self._capturing(), "a graph cannot be replayed into another one's capture"
        self._graph.replay()


class NpuDevice(CpuDevice):
    """``fused`` is None: the operators that do a norm, RoPE or SwiGLU at once cast in another order (docs/npu.md)."""

    name = "npu"
    dtype = torch.bfloat16
    holds_graphs = True
    max_in_flight = 1

    def __init__(self, *, eager: bool = False) -> None:
        """
        Raises:
            DeviceUnavailable: torch_npu is not installed, cannot be loaded, or sees no device.
        """
        self._ops = _library()
        npu = self._npu = self._ops.npu
        if not npu.is_available():
            raise DeviceUnavailable(
                device="npu", why="torch_npu sees no NPU; is the driver installed and CANN's set_env.sh sourced?"
            )
        # Private formats and operators that are compiled at their first use cannot be captured.
        npu.config.allow_internal_format = False
        npu.set_compile_mode(jit_compile=False)
        self.torch_device = torch.device(KIND, npu.current_device())
        self.holds_graphs = not eager
        self.streams = {stream: npu.Stream(priority=HIGH if stream in URGENT else NORMAL) for stream in Stream}
        # Graphs of one stream never run at the same time, so they share their memory.
        self.pools = {stream: npu.graph_pool_handle() for stream in Stream}
        everything = torch.ones(COMPRESSED, COMPRESSED, device=self.torch_device, dtype=torch.bool)
        self._ahead_of_itself = everything.triu(1)

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        k, v = k.contiguous(), v.contiguous()
        if seen is not None:
            return self._attend(q, k, v, ~seen, EXPLICIT)
        if q.shape[2] == 1:  # the newest position sees every key
            return self._attend(q, k, v, None, EXPLICIT)
        return self._attend(q, k, v, self._ahead_of_itself, BOTTOM_RIGHT)

    def decode_attention(self, q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        # The operators take lengths from the host alone, and a graph would keep them; a mask lies on the device.
        unseen = torch.arange(keys.shape[2], device=q.device) >= lengths[:, None]
        # What an earlier owner left behind a row's end may be NaN, and 0 * NaN is NaN: zero it.
        left = unseen[:, None, :, None]
        k, v = (part[rows].contiguous().masked_fill_(left, 0) for part in (keys, values))
        return self._attend(q, k, v, unseen[:, None, None], EXPLICIT)

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        return self._npu.stream(self.streams[stream])

    def mark(self) -> Event:
        event = self._npu.Event()
        event.record()
        return event

    def wait(self, event: Event) -> None:
        self._npu.current_stream().wait_event(event)

    def capture(self, work: Callable[[], Made], stream: Stream) -> Graph[Made]:
        npu, own = self._npu, self.streams[stream]
        assert not npu.is_current_stream_capturing(), "no capture can begin within another"
        with npu.stream(own):
            for _ in range(WARM_UPS):
                work()
            own.synchronize()
            graph = npu.NPUGraph()
            # Other threads may use the device meanwhile (a voice that is read): only this one is held to the rules.
            with npu.graph(graph, pool=self.pools[stream], stream=own, capture_error_mode="thread_local"):
                result = work()
        return NpuGraph(graph, result, npu.is_current_stream_capturing)

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor, non_blocking=True)

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype).pin_memory()

    def free_bytes(self) -> int:
        return int(self._npu.mem_get_info(self.torch_device)[0])

    def lay_out(self, network: nn.Module) -> None:
        takes_z = NO_FRACTAL_Z not in self._npu.get_device_name(self.torch_device)
        for module in network.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d) and module.groups == 1 and takes_z:
                module.weight.data = self._ops.npu_format_cast(module.weight.data.contiguous(), FRACTAL_Z)
            elif isinstance(module, nn.Linear) and module.weight.dtype is not torch.float32:
                module.weight.data = self._ops.npu_format_cast(module.weight.data.contiguous(), FRACTAL_NZ)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, unseen: Tensor | None, mode: int) -> Tensor:
        """Attention of q over k and v under a mask.

        Shapes: q [B, heads, P, d]; k, v [B, kv_heads, T, d]; unseen, True where a query may not look: [2048, 2048]
        in mode 3, else [P, T] or [B, 1, P, T], or None; result [B, heads, P, d].
        """
        q = q.contiguous()
        check_attention(q, k, v, unseen, mode)
        heads, scale = q.shape[1], q.shape[3] ** -0.5
        if q.dtype is torch.float32:  # which the operator for inference does not take
            return self._ops.npu_fusion_attention(
                q, k, v, heads, "BNSD", atten_mask=unseen, scale=scale, sparse_mode=mode
            )[0]
        return self._ops.npu_fused_infer_attention_score(
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


def check_attention(q: Tensor, k: Tensor, v: Tensor, unseen: Tensor | None, mode: int) -> None:
    """Stop before an operator could read a mask otherwise than it was meant: it would answer, and wrongly.

    Raises:
        DeviceUnavailable: the checkpoint has heads that the operators do not take.
    """
    assert q.dim() == k.dim() == v.dim() == 4, "queries, keys and values are [B, heads, positions, d]"
    B, heads, P, d = q.shape
    kv_heads, T = k.shape[1:3]
    assert k.shape == v.shape == (B, kv_heads, T, d), f"keys {tuple(k.shape)}, values {tuple(v.shape)} of {B} rows"
    assert q.dtype is k.dtype is v.dtype, "queries, keys and values have one dtype"
    assert all(part.is_contiguous() for part in (q, k, v)), "the operators take contiguous tensors only"
    if heads % kv_heads or heads > 64 * kv_heads or heads > 256:
        why = f"its attention takes up to 256 heads, up to 64 to a key head; this checkpoint has {heads} and {kv_heads}"
        raise DeviceUnavailable(device="npu", why=why)
    if d > 512 or (d % 16 and q.dtype is not torch.float32):
        why = f"its attention takes heads of up to 512 in sixteens; this checkpoint's have {d} (float32 takes any)"
        raise DeviceUnavailable(device="npu", why=why)
    assert mode in (EXPLICIT, BOTTOM_RIGHT), f"mode {mode} aligns queries and keys at the first of each, or is unknown"
    if unseen is None:
        assert (mode, P) == (EXPLICIT, 1), "without a mask every query sees every key, also those after it"
        return
    assert unseen.dtype is torch.bool, "True masks here: a mask of numbers may mean the opposite"
    assert unseen.is_contiguous(), "the operators take contiguous masks only"
    if mode == BOTTOM_RIGHT:
        assert unseen.shape == (COMPRESSED, COMPRESSED), f"mode 3 takes one mask of {COMPRESSED} by {COMPRESSED}"
        assert 1 < P <= T, "mode 3 counts from the last query and the last key: no more queries than keys"
    else:
        assert unseen.shape in ((P, T), (B, 1, P, T)), f"a mask {tuple(unseen.shape)} for {P} queries and {T} keys"


def sees_npu() -> bool:
    """Whether torch_npu is there and sees a device."""
    try:
        return bool(_library().npu.is_available())
    except DeviceUnavailable:
        return False


def _library() -> Any:
    """torch_npu, which needs CANN's libraries to be loaded.

    Raises:
        DeviceUnavailable: it cannot be imported.
    """
    try:
        import torch_npu
    except (ImportError, OSError, RuntimeError) as error:
        why = f"torch_npu cannot be imported ({error}); install voicewright[npu] and CANN, then source its set_env.sh"
        raise DeviceUnavailable(device="npu", why=why) from error
    return torch_npu
