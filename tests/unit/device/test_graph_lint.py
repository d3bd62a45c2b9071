"""Tests that all operators of a frame can be captured in a device graph.

Other tests check that GraphLint detects operators that cannot be captured.
"""

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
from runtime.engine.execution.frame import Frame
from runtime.engine.execution.sampling import gumbel_noise
from runtime.engine.execution.slots import SlotCache
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.checkpoints.weights import on_meta
from runtime.model.talker import Talker
from tests.support.graph_lint import NotForGraphs, hands_off, linted
from tests.support.npu_backend import NPU
from tests.support.torch_npu_stand_in import StandIn
from tests.unit.device.conftest import LoadedOnNpu

META = torch.device("meta")
SLOTS, LENGTH = 6, 700


def frame_of(checkpoint: Checkpoint, device: Device, dtype: torch.dtype) -> Frame:
    where, grain = device.torch_device, device.position_grain
    slot_cache = SlotCache(checkpoint.config, SLOTS, LENGTH, where, dtype, grain)
    return Frame(checkpoint.config, checkpoint.talker, device, slot_cache, dtype, 8, 8)


@pytest.mark.quick("odd-dtype2-8-512")
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "span", "plain"), [(1, 512, True), (3, None, False), (8, 512, False)])
@pytest.mark.parametrize(("spec", "dtype"), [("tiny", torch.bfloat16), ("tiny", torch.float32), ("odd", torch.float32)])
def test_computation_of_a_frame_can_be_captured_in_a_graph(
    npu: NpuDevice,
    ascend: StandIn,
    on_npu: LoadedOnNpu,
    spec: str,
    dtype: torch.dtype,
    rows: int,
    span: int | None,
    plain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No operator runs on the AI CPU, copies all slots or sorts without need."""
    # MAX_UNSORTED_K becomes lower than the number of codes of these checkpoints, so that the codes must be sorted.
    monkeypatch.setattr("runtime.engine.execution.slots.MAX_UNSORTED_K", 8)
    checkpoint = on_npu(spec, "custom_voice", dtype)
    frame = frame_of(checkpoint, npu, dtype)
    which = torch.zeros(rows, device=NPU, dtype=torch.int64)
    frame.next(which, span=span, plain=plain)  # The first frame allocates the tensors that later frames reuse.
    ascend.npu.launches.clear()
    ascend.npu.ai_cpu, ascend.npu.copied = [], 0
    with torch.inference_mode(), linted(NPU) as lint:
        output = frame.next(which, span=span, plain=plain)
    groups = checkpoint.config.talker.num_code_groups
    assert output.shape == (rows, groups + 2)
    assert lint.operators > 500
    assert (ascend.npu.ai_cpu, ascend.npu.copied) == ([], 0)
    assert ascend.npu.launches["sort"] == (0 if plain else groups)
    assert ascend.npu.launches["topk"] == (groups if plain else 0)


def test_prefill_chunk_can_be_captured_in_a_graph(npu: NpuDevice, ascend: StandIn, on_npu: LoadedOnNpu) -> None:
    checkpoint = on_npu("tiny", "custom_voice")
    frame = frame_of(checkpoint, npu, torch.float32)
    embeds = torch.zeros(2, 16, checkpoint.config.talker.hidden_size, device=NPU)
    places = torch.tensor([[0, 3], [0, 100], [16, 5], [0, 3], [16, 105]]).to(NPU)
    frame.prefill_padded(embeds, places, 512)
    ascend.npu.ai_cpu, ascend.npu.copied = [], 0
    with torch.inference_mode(), linted(NPU):
        frame.prefill_padded(embeds, places, 512)
    assert frame.slot_cache.position.tolist() == [16, 0, 0, 105, 0, 0, 0]
    assert (ascend.npu.ai_cpu, ascend.npu.copied) == ([], 0)


def test_cpu_attention_cannot_be_captured_in_a_graph(speaker: Checkpoint) -> None:
    """The CPU attention loops over rows, whose lengths must be read by the host."""
    device = open_device("cpu")
    device.torch_device = META
    with on_meta():
        talker = Talker(speaker.config)
    frame = frame_of(dataclasses.replace(speaker, talker=talker), device, torch.float32)
    with pytest.raises(NotForGraphs), torch.inference_mode(), linted():
        frame.next(torch.zeros(2, device=META, dtype=torch.int64))


def test_graph_lint_rejects_noise_generated_on_the_npu(npu: NpuDevice) -> None:
    """Older torch_npu versions cannot capture a bit shift, so the host computes the noise."""
    seed = torch.zeros(1, device=NPU, dtype=torch.int64)
    with pytest.raises(NotForGraphs, match="rshift"), torch.inference_mode(), linted(NPU):
        gumbel_noise(seed, seed, 2, 8)


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
def test_uncapturable_operations_are_refused(name: str) -> None:
    with pytest.raises(NotForGraphs), torch.inference_mode(), linted():
        FORBIDDEN[name](ones(4, 4))


@pytest.mark.parametrize("name", ["item", "a branch", "nonzero", "a boolean index", "unique", "a list", "torch.tensor"])
def test_uncapturable_operations_are_refused_on_real_tensors(name: str) -> None:
    with pytest.raises(NotForGraphs), linted("cpu"):
        FORBIDDEN[name](torch.ones(4, 4))


def test_capturable_operations_are_accepted() -> None:
    x, rows = ones(4, 4), torch.zeros(3, device=META, dtype=torch.int64)
    with torch.inference_mode(), linted() as lint:
        x[rows] = x[rows] + 1
        x[:, -1].zero_()
        torch.where(x > 0, -torch.inf, x).sort().values.cumsum(-1).softmax(-1)
        x.repeat_interleave(2, dim=0)
        torch.arange(4, device=META) // 2**3
    assert lint.operators > 5


def test_graph_check_applies_only_to_the_capturing_thread() -> None:
    """Canary requests of other engines in the same process may run at any time."""
    with hands_off(), ThreadPoolExecutor(1) as another:
        assert another.submit(lambda: torch.tensor([1, 2]).tolist()).result() == [1, 2]
        with pytest.raises(NotForGraphs):
            torch.tensor([1, 2])
    assert torch.tensor([1, 2]).tolist() == [1, 2]
