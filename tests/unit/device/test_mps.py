"""Tests for the MPS device without an Apple GPU: each operation has a Metal kernel.

The list of kernels is a table of the installed PyTorch.
"""

from __future__ import annotations

import pytest
import torch

from runtime.device.cpu import CpuDevice
from runtime.device.mps import MpsDevice
from runtime.device.open_device import choose_dtype, choose_quantization, open_device
from runtime.errors import DeviceUnavailable, InvalidSetting
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.request import Sampling
from tests.conftest import FolderOf
from tests.support.brief import limit_code2wav_graphs as limit_code2wav_graphs
from tests.support.engines import cloned, custom_voice, engine_of, speak_together, streamed, voice_design
from tests.support.metal_table import Recorder, has_kernel


class Elsewhere(MpsDevice):
    """Fake MPS device whose memory and queue are those of the CPU."""

    record_event = CpuDevice.record_event
    free_bytes, total_bytes = CpuDevice.free_bytes, CpuDevice.total_bytes

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")


def recorded(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Record the operators of requests in all modes with all sampling settings.

    The checkpoints are not shared with other tests, because the C++ layers of a CPU release their weights.
    """

    def load(mode: str) -> Checkpoint:
        return load_checkpoint(str(folder_of("brief", mode)), torch.device("cpu"), torch.float32)

    # The networks select matrix multiplications by the device of their tensors (runtime/model/products.py).
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda tensor: False), raising=False)
    with Recorder() as recorder:
        for mode, request in (("custom_voice", custom_voice), ("voice_design", voice_design), ("base", cloned)):
            engine = engine_of(load(mode), device=Elsewhere(), slots=2)
            sampling = Sampling(temperature=0.9, top_k=20, top_p=0.9)
            both = [request(seed=1, sampling=sampling, max_frames=3), request(seed=2, max_frames=2)]
            for heard in speak_together(engine, *both):
                assert heard.pcm.size > 0
        engine = engine_of(load("custom_voice"), device=Elsewhere(), slots=2)
        speak_together(engine, streamed(max_frames=3))
    return recorder


@pytest.mark.slow
def test_every_operation_of_a_request_has_an_mps_kernel(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded(folder_of, monkeypatch)
    assert {"mm", "topk", "convolution", "index_put_"} <= recorder.names, "products, sampling, sound, slots"
    assert not {name for name in recorder.names if not has_kernel(name)}
    assert not recorder.wide, "Metal has no 64-bit floating point"


def test_kernel_table_distinguishes_known_and_unknown_operations() -> None:
    for name in ("mm", "add.Tensor", "_index_put_impl_", "index_put_"):
        assert has_kernel(name)
    for name in ("geqrf", "_weight_int8pack_mm_of_nobody", "segment_reduce"):
        assert not has_kernel(name)


def test_mps_is_opened_by_name_only_and_its_absence_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceUnavailable, match="Apple"):
        open_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    device = open_device("mps")
    assert (device.name, device.torch_device, device.holds_graphs) == ("mps", torch.device("mps"), False)
    assert open_device("auto").name != "mps"
    assert choose_dtype("auto", device) is torch.float32
    with pytest.raises(InvalidSetting, match="int8 needs a CPU"):
        choose_quantization("int8", device)
