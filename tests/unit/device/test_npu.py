"""Tests for the NPU device: opening, error messages, streams, graphs and memory."""

from __future__ import annotations

import builtins
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.device.interface import URGENT_STREAMS, Stream
from runtime.device.npu import HIGH, WARM_UP_RUNS, NpuDevice
from runtime.device.open_device import choose_dtype, open_device
from runtime.engine.execution.completion_waiter import CompletionWaiter
from runtime.errors import DeviceUnavailable
from runtime.model.layers import RMSNorm
from tests.support.npu_backend import NPU, Misuse
from tests.support.torch_npu_stand_in import StandIn


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # With this entry, an import of the module fails.


def test_npu_is_opened_by_name(ascend: StandIn) -> None:
    device = open_device("npu")
    assert (device.name, device.holds_graphs, device.max_in_flight, device.fused(torch.bfloat16)) == (
        "npu",
        True,
        1,
        None,
    )
    assert choose_dtype("auto", device) is torch.bfloat16
    assert ascend.npu.config.allow_internal_format is False
    assert not ascend.npu.compiles_on_the_way
    assert device.torch_device.type == "npu"
    assert not NpuDevice(eager=True).holds_graphs


@pytest.mark.usefixtures("not_installed")
def test_missing_torch_npu_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceUnavailable, match=r"install the extra npu and CANN"):
        open_device("npu")


def test_error_after_a_failed_torch_npu_import_contains_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def fails(name: str, *rest: Any) -> Any:
        if name == "torch_npu":
            raise OSError("libascendcl.so: cannot open shared object file")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fails)
    with pytest.raises(DeviceUnavailable, match=r"libascendcl\.so: cannot open"):
        open_device("npu")


def test_missing_npu_is_reported_with_its_own_error(ascend: StandIn) -> None:
    ascend.npu.available = False
    with pytest.raises(DeviceUnavailable, match="torch_npu sees no NPU"):
        open_device("npu")


def test_device_auto_prefers_cuda_to_npu_and_npu_to_cpu(ascend: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_device("auto").name == "npu"
    ascend.npu.available = False
    assert open_device("auto").name == "cpu"
    ascend.npu.available = True
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sys.modules[open_device.__module__], "CudaDevice", lambda **_: "the card")
    assert open_device("auto") == "the card"


@pytest.mark.usefixtures("not_installed")
def test_device_auto_selects_the_cpu_without_torch_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_device("auto").name == "cpu"


@pytest.mark.slow
def test_torch_npu_is_imported_only_if_an_npu_is_requested() -> None:
    """The test uses a separate process in which importing torch_npu fails."""
    program = (
        "import sys; sys.modules['torch_npu'] = None; import runtime.engine.engine, runtime.device.npu; print('in')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "in\n", done.stderr


def test_every_task_kind_has_a_stream_and_urgent_tasks_have_high_priority(npu: NpuDevice, ascend: StandIn) -> None:
    streams: Mapping[Stream, Any] = npu.streams
    assert len({id(stream) for stream in streams.values()}) == len(Stream)
    for stream in Stream:
        with npu.stream(stream):
            assert ascend.npu.current_stream() is streams[stream]
            assert (streams[stream].priority == HIGH) == (stream in URGENT_STREAMS)
    assert ascend.npu.current_stream() not in streams.values()


def test_stream_waits_for_the_event_of_another_stream(npu: NpuDevice) -> None:
    with npu.stream(Stream.PROMPTS):
        event: Any = npu.record_event()
    with npu.stream(Stream.FRAMES):
        npu.wait_event(event)
    assert event.query()
    assert event.recorded is npu.streams[Stream.PROMPTS]
    assert npu.streams[Stream.FRAMES].waited_for == 1


def test_convolutions_use_full_float32_precision(ascend: StandIn) -> None:
    """The default of torch_npu is a lower precision, which would change a reference's codes."""
    assert ascend.npu.conv.allow_hf32
    NpuDevice()
    assert not ascend.npu.conv.allow_hf32
    assert not ascend.npu.matmul.allow_hf32


def test_free_memory_includes_the_cache_of_the_allocator(npu: NpuDevice, ascend: StandIn) -> None:
    ascend.npu.free, ascend.npu.total = 20 * 2**30, 32 * 2**30
    ascend.npu.reserved, ascend.npu.allocated = 7 * 2**30, 4 * 2**30
    assert npu.free_bytes() == 23 * 2**30
    assert npu.total_bytes() == 32 * 2**30


def test_host_memory_is_pinned(npu: NpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    memory = npu.host_memory(2, 3, dtype=torch.int64)
    assert (memory.shape, memory.dtype, len(pinned)) == ((2, 3), torch.int64, 1)
    npu.to_host(torch.arange(6, device=NPU).view(2, 3), memory)
    assert memory.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_thread_that_waits_for_events_gets_a_device_context(npu: NpuDevice) -> None:
    """A thread without a device context cannot wait for an event."""
    event, woken = npu.record_event(), threading.Event()
    with ThreadPoolExecutor(1) as another, pytest.raises(Misuse, match="no context of the device"):
        another.submit(event.synchronize).result()
    waiter = CompletionWaiter(woken.set, npu.enter_thread)
    waiter.start([Stream.FRAMES])
    waiter.expect(Stream.FRAMES, event)
    waiter.close()
    assert woken.is_set()


def test_task_queue_mode_without_capture_support_disables_graphs(
    ascend: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    with caplog.at_level(logging.WARNING):
        assert not NpuDevice().holds_graphs
    assert "TASK_QUEUE_ENABLE is 2, so torch_npu cannot capture graphs" in caplog.text
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "1")
    assert NpuDevice().holds_graphs


def test_npu_graph_replays_its_operations_without_python_calls(npu: NpuDevice, ascend: StandIn) -> None:
    state, calls = torch.zeros(3, device=NPU), []

    def work() -> Tensor:
        calls.append(ascend.npu.is_current_stream_capturing())
        assert ascend.npu.current_stream() is npu.capturing[Stream.AUDIO]
        return state.add_(1) * 2

    with torch.inference_mode():
        graph = npu.capture(work, Stream.AUDIO)
        assert calls == [False] * WARM_UP_RUNS + [True]
        result, address = graph.result, graph.result.data_ptr()
        for _ in range(3):
            graph.replay()
    assert len(calls) == WARM_UP_RUNS + 1
    assert state.tolist() == [WARM_UP_RUNS + 1 + 3.0] * 3
    assert result.tolist() == [2 * (WARM_UP_RUNS + 1 + 3.0)] * 3
    assert graph.result.data_ptr() == address


def test_graph_cannot_be_captured_or_replayed_during_another_capture(npu: NpuDevice) -> None:
    state = torch.zeros(3, device=NPU)
    with torch.inference_mode():
        inner = npu.capture(lambda: state.add_(1), Stream.FRAMES)
        capture = npu._npu.is_current_stream_capturing

        def only_in_capture(kind: Any) -> Any:
            return lambda: kind() if capture() else None

        with pytest.raises(AssertionError, match="a capture cannot begin inside another capture"):
            npu.capture(only_in_capture(lambda: npu.capture(lambda: None, Stream.FRAMES)), Stream.FRAMES)
        with pytest.raises(AssertionError, match="cannot be replayed while another graph is captured"):
            npu.capture(only_in_capture(inner.replay), Stream.FRAMES)
        with pytest.raises(Misuse, match="another stream"):
            npu.capture(only_in_capture(lambda: elsewhere(npu, state)), Stream.FRAMES)
    assert not capture()


def elsewhere(npu: NpuDevice, state: Tensor) -> None:
    with npu.stream(Stream.AUDIO):
        state.add_(1)


def test_graphs_share_memory_within_a_stream_only(npu: NpuDevice, ascend: StandIn) -> None:
    assert len(set(map(id, npu.pools.values()))) == len(Stream) == len(ascend.npu.pools)


def test_device_work_of_another_thread_is_not_captured(npu: NpuDevice) -> None:
    """Another thread uses the same stream during the capture."""
    state, served = torch.zeros(3, device=NPU), torch.zeros(3, device=NPU)

    def serve() -> None:
        with torch.inference_mode(), npu.stream(Stream.FRAMES):
            served.add_(1)

    with ThreadPoolExecutor(1) as another, torch.inference_mode():
        another.submit(serve).result()

        def work() -> Tensor:
            another.submit(serve).result()
            return state.add_(1)

        graph = npu.capture(work, Stream.FRAMES)
        before = served.tolist()
        graph.replay()
    assert served.tolist() == before
    assert npu.capturing[Stream.FRAMES] is not npu.streams[Stream.FRAMES]


def test_capture_waits_for_the_stream_of_its_caller(npu: NpuDevice) -> None:
    """The caller's stream may still be writing the inputs of the captured work."""
    row = torch.zeros(3, device=NPU)
    with torch.inference_mode():
        npu.capture(lambda: row.add_(1), Stream.VOICES)
    assert npu.capturing[Stream.VOICES].waited_for == 1


def test_only_one_thread_captures_a_graph_at_a_time(npu: NpuDevice) -> None:
    state = [torch.zeros(3, device=NPU) for _ in range(4)]

    def capture(part: Tensor) -> None:
        npu.enter_thread()

        def work() -> Tensor:
            time.sleep(0.005)
            return part.add_(1)

        with torch.inference_mode():
            npu.capture(work, Stream.AUDIO)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(capture, state)) == [None] * 4


def test_rms_norm_casts_before_applying_the_weight(npu: NpuDevice, ascend: StandIn) -> None:
    """The networks round twice.

    The fused operator with a weight would round only once.
    """
    norm = RMSNorm(64, 1e-6).to(torch.bfloat16).requires_grad_(False)
    norm.weight.copy_(torch.randn(64, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(50, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    expected, weight = norm(x), norm.weight.to(NPU)
    assert torch.equal((weight * npu.unit_norm(x.to(NPU), norm.eps)).cpu(), expected)
    assert not torch.equal(ascend.npu_rms_norm(x.to(NPU), weight, norm.eps)[0].cpu(), expected)
