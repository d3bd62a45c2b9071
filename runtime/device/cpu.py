"""CPU device in plain torch, the reference implementation for all other devices."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device.fused import Fused
from runtime.device.host_memory import memory_bytes
from runtime.device.interface import Event, Graph, SlotAttentionFunction, Stream

ResultT = TypeVar("ResultT")
# Arguments: queries, keys, values, slot numbers of the batch, lengths.
DecodeAttention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

# Torch's default number of threads. It is read at import, before any code changes it.
CORE_COUNT = torch.get_num_threads()
# Minimum number of parameters of a large network. In smaller networks, a second thread does not save time.
SMALL = 100_000_000


@dataclass(frozen=True, slots=True)
class ThreadCounts:
    """Numbers of CPU threads for frames and prompts (`frames`) and for Code2Wav (`sound`)."""

    frames: int
    sound: int


def choose_threads(networks: Iterable[nn.Module]) -> ThreadCounts:
    """Return the numbers of CPU threads to use for a list of networks.

    If all networks are small, frames and Code2Wav get one thread each. The reason is that a frame has a hundred matrix
    products, and waking a second thread takes about 0.1 ms for each of them. The talker of the embedded voice has 9
    million parameters, and the smallest published talker has several hundred million.
    """
    return ThreadCounts(1, 1) if are_small_networks(networks) else split_cores(CORE_COUNT)


def are_small_networks(networks: Iterable[nn.Module]) -> bool:
    """True if every network has fewer than 100 million parameters."""
    return all(sum(part.numel() for part in network.parameters()) < SMALL for network in networks)


def split_cores(cores: int) -> ThreadCounts:
    """Divide `cores` CPU cores between frames and Code2Wav.

    Code2Wav gets a quarter of the cores, and frames get the others. Each gets at least one.
    """
    code2wav_threads = max(1, cores // 4)
    return ThreadCounts(max(1, cores - code2wav_threads), code2wav_threads)


def is_x86() -> bool:
    """True on x86-64, the only platform on which the fbgemm and oneDNN kernels are tested.

    Torch for arm64 also lists fbgemm, but has no int8 products. Its float16 products crash on CPUs without SVE.
    """
    return platform.machine().lower() in ("x86_64", "amd64")


def has_bfloat16_instructions() -> bool:
    """True if the CPU has bfloat16 instructions, which are twice as fast as float32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def unit_norm(x: Tensor, eps: float) -> Tensor:
    """Return x / rms(x) with a single operator, bitwise equal to the networks' RMSNorm.

    Shapes: x, result [..., K].
    """
    return F.rms_norm(x, x.shape[-1:], None, eps)


class CompletedEvent:
    """Event of a synchronous device, on which all earlier work is already complete."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Return immediately, because all earlier work is complete."""


class CachedSlotAttention:
    """Attention over the slots of the KV cache for devices with a `decode_attention` function.

    Implements ``SlotAttentionFunction``. Attention reads only the first `span` positions of each slot.
    """

    def __init__(self, attend: DecodeAttention, rows: Tensor, starts: Tensor, span: int) -> None:
        self._attend = attend
        self._rows, self._positions, self._lengths = rows, starts, starts + 1
        self._span = span

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        keys[self._rows, :, self._positions] = k[:, :, 0].to(keys.dtype)
        values[self._rows, :, self._positions] = v[:, :, 0].to(values.dtype)
        keys, values = keys[:, :, : self._span], values[:, :, : self._span]
        return self._attend(q, keys, values, self._rows, self._lengths)


class CpuDevice:
    name = "cpu"
    dtype = torch.float32
    holds_graphs = False
    max_in_flight = 0
    lean_sampling = False
    pads_prompts = False
    position_grain = 1
    unit_norm: Callable[[Tensor, float], Tensor] | None = staticmethod(unit_norm)

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")

    def fused(self, dtype: torch.dtype) -> Fused | None:
        return None

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        new, total = q.shape[2], k.shape[2]
        if seen is None and new == total:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        if seen is None and new > 1:
            seen = torch.ones(new, total, device=q.device, dtype=torch.bool).tril(total - new)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    def attend_slots(
        self, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int = 1
    ) -> SlotAttentionFunction:
        assert new == 1, "only a prompt has several positions at once, and prompts run one at a time"
        return CachedSlotAttention(self.decode_attention, rows, starts, span)

    def enter_thread(self) -> None:
        """Do nothing, because every thread may use the CPU."""

    def decode_attention(self, q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        """Compute the attention of each row's newest position over all positions of the row.

        Shapes: q, result [B, heads, 1, d]; keys, values [S, kv_heads, T, d], of the dtype of q or float8_e4m3fn; rows
        [B] int64, slot numbers; lengths [B] int64, numbers of positions including the newest.
        """
        B, heads, _, d = q.shape
        kv_heads = keys.shape[1]
        # Query heads that share a key head are treated as query positions, which avoids a mask and a copy of the keys.
        # Rows are computed one by one, because in a batch the length of the longest row would change the last bits of
        # the other rows.
        grouped = q.view(B, kv_heads, heads // kv_heads, d)
        out = [
            F.scaled_dot_product_attention(
                grouped[row : row + 1],
                keys[slot, None, :, :length].to(q.dtype),
                values[slot, None, :, :length].to(q.dtype),
            )
            for row, (slot, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True))
        ]
        return torch.cat(out).view(B, heads, 1, d)

    def stream(self, stream: Stream) -> AbstractContextManager[None]:
        return nullcontext()

    def record_event(self) -> Event:
        return CompletedEvent()

    def wait_event(self, event: Event) -> None:
        """Return immediately, because all earlier work is complete."""

    def precompile(self, functions: Iterable[Callable[[], object]]) -> None:
        """Do nothing, because no kernels are compiled."""

    def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
        raise NotImplementedError("graphs are not supported on a CPU")

    def to_host(self, tensor: Tensor, into: Tensor) -> None:
        into.copy_(tensor)

    def host_memory(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype)

    def free_bytes(self) -> int:
        return memory_bytes()[1]

    def total_bytes(self) -> int:
        return memory_bytes()[0]
