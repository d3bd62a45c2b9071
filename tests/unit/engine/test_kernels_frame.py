"""Tests for frames that are computed by kernels, compared with plain PyTorch.

The kernels run in Triton's interpreter.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")

from runtime.device import open_device
from runtime.device.cpu import CpuDevice
from runtime.device.fused import Fused
from runtime.device.kernels import dispatch
from runtime.device.quantized import DequantizedInt8, Int8
from runtime.engine.execution.model_runner import FrameResult, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.slots import NetworkSamplingParams, RequestSamplingParams, SlotInputs
from runtime.model.products import Linear
from runtime.model.talker import NO_CODEC, Talker
from tests.conftest import Loaded
from tests.support.cuda import interpreted

pytestmark = [*interpreted, pytest.mark.usefixtures("bounds_of_loops")]

FRAMES, LENGTH = 3, 40
LEVELS = (NetworkSamplingParams(0.9, 50, 1.0, False), NetworkSamplingParams(1.0, 0, 0.8, False))


class Interpreted(CpuDevice):
    """CPU device that uses the fused kernels."""

    def fused(self, dtype: torch.dtype) -> Fused:
        return dispatch


class Asked(TorchDispatchMode):
    """Dispatch mode that records the names of all PyTorch operators that compute a result."""

    def __init__(self) -> None:
        super().__init__()
        self.computed: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        if not func.is_view and "empty" not in name:
            self.computed.append(name)
        return func(*args, **(kwargs or {}))


def said(runner: ModelRunner, prompts: list[Prompt], grafted: tuple[bool, bool] = (False, False)) -> list[FrameResult]:
    """Prefill prompts, decode them in one batch, and return all frames."""
    slots, results = [], []
    for serial, (prompt, level) in enumerate(zip(prompts, LEVELS, strict=True)):
        inputs = SlotInputs(
            RequestSamplingParams(level, level, 1.05), 11 + serial, prompt.trailing, is_cross_embedded=grafted[serial]
        )
        slots.append(runner.slot_cache.allocate(inputs))
        start, launched = 0, None
        while launched is None:
            start, launched = runner.prefill(slots[-1], prompt, start)
        results.append(launched.result())
    results += [runner.step(np.array(slots[::-1])).result() for _ in range(FRAMES - 1)]
    assert runner.slot_cache.position[slots].tolist() == [len(prompt.inputs) + FRAMES - 1 for prompt in prompts]
    assert runner.slot_cache.frame[slots].tolist() == [FRAMES, FRAMES]
    return results


@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("spec", ["quick", "odd"])
def test_fused_kernels_give_the_same_frames_as_pytorch(loaded: Loaded, spec: str, cache_dtype: torch.dtype) -> None:
    """The two prompts have one and two prefill pieces and different sampling settings.

    The text of both prompts is streamed.
    """
    checkpoint = loaded(spec, "custom_voice")
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(0)
    prompts = [Prompt(torch.randn(length, width, generator=generator), [3 * length, 7]) for length in (9, 21)]
    plain = ModelRunner(checkpoint, open_device("cpu"), torch.float32, 2, LENGTH, 16, cache_dtype=cache_dtype)
    expected = said(plain, prompts)
    # A runner with fused operations changes the checkpoint's tables, so this runner gets a copy.
    fused = copy.deepcopy(checkpoint)
    runner = ModelRunner(fused, Interpreted(), torch.float32, 2, LENGTH, 16, cache_dtype=cache_dtype)
    for ours, truth in zip(said(runner, prompts), expected, strict=True):
        assert np.array_equal(ours.codes, truth.codes)
        assert np.array_equal(ours.ended, truth.ended)
        assert ours.finite.all()
    for ours, truth in zip(runner.slot_cache.state, plain.slot_cache.state, strict=True):
        assert torch.equal(ours, truth)


@pytest.mark.parametrize("device", [open_device("cpu"), Interpreted()], ids=["pytorch", "kernels"])
def test_first_frame_in_a_step_equals_a_separate_first_frame(loaded: Loaded, device: CpuDevice) -> None:
    """The other row of the step already has frames."""
    checkpoint = copy.deepcopy(loaded("odd", "custom_voice"))
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(0)
    prompts = [Prompt(torch.randn(length, width, generator=generator), [3 * length, 7]) for length in (9, 13)]
    apart = ModelRunner(checkpoint, device, torch.float32, 2, LENGTH, 16)
    expected = said(apart, prompts)
    joined = ModelRunner(checkpoint, device, torch.float32, 2, LENGTH, 16)
    for serial, (prompt, level) in enumerate(zip(prompts, LEVELS, strict=True)):
        inputs = SlotInputs(RequestSamplingParams(level, level, 1.05), 11 + serial, prompt.trailing)
        joined.slot_cache.allocate(inputs)
        joined.prefill_chunks([(serial, prompt, 0)])
        joined.end_prefill(np.array([serial]))
        result = joined.step(np.arange(serial, -1, -1)).result()
        assert np.array_equal(result.codes[0], expected[serial].codes[0])
    assert joined.slot_cache.frame[:2].tolist() == [2, 1]
    assert joined.slot_cache.position[:2].tolist() == joined.slot_cache.host_position.tolist() == [10, 13]
    for result in (joined.step(np.array([1])).result(), joined.step(np.array([1, 0])).result()):
        assert result.finite.all()
    assert np.array_equal(result.codes, expected[-1].codes)
    for ours, truth in zip(joined.slot_cache.state, apart.slot_cache.state, strict=True):
        assert torch.equal(ours, truth)


def random_ids(talker: Talker, length: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Return random text and codec ids of a prompt.

    Shapes: result [length, 2].
    """
    assert talker.tables is not None
    return draw.integers((0, NO_CODEC), [len(talker.tables.text), len(talker.tables.codec) - 1], (length, 2))


def test_prompts_in_decode_steps_give_the_same_frames_as_separate_prefills(loaded: Loaded) -> None:
    """The second step prefills a prompt of two pieces while the first request has a frame."""
    checkpoint = copy.deepcopy(loaded("quick", "custom_voice"))
    apart, joined = (ModelRunner(checkpoint, Interpreted(), torch.float32, 2, LENGTH, 16) for _ in range(2))
    draw = np.random.default_rng(0)
    prompts = [Prompt(random_ids(checkpoint.talker, length, draw), [3 * length, 7]) for length in (9, 21)]
    assert [joined.joining_pieces(prompt) for prompt in prompts] == [1, 2]
    expected = said(apart, prompts)
    for serial, (prompt, level) in enumerate(zip(prompts, LEVELS, strict=True)):
        inputs = SlotInputs(RequestSamplingParams(level, level, 1.05), 11 + serial, prompt.trailing)
        slot = joined.slot_cache.allocate(inputs)
        result = joined.step(np.arange(serial, -1, -1), [(slot, prompt)]).result()
        assert result.finite.all()
        assert np.array_equal(result.codes[0], expected[serial].codes[0])
    assert joined.slot_cache.position[:2].tolist() == joined.slot_cache.host_position.tolist() == [10, 21]
    joined.step(np.array([1])).result()
    assert np.array_equal(joined.step(np.array([1, 0])).result().codes, expected[-1].codes)
    for ours, truth in zip(joined.slot_cache.state, apart.slot_cache.state, strict=True):
        assert torch.equal(ours, truth)


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(np.zeros((257, 2), np.int64), []),
        Prompt(np.zeros((9, 2), np.int64), [], 8, "key"),
        Prompt(torch.zeros(9, 64), []),
    ],
    ids=["long", "with a prefix", "embedded"],
)
def test_other_prompts_are_prefilled_separately(loaded: Loaded, prompt: Prompt) -> None:
    checkpoint = copy.deepcopy(loaded("quick", "custom_voice"))
    assert ModelRunner(checkpoint, Interpreted(), torch.float32, 2, LENGTH, 16).joining_pieces(prompt) == 0


def test_prompt_ids_give_the_same_frames_as_their_embeddings(loaded: Loaded) -> None:
    """The last launch has the ids of one prompt and the embeddings of the other."""
    checkpoint = copy.deepcopy(loaded("quick", "custom_voice"))
    runners = [ModelRunner(checkpoint, Interpreted(), torch.float32, 2, LENGTH, 16) for _ in range(3)]
    talker, draw = checkpoint.talker, np.random.default_rng(0)
    by_id, embedded = [], []
    for length in (9, 21):
        ids = random_ids(talker, length, draw)
        text, codec = torch.from_numpy(ids).unbind(1)
        by_id.append(Prompt(ids, [3 * length, 7]))
        embedded.append(Prompt(talker.embed_text(text) + talker.embed_codec_or_none(codec), [3 * length, 7]))
    expected = said(runners[0], embedded)
    for ours, truth in zip(said(runners[1], by_id), expected, strict=True):
        assert np.array_equal(ours.codes, truth.codes)
    together = runners[2]
    chunks = [(0, by_id[0], 0), (1, embedded[1], 0)]
    together.prefill_chunks(chunks)
    for slot, prompt in enumerate(embedded):
        runners[0].prefill_chunks([(slot, prompt, 0)])
    assert torch.equal(together.frame.hidden[:2], runners[0].frame.hidden[:2])


def test_int8_frames_equal_frames_with_separate_products(loaded: Loaded) -> None:
    checkpoint = copy.deepcopy(loaded("odd", "custom_voice"))
    for module in checkpoint.talker.modules():
        if isinstance(module, Linear):
            module.set_product(DequantizedInt8(Int8.of(module.weight.detach())))
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(0)
    prompts = [Prompt(torch.randn(length, width, generator=generator), [3 * length, 7]) for length in (9, 21)]
    expected = said(ModelRunner(checkpoint, open_device("cpu"), torch.float32, 2, LENGTH, 16), prompts)
    runner = ModelRunner(copy.deepcopy(checkpoint), Interpreted(), torch.float32, 2, LENGTH, 16)
    for ours, truth in zip(said(runner, prompts), expected, strict=True):
        assert np.array_equal(ours.codes, truth.codes)
        assert ours.finite.all()


@pytest.mark.parametrize("spec", ["quick", "odd"])
def test_row_with_cross_checkpoint_embeddings_shares_a_batch(loaded: Loaded, spec: str) -> None:
    checkpoint, lender = loaded(spec, "custom_voice"), loaded(spec, "custom_voice", 2)
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(0)
    prompts = [Prompt(torch.randn(length, width, generator=generator), [3 * length, 7]) for length in (9, 21)]
    plain = ModelRunner(checkpoint, open_device("cpu"), torch.float32, 2, LENGTH, 16)
    alone = said(plain, prompts)
    mixed = []
    for device, tabulated in ((open_device("cpu"), lender.talker), (Interpreted(), copy.deepcopy(lender.talker))):
        runner = ModelRunner(copy.deepcopy(checkpoint), device, torch.float32, 2, LENGTH, 16)
        if device.fused(torch.float32) is not None:
            tabulated.tabulate()
        runner.frame.set_embedding_source(tabulated)
        mixed.append(said(runner, prompts, (False, True)))
    for ours, truth in zip(*mixed, strict=True):
        assert np.array_equal(ours.codes, truth.codes)
    # If a frame contains both rows, the second row is its last row.
    assert all(
        np.array_equal(one.codes[-1], other.codes[-1]) for one, other in zip(alone[2:], mixed[0][2:], strict=True)
    )
    assert not np.array_equal(alone[-1].codes[0], mixed[0][-1].codes[0])


def test_frame_launches_kernels_and_no_pytorch_operation(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch operation would take longer than a kernel and could not overlap with a kernel."""
    from triton.runtime.interpreter import GridExecutor

    runner = ModelRunner(copy.deepcopy(loaded("odd", "custom_voice")), Interpreted(), torch.float32, 2, LENGTH, 16)
    launched: list[object] = []
    monkeypatch.setattr(GridExecutor, "__call__", lambda kernel, *_, **__: launched.append(kernel))
    rows = torch.tensor([0, 1])
    with torch.inference_mode(), Asked() as asked:
        runner.frame.next(rows)
    assert asked.computed == []
    assert len(launched) > 2 + runner.frame.config.talker.num_code_groups


@pytest.mark.parametrize("piece", [16, 20, 200])
def test_non_finite_prompt_leaves_no_trace_in_the_cache(loaded: Loaded, piece: int) -> None:
    """Prompts are prefilled one at a time, and in pieces that have no graph."""
    checkpoint = copy.deepcopy(loaded("odd", "custom_voice"))
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(0)
    runner = ModelRunner(checkpoint, Interpreted(), torch.float32, 2, LENGTH, piece)
    sane = Prompt(torch.randn(9, width, generator=generator), [])
    alone = runner.prefill_chunks([(0, sane, 0)]), runner.frame.hidden[0].clone()
    runner.prefill_chunks([(1, Prompt(torch.full((31, width), torch.nan), []), 0)])
    assert runner.frame.hidden[1].isnan().all()
    assert runner.prefill_chunks([(0, sane, 0)]) == alone[0] == [9]
    assert torch.equal(runner.frame.hidden[0], alone[1])


def test_packed_prompts_equal_separate_prefills(loaded: Loaded) -> None:
    """The prompts have one piece, less than one piece, or more than two pieces.

    The caches and the outputs must be equal.
    """
    checkpoint = copy.deepcopy(loaded("odd", "custom_voice"))
    width, generator = checkpoint.config.talker.hidden_size, torch.Generator().manual_seed(1)
    runner = ModelRunner(checkpoint, Interpreted(), torch.float32, 8, LENGTH, 200)
    prompts = [Prompt(torch.randn(length, width, generator=generator), []) for length in (16, 9, 37)]
    runner.prefill_chunks([(slot, prompt, 0) for slot, prompt in enumerate(prompts)])
    for slot, prompt in enumerate(prompts):
        length, alone = len(prompt.embeds), slot + 3
        runner.prefill_chunks([(alone, prompt, 0)])
        assert runner.slot_cache.position[[slot, alone]].tolist() == [length, length]
        torch.testing.assert_close(runner.frame.hidden[slot], runner.frame.hidden[alone], rtol=1e-5, atol=1e-5)
        for kept in (*runner.slot_cache.keys, *runner.slot_cache.values):
            torch.testing.assert_close(kept[slot, :, :length], kept[alone, :, :length], rtol=1e-5, atol=1e-5)
    assert runner.slot_cache.position[-1] == 0
