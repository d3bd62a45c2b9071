"""Tests that the replacement for torch_npu refuses all operations that torch_npu refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.graph_lint import NotForGraphs
from tests.support.npu_backend import NPU, Misuse
from tests.support.torch_npu_stand_in import StandIn


def test_unknown_settings_and_streams_are_refused(ascend: StandIn) -> None:
    with pytest.raises(Misuse, match="no such setting"):
        ascend.npu.config.allow_internal_formats = False
    with pytest.raises(Misuse, match="priorities"):
        ascend.npu.Stream(priority=2)
    with pytest.raises(Misuse, match="never recorded"):
        ascend.npu.current_stream().wait_event(ascend.npu.Event())


# --- Tests of captured graphs.


def ready(ascend: StandIn) -> StandIn:
    ascend.npu.config.allow_internal_format = False
    ascend.npu.set_compile_mode(jit_compile=False)
    return ascend


def captured(ascend: StandIn, work: Callable[[], object]) -> Any:
    """Return a graph of `work` that is captured on a new stream."""
    graph = ready(ascend).npu.NPUGraph()
    with torch.inference_mode(), ascend.npu.graph(graph, stream=ascend.npu.Stream()):
        work()
    return graph


def test_replay_repeats_the_operations_on_the_same_memory(ascend: StandIn) -> None:
    state, source = torch.zeros(3, device=NPU), torch.ones(3, device=NPU)
    calls: list[Any] = []

    def work() -> None:
        calls.append(len(calls))  # Python runs this function only once, during the capture.
        doubled = source * 2
        state.add_(doubled[:2].sum())
        calls.append(doubled)

    graph = captured(ascend, work)
    assert len(calls) == 2
    assert state.tolist() == [4.0] * 3
    source.fill_(5.0)
    address = calls[1].data_ptr()
    graph.replay()
    assert len(calls) == 2
    assert calls[1].tolist() == [10.0] * 3
    assert calls[1].data_ptr() == address
    assert state.tolist() == [24.0] * 3


def test_replay_detects_memory_freed_or_moved_since_capture(ascend: StandIn) -> None:
    held = {"weight": torch.ones(4, device=NPU)}
    made: list[Tensor] = []
    graph = captured(ascend, lambda: made.append(held["weight"] + 1))
    graph.replay()
    held["weight"] = torch.ones(4, device=NPU)
    with pytest.raises(Misuse, match="freed or moved"):
        graph.replay()


@pytest.mark.parametrize(("work", "rule"), [(lambda x: x.sum().item(), "the host reads"), (Tensor.cpu, "a copy to")])
def test_capture_refuses_uncapturable_operations(ascend: StandIn, work: Any, rule: str) -> None:
    """Tests of graph_lint.py cover all other operations that a capture must refuse."""
    with pytest.raises(NotForGraphs, match=rule):
        captured(ascend, lambda: work(torch.ones(4, device=NPU)))


def test_capture_refuses_other_streams_and_nested_captures(ascend: StandIn) -> None:
    npu = ready(ascend).npu
    x, other = torch.ones(4, device=NPU), npu.Stream()

    def elsewhere() -> None:
        with npu.stream(other):
            x.add_(1)

    with pytest.raises(Misuse, match="another stream"):
        captured(ascend, elsewhere)
    with pytest.raises(Misuse, match="begins within another"):
        captured(ascend, lambda: captured(ascend, lambda: x.add_(1)))
    inner = captured(ascend, lambda: x.add_(1))
    with pytest.raises(Misuse, match="another one's capture"):
        captured(ascend, inner.replay)
    with pytest.raises(Misuse, match="waits for ever"):
        captured(ascend, other.synchronize)
    with pytest.raises(Misuse, match="never captured"):
        npu.NPUGraph().replay()
    assert not npu.is_current_stream_capturing()


def test_capture_requires_its_settings_pool_and_stream(ascend: StandIn) -> None:
    npu = ascend.npu
    with pytest.raises(Misuse, match="aclop"), npu.graph(npu.NPUGraph()):
        pass
    ready(ascend)
    npu.set_compile_mode(jit_compile=True)
    with pytest.raises(Misuse, match="aclop"), npu.graph(npu.NPUGraph()):
        pass
    ready(ascend)
    for words, rule in (
        ({"pool": (0, 1)}, "did not make"),
        ({"stream": npu.current_stream()}, "default stream"),
        ({"capture_error_mode": "local"}, "no such mode"),
    ):
        with pytest.raises(Misuse, match=rule), npu.graph(npu.NPUGraph(), **words):
            pass


# --- Tests of the simulated device.


def test_tensors_of_different_devices_cannot_be_mixed(ascend: StandIn) -> None:
    x = torch.ones(4, device=NPU)
    assert (x.device.type, x.is_cpu, (x * 2).device) == ("npu", False, NPU)
    with pytest.raises(Misuse, match="a tensor of cpu among the NPU's"):
        x + torch.ones(4)
    with pytest.raises(Misuse, match="a tensor of cpu among the NPU's"):
        torch.cat((x, torch.ones(4)))
    with pytest.raises(TypeError, match="copy them first"):
        x.numpy()
    with pytest.raises(Misuse, match="a tensor of the host's"):
        ascend.npu_rms_norm(torch.ones(2, 4), x)
    assert (x + 1).cpu().tolist() == [2.0] * 4


def test_thread_without_a_context_cannot_wait(ascend: StandIn) -> None:
    ascend.npu.current_device()
    event = ascend.npu.Event()
    event.record()
    with ThreadPoolExecutor(1) as another:
        with pytest.raises(Misuse, match="no context"):
            another.submit(event.query).result()
        another.submit(ascend.npu.set_device, NPU).result()
        assert another.submit(event.query).result()


def test_stream_with_work_of_other_threads_cannot_be_captured(ascend: StandIn) -> None:
    npu, x = ready(ascend).npu, torch.ones(4, device=NPU)
    stream = npu.Stream()

    def work() -> None:
        with npu.stream(stream):
            x.add_(1)

    with ThreadPoolExecutor(1) as another:
        another.submit(work).result()
        with pytest.raises(Misuse, match="other threads work on"), npu.graph(npu.NPUGraph(), stream=stream):
            pass
        own = npu.Stream()
        with npu.graph(npu.NPUGraph(), stream=own):

            def intrude() -> None:
                with npu.stream(own):
                    x.add_(1)

            with pytest.raises(Misuse, match="another thread captures"):
                another.submit(intrude).result()
            with pytest.raises(Misuse, match="while another thread captures"):
                another.submit(captured, ascend, lambda: x.add_(1)).result()


def test_graphs_sharing_memory_stay_on_one_stream(ascend: StandIn) -> None:
    npu, x = ready(ascend).npu, torch.ones(4, device=NPU)
    pool, graphs = npu.graph_pool_handle(), [npu.NPUGraph() for _ in range(2)]
    for graph in graphs:
        with torch.inference_mode(), npu.graph(graph, pool=pool, stream=npu.Stream()):
            x.add_(1)
    graphs[0].replay()
    with npu.stream(npu.Stream()), pytest.raises(Misuse, match="on two streams"):
        graphs[1].replay()


def test_capture_is_refused_at_task_queue_level_two(ascend: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    with pytest.raises(Misuse, match="TASK_QUEUE_ENABLE"):
        captured(ascend, lambda: None)


def rows_of(*numbers: int) -> Tensor:
    return torch.tensor(numbers).to(NPU)


AI_CPU: dict[str, tuple[Callable[[], object], str]] = {
    "heads between slot and position": (
        lambda: torch.zeros(4, 2, 8, 16, device=NPU).__setitem__((rows_of(0, 1), slice(None), rows_of(2, 3)), 1.0),
        "not beside each other",
    ),
    "indices that are broadcast": (
        lambda: torch.zeros(4, 4, device=NPU).__setitem__((rows_of(0, 1), rows_of(2)), 1.0),
        "different shapes",
    ),
    "reading by a mask": (
        lambda: torch.zeros(4, device=NPU)[torch.ones(4, device=NPU, dtype=torch.bool)],
        "not beside|torch.bool",
    ),
    "many whole numbers": (
        lambda: torch.zeros(200, 300, device=NPU, dtype=torch.int64).__setitem__(rows_of(0, 1), 1),
        "so many torch.int64",
    ),
    "float64": (lambda: torch.zeros(4, device=NPU).double() + 1, "float64"),
    "searchsorted": (lambda: torch.searchsorted(torch.ones(4, device=NPU), torch.ones(2, device=NPU)), "always"),
    "a sort of whole numbers": (lambda: rows_of(3, 1).sort(), "int64"),
}


@pytest.mark.parametrize("name", AI_CPU)
def test_operators_on_the_ai_cpu_are_reported(ascend: StandIn, name: str) -> None:
    work, why = AI_CPU[name]
    with torch.inference_mode():
        work()
    assert ascend.npu.ai_cpu
    assert re.search(why, ascend.npu.ai_cpu[-1][1])


def test_operators_on_the_ai_cores_are_not_reported(ascend: StandIn) -> None:
    x, rows = torch.zeros(4, 2, 16, device=NPU), rows_of(0, 3)
    with torch.inference_mode():
        x[rows] = 1.0
        x[rows, rows % 2] = x[rows, rows % 2] + 1
        x.sort().values.softmax(-1).cumsum(-1)
        x.topk(2).values.argmax(-1)
        torch.zeros(9, 16, device=NPU, dtype=torch.int64)[rows] = 1
    assert ascend.npu.ai_cpu == []
    assert ascend.npu.launches["index_put_"] == 3
