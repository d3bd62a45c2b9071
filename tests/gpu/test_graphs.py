"""Tests for frames in CUDA graphs with bfloat16 kernels: codes do not depend on the batch.

The tests use tiny matrices, for which all batch sizes have the same tiling, and a few layers of the published sizes,
whose tiling depends on the number of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile, record_function

from runtime.device.cuda import CudaDevice
from runtime.device.interface import Stream
from runtime.device.quantized import Quantization
from runtime.engine.execution.graphs import GraphKind
from runtime.engine.execution.model_runner import LaunchedFrame, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.slots import NetworkSamplingParams, RequestSamplingParams, SlotInputs
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.model.talker import NO_CODEC
from tests.support.checkpoints import TINY, few_layers
from tests.support.checkpoints.files import write_drawn
from tests.support.checkpoints.torch_draw import TorchDraw
from tests.support.cuda import needs_gpu

pytestmark = needs_gpu

SLOTS, FRAMES, LENGTH, PIECE = 20, 60, 256, 64  # Eight prefill chunks have as many positions as one launch.
STEPS = 8
BUSY_CYCLES = 10**9  # Half a second in clock cycles of the GPU.
WAITS = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy"}
WIDE = replace(
    few_layers("wide", 2),
    code2wav=TINY.code2wav,
    encoder=TINY.encoder,
    speaker_encoder=TINY.speaker_encoder,
)
Codes = NDArray[np.int64]
RunnerOf = Callable[..., ModelRunner]


@pytest.fixture(
    scope="module",
    params=[(TINY, None), (WIDE, None), (WIDE, Quantization.INT8)],
    ids=lambda param: f"{param[0].name}-{param[1] or 'bfloat16'}",
)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    spec, quantization = request.param
    folder = tmp_path_factory.mktemp("checkpoints") / spec.name
    write_drawn(folder, spec, "custom_voice", TorchDraw(1, torch.device("cuda")), "bfloat16")
    return load_checkpoint(str(folder), torch.device("cuda"), torch.bfloat16, quantization=quantization)


@pytest.fixture(scope="module")
def runner_of(checkpoint: Checkpoint) -> RunnerOf:
    def make(*, eager: bool = False) -> ModelRunner:
        runner = ModelRunner(checkpoint, CudaDevice(eager=eager), torch.bfloat16, SLOTS, LENGTH, PIECE)
        torch.cuda.synchronize()  # The streams of the device do not wait for the work of this thread.
        runner.capture()
        return runner

    return make


@torch.inference_mode()
def prompt_of(checkpoint: Checkpoint, serial: int) -> Prompt:
    """Return a prompt that needs one or two prefill chunks, depending on `serial`."""
    ids = torch.arange(serial, serial + 9 + 3 * serial, device="cuda") % 200
    return Prompt(checkpoint.talker.embed_text(ids), [])


def settings_of(serial: int) -> RequestSamplingParams:
    level = (
        NetworkSamplingParams(0.9, 50, 1.0, False),
        NetworkSamplingParams(1.0, 0, 0.8, False),
        NetworkSamplingParams(1.0, 0, 1.0, True),
        NetworkSamplingParams(1.3, 5, 1.0, False),
    )[serial % 4]
    return RequestSamplingParams(level, level, 1.05)


def spoken(
    runner: ModelRunner, checkpoint: Checkpoint, serials: list[int], together: bool, *, joins: bool = False
) -> Codes:
    """Run several requests in one batch, with joint or separate prefill, and return the codes.

    With `joins`, the first frames are part of a step.

    Shapes: [requests, frames, Q].
    """
    slots, prompts, reads = [], [], [0] * len(serials)
    for serial in serials:
        slots.append(runner.slot_cache.allocate(SlotInputs(settings_of(serial), 7 + serial, [])))
        with runner.prompt_stream(slots[-1]):
            prompts.append(prompt_of(checkpoint, serial))
    firsts: dict[int, Codes] = {}
    while len(firsts) < len(serials):
        waiting = [number for number in range(len(serials)) if number not in firsts][: 8 if together else 1]
        stops = runner.prefill_chunks([(slots[number], prompts[number], reads[number]) for number in waiting])
        for number, stop in zip(waiting, stops, strict=True):
            reads[number] = stop
        through = [number for number in waiting if reads[number] == len(prompts[number].embeds)]
        if through:
            rows = np.array([slots[number] for number in through])
            if joins:
                runner.end_prefill(rows).synchronize()
            result = (runner.step if joins else runner.first)(rows).result()
            firsts.update(zip(through, result.codes, strict=True))
    frames = [np.stack([firsts[number] for number in range(len(serials))])]
    for _ in range(FRAMES - 1):
        result = runner.step(np.array(slots)).result()
        assert result.finite.all()
        frames.append(result.codes)
    for slot in slots:
        runner.slot_cache.release(slot)
    return np.stack(frames, axis=1)


def test_row_codes_are_independent_of_the_batch_size(checkpoint: Checkpoint, runner_of: RunnerOf) -> None:
    runner = runner_of()
    everybody = spoken(runner, checkpoint, list(range(SLOTS)), together=True)
    for size in (1, 2, 3, 5, 9, 13, 17):
        serials = list(range(SLOTS - size, SLOTS))
        assert np.array_equal(spoken(runner, checkpoint, serials, together=size % 2 == 0), everybody[serials]), size


def test_first_frames_in_a_step_equal_separate_first_frames(checkpoint: Checkpoint, runner_of: RunnerOf) -> None:
    runner, serials = runner_of(), list(range(SLOTS))
    expected = spoken(runner, checkpoint, serials, together=True)
    assert np.array_equal(spoken(runner, checkpoint, serials, together=True, joins=True), expected)


def frames_of(runner: ModelRunner, prompts: list[Prompt], *, joins: bool) -> list[Codes]:
    """Start three requests at a time, and return the first frames of every request.

    With `joins`, the step of the earlier requests prefills the new prompts.

    Shapes: one array [STEPS, Q] per request.
    """
    slots = [
        runner.slot_cache.allocate(SlotInputs(settings_of(serial), 7 + serial, [])) for serial in range(len(prompts))
    ]
    codes: dict[int, list[Codes]] = {slot: [] for slot in slots}

    def keep(rows: list[int], launched: LaunchedFrame) -> None:
        result = launched.result()
        assert result.finite.all()
        for slot, frame in zip(rows, result.codes, strict=True):
            codes[slot].append(frame)

    for begin in range(0, len(slots), 3):
        new = list(zip(slots, prompts, strict=True))[begin : begin + 3]
        if joins:
            rows = [slot for slot, _ in new] + slots[:begin]
            keep(rows, runner.step(np.array(rows), new))
            continue
        for slot, prompt in new:
            start, launched = 0, None
            while launched is None:
                start, launched = runner.prefill(slot, prompt, start)
            keep([slot], launched)
    while min(map(len, codes.values())) < STEPS:
        keep(slots, runner.step(np.array(slots)))
    for slot in slots:
        runner.slot_cache.release(slot)
    return [np.stack(codes[slot][:STEPS]) for slot in slots]


@pytest.mark.parametrize("eager", [False, True])
def test_prompts_in_steps_equal_separate_prefills(
    checkpoint: Checkpoint, runner_of: RunnerOf, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    monkeypatch.setattr("runtime.engine.execution.model_runner.MIN_JOINED_ROWS", 16)
    runner = runner_of(eager=eager)
    prompts = [
        Prompt(np.stack([np.arange(serial, 4 * serial + 9) % 200, np.full(3 * serial + 9, NO_CODEC)], axis=1), [])
        for serial in range(SLOTS)
    ]
    assert max(map(runner.joining_pieces, prompts)) == 5
    assert bool(runner.graphs.of(GraphKind.DECODE_WITH_PROMPTS)) != eager
    expected = frames_of(runner, prompts, joins=False)
    for ours, truth in zip(frames_of(runner, prompts, joins=True), expected, strict=True):
        assert np.array_equal(ours, truth)


def test_codes_are_identical_without_a_graph(checkpoint: Checkpoint, runner_of: RunnerOf) -> None:
    serials = [0, 3, 4, 7, 11]
    held = spoken(runner_of(), checkpoint, serials, together=True)
    assert np.array_equal(spoken(runner_of(eager=True), checkpoint, serials, together=False), held)


def test_slot_contains_no_state_of_its_previous_request(checkpoint: Checkpoint, runner_of: RunnerOf) -> None:
    runner = runner_of()
    fresh = spoken(runner, checkpoint, [5], together=False)
    for _ in range(SLOTS):
        spoken(runner, checkpoint, [1], together=False)
    torch.cuda.synchronize()
    for layer in (*runner.slot_cache.keys, *runner.slot_cache.values):
        layer.fill_(torch.nan)
    torch.cuda.synchronize()
    assert np.array_equal(spoken(runner, checkpoint, [5], together=False), fresh)


def test_step_does_not_synchronise_with_the_gpu(checkpoint: Checkpoint, runner_of: RunnerOf) -> None:
    """PyTorch's profiler must find no synchronising CUDA calls if the results are not read."""
    runner, slots = runner_of(), []
    for serial in range(4):
        slots.append(runner.slot_cache.allocate(SlotInputs(settings_of(serial), 7 + serial, [])))
        with runner.prompt_stream(slots[-1]):
            prompt = prompt_of(checkpoint, serial)
        read = 0
        while read < len(prompt.embeds):
            [read] = runner.prefill_chunks([(slots[-1], prompt, read)])
    rows = np.array(slots)
    runner.first(rows).result()
    runner.step(rows).result()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled, record_function("steps"):
        for _ in range(STEPS):
            runner.step(rows)
    events = profiled.events()
    assert events is not None
    on_host = [event for event in events if event.device_type.name == "CPU"]
    [steps] = (event.time_range for event in on_host if event.name == "steps")
    called = Counter(event.name for event in on_host if steps.start <= event.time_range.start <= steps.end)
    assert called["cudaGraphLaunch"] >= STEPS, called
    assert not {name: count for name, count in called.items() if name in WAITS}, called


def test_capture_waits_for_pending_work_of_its_caller() -> None:
    """On a busy GPU, writes of the caller to the input tensors may still be queued."""
    device = CudaDevice()
    row, seen = torch.full((1,), -1, device=device.torch_device), torch.zeros(1, device=device.torch_device)
    torch.cuda.synchronize()
    torch.cuda._sleep(BUSY_CYCLES)
    row.fill_(1)
    device.capture(lambda: seen.copy_(row), Stream.VOICES)  # `capture` runs the work once before it records the graph.
    torch.cuda.synchronize()
    assert seen.item() == 1
