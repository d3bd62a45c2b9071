"""The NPU as a device: opened or refused in a sentence, streams, graphs, memory, formats of weights."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from runtime.device.interface import URGENT, Stream
from runtime.device.npu import HIGH, WARM_UPS, NpuDevice
from runtime.device.open_device import choose_dtype, open_device
from runtime.engine import sampling
from runtime.errors import DeviceUnavailable
from tests.support.npu_graphs import Misuse
from tests.support.torch_npu_stand_in import StandIn


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # an import of it fails


def test_it_is_opened_by_its_name(ascend: StandIn) -> None:
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
    assert not NpuDevice(eager=True).holds_graphs


@pytest.mark.usefixtures("not_installed")
def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceUnavailable, match=r"install voicewright\[npu\] and CANN"):
        open_device("npu")


def test_a_library_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def fails(name: str, *rest: Any) -> Any:
        if name == "torch_npu":
            raise OSError("libascendcl.so: cannot open shared object file")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fails)
    with pytest.raises(DeviceUnavailable, match=r"libascendcl\.so: cannot open"):
        open_device("npu")


def test_a_machine_without_a_device_says_so(ascend: StandIn) -> None:
    ascend.npu.available = False
    with pytest.raises(DeviceUnavailable, match="torch_npu sees no NPU"):
        open_device("npu")


def test_auto_takes_a_card_before_an_npu_and_an_npu_before_the_cpu(
    ascend: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_device("auto").name == "npu"
    ascend.npu.available = False
    assert open_device("auto").name == "cpu"
    ascend.npu.available = True
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sys.modules[open_device.__module__], "CudaDevice", lambda **_: "the card")
    assert open_device("auto") == "the card"


@pytest.mark.usefixtures("not_installed")
def test_auto_is_the_cpu_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_device("auto").name == "cpu"


def test_nothing_imports_the_library_before_an_npu_is_asked_for() -> None:
    """In a process of its own, where the library's import would raise."""
    program = (
        "import sys; sys.modules['torch_npu'] = None; import runtime.engine.engine, runtime.device.npu; print('in')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "in\n", done.stderr


def test_every_track_has_a_stream_and_first_things_come_first(npu: NpuDevice, ascend: StandIn) -> None:
    streams: Mapping[Stream, Any] = npu.streams
    assert len({id(stream) for stream in streams.values()}) == len(Stream)
    for stream in Stream:
        with npu.stream(stream):
            assert ascend.npu.current_stream() is streams[stream]
            assert (streams[stream].priority == HIGH) == (stream in URGENT)
    assert ascend.npu.current_stream() not in streams.values()


def test_a_track_waits_for_the_moment_of_another(npu: NpuDevice) -> None:
    with npu.stream(Stream.STARTS):
        event: Any = npu.mark()
    with npu.stream(Stream.FRAMES):
        npu.wait(event)
    assert event.query()
    assert event.recorded is npu.streams[Stream.STARTS]
    assert npu.streams[Stream.FRAMES].waited_for == 1


def test_memory_is_counted_and_pinned(npu: NpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    memory = npu.host_memory(2, 3, dtype=torch.int64)
    assert (memory.shape, memory.dtype, len(pinned)) == ((2, 3), torch.int64, 1)
    npu.to_host(torch.arange(6).view(2, 3), memory)
    assert memory.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert npu.free_bytes() == 48 * 2**30


def test_a_graph_does_its_work_again_without_python(npu: NpuDevice, ascend: StandIn) -> None:
    state, calls = torch.zeros(3), []

    def work() -> Tensor:
        calls.append(ascend.npu.is_current_stream_capturing())
        assert ascend.npu.current_stream() is npu.streams[Stream.SOUND]
        return state.add_(1) * 2

    with torch.inference_mode():
        graph = npu.capture(work, Stream.SOUND)
        assert calls == [False] * WARM_UPS + [True]
        result, address = graph.result, graph.result.data_ptr()
        for _ in range(3):
            graph.replay()
    assert len(calls) == WARM_UPS + 1
    assert state.tolist() == [WARM_UPS + 1 + 3.0] * 3
    assert result.tolist() == [2 * (WARM_UPS + 1 + 3.0)] * 3
    assert graph.result.data_ptr() == address


def test_no_graph_begins_or_is_replayed_within_another(npu: NpuDevice) -> None:
    state = torch.zeros(3)
    with torch.inference_mode():
        inner = npu.capture(lambda: state.add_(1), Stream.FRAMES)
        capture = npu._npu.is_current_stream_capturing

        def only_in_capture(what: Any) -> Any:
            return lambda: what() if capture() else None

        with pytest.raises(AssertionError, match="no capture can begin within another"):
            npu.capture(only_in_capture(lambda: npu.capture(lambda: None, Stream.FRAMES)), Stream.FRAMES)
        with pytest.raises(AssertionError, match="cannot be replayed into another one's capture"):
            npu.capture(only_in_capture(inner.replay), Stream.FRAMES)
        with pytest.raises(Misuse, match="another stream"):
            npu.capture(only_in_capture(lambda: elsewhere(npu, state)), Stream.FRAMES)
    assert not capture()


def elsewhere(npu: NpuDevice, state: Tensor) -> None:
    with npu.stream(Stream.SOUND):
        state.add_(1)


def test_graphs_of_a_track_share_their_memory_and_those_of_two_do_not(npu: NpuDevice, ascend: StandIn) -> None:
    assert len(set(map(id, npu.pools.values()))) == len(Stream) == len(ascend.npu.pools)


class Code2WavScheduler(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, dtype=dtype)
        self.up = nn.ConvTranspose1d(8, 4, 4, stride=2, dtype=dtype)
        self.grouped = nn.Conv1d(4, 4, 7, groups=4, dtype=dtype)
        self.linear = nn.Linear(4, 4, dtype=dtype)


@pytest.mark.parametrize(
    ("chip", "dtype", "formats"),
    [
        ("Ascend910B4", torch.float32, {"conv": "FRACTAL_Z", "up": "FRACTAL_Z"}),
        ("Ascend910_9382", torch.bfloat16, {"conv": "FRACTAL_Z", "up": "FRACTAL_Z", "linear": "FRACTAL_NZ"}),
        ("Ascend950PR_9599", torch.bfloat16, {"linear": "FRACTAL_NZ"}),
    ],
)
def test_weights_are_stored_as_the_chip_reads_them(
    npu: NpuDevice, ascend: StandIn, chip: str, dtype: torch.dtype, formats: dict[str, str]
) -> None:
    ascend.npu.name = chip
    network = Code2WavScheduler(dtype)
    network.conv.weight.data = network.conv.weight.data.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    before = {name: part.detach().clone() for name, part in network.named_parameters()}
    npu.lay_out(network)
    laid = {name: ascend.formats.get(part.weight.data_ptr()) for name, part in network.named_children()}
    assert {name: form for name, form in laid.items() if form} == formats
    for name, part in network.named_parameters():
        assert torch.equal(part, before[name])


def test_noise_without_shifts_is_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = torch.tensor([0, 1, 7, 2**32, 2**40 + 3, 2**63 - 1])
    frames = torch.tensor([0, 1, 2, 500, 2**31, 4096])
    with_shifts = sampling.gumbel_noise(seeds, frames, 16, 500)
    monkeypatch.setattr(sampling, "WITHOUT_SHIFTS", ("cpu",))
    assert torch.equal(sampling.gumbel_noise(seeds, frames, 16, 500), with_shifts)
