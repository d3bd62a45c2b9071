"""A whole frame holds nothing that a graph cannot, and the lint would see it if it did."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device import Device, open_device
from runtime.device.npu import NpuDevice
from runtime.engine import sampling
from runtime.engine.frame import Frame
from runtime.engine.slots import SlotCache
from runtime.model.checkpoint import Checkpoint
from runtime.model.talker import Talker
from runtime.model.weights import on_meta
from tests.conftest import Loaded
from tests.support.graph_lint import NotForGraphs, hands_off, linted
from tests.support.torch_npu_stand_in import StandIn

META = torch.device("meta")
SLOTS, LENGTH = 6, 700


@pytest.fixture
def npu_on_meta(ascend: StandIn, monkeypatch: pytest.MonkeyPatch) -> NpuDevice:
    """The NPU's own path over tensors without data: what would be copied from the host shows."""
    monkeypatch.setattr("runtime.device.npu.KIND", "meta")
    monkeypatch.setattr(sampling, "WITHOUT_SHIFTS", ("meta",))
    return NpuDevice()


def frame_of(checkpoint: Checkpoint, device: Device, dtype: torch.dtype) -> Frame:
    with on_meta():
        talker = Talker(checkpoint.config).to(dtype)
    checkpoint = dataclasses.replace(checkpoint, talker=talker)
    return Frame(checkpoint, device, SlotCache(checkpoint.config, SLOTS, LENGTH, META, dtype), dtype, 8, 8)


@pytest.mark.parametrize("span", [512, None])
@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize(("spec", "dtype"), [("tiny", torch.bfloat16), ("tiny", torch.float32), ("odd", torch.float32)])
def test_the_whole_frame_can_be_held_by_a_graph(
    loaded: Loaded, npu_on_meta: NpuDevice, spec: str, dtype: torch.dtype, rows: int, span: int | None
) -> None:
    checkpoint = loaded(spec, "custom_voice")
    frame = frame_of(checkpoint, npu_on_meta, dtype)
    which = torch.zeros(rows, device=META, dtype=torch.int64)
    with torch.inference_mode(), linted() as lint:
        output = frame.next(which, span=span)
    assert output.shape == (rows, checkpoint.config.talker.num_code_groups + 2)
    assert lint.operators > 1000


def test_the_cpu_s_own_attention_could_not(speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes from row to row by lengths that the host reads, as it may."""
    device = open_device("cpu")
    device.torch_device = META
    monkeypatch.setattr(sampling, "WITHOUT_SHIFTS", ("meta",))
    frame = frame_of(speaker, device, torch.float32)
    with pytest.raises(NotForGraphs), torch.inference_mode(), linted():
        frame.next(torch.zeros(2, device=META, dtype=torch.int64))


def test_what_the_host_knows_of_the_rows_stays_out(speaker: Checkpoint, npu_on_meta: NpuDevice) -> None:
    """A shift would not be captured by older versions: the lint is what keeps it out."""
    frame = frame_of(speaker, npu_on_meta, torch.bfloat16)
    sampling.WITHOUT_SHIFTS = ()  # the fixture's patch puts it back
    with pytest.raises(NotForGraphs, match="rshift"), torch.inference_mode(), linted():
        frame.next(torch.zeros(1, device=META, dtype=torch.int64))


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, device=META)


FORBIDDEN: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "a branch": lambda x: 1 if x.any() else 0,
    "an index": lambda x: [0, 1][x.argmax()],
    "a list": lambda x: x.tolist(),
    "an array": lambda x: x.numpy(),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "nonzero": lambda x: x.nonzero(),
    "where without values": lambda x: torch.where(x > 0),
    "argwhere": lambda x: torch.argwhere(x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "a boolean index": lambda x: x[x > 0],
    "a boolean index beside another": lambda x: x[:, (x[0] > 0)],
    "writing by a boolean index": lambda x: x.__setitem__(x > 0, ones(3)),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "bincount": lambda x: x[0].long().bincount(),
    "repeats that depend on data": lambda x: x[0].repeat_interleave(x[0].long()),
    "multinomial": lambda x: x.multinomial(1),
    "randn": lambda x: x + torch.randn(4, 4, device=META),
    "bernoulli": lambda x: x.bernoulli(),
    "uniform": lambda x: x.uniform_(),
    "dropout": lambda x: F.dropout(x),
    "torch.tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0], device=META),
    "torch.as_tensor": lambda x: x + torch.as_tensor([1.0] * 4, device=META),
    "a copy from the host": lambda x: x + torch.arange(4).to(META),
    "a copy from the host in place": lambda x: x.copy_(torch.zeros(4, 4)),
    "a number of the host's in a tensor": lambda x: x * torch.full((), 2.0, device="cpu"),
    "a table of the host's": lambda x: torch.zeros(4, 4).to("meta")[x.long()],
    "a copy to the host": lambda x: x.to("cpu"),
    "a shift": lambda x: x.long() >> 1,
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_no_graph_holds_is_refused(name: str) -> None:
    with pytest.raises(NotForGraphs), torch.inference_mode(), linted():
        FORBIDDEN[name](ones(4, 4))


@pytest.mark.parametrize("name", ["item", "a branch", "nonzero", "a boolean index", "unique", "a list", "torch.tensor"])
def test_it_is_refused_over_tensors_with_data_too(name: str) -> None:
    with pytest.raises(NotForGraphs), linted("cpu"):
        FORBIDDEN[name](torch.ones(4, 4))


def test_what_a_graph_holds_is_let_through() -> None:
    x, rows = ones(4, 4), torch.zeros(3, device=META, dtype=torch.int64)
    with torch.inference_mode(), linted() as lint:
        x[rows] = x[rows] + 1
        x[:, -1].zero_()
        torch.where(x > 0, -torch.inf, x).sort().values.cumsum(-1).softmax(-1)
        x.repeat_interleave(2, dim=0)
        torch.arange(4, device=META) // 2**3
    assert lint.operators > 5


def test_only_the_thread_that_captures_keeps_its_hands_off() -> None:
    """Other engines of the same process, whose canaries speak when they like, go on."""
    with hands_off(), ThreadPoolExecutor(1) as another:
        assert another.submit(lambda: torch.tensor([1, 2]).tolist()).result() == [1, 2]
        with pytest.raises(NotForGraphs):
            torch.tensor([1, 2])
    assert torch.tensor([1, 2]).tolist() == [1, 2]
