"""Tests that frames of a batch are bitwise equal to the frames of rows that run alone.

The tests also cover chunked prefill, streamed texts and texts whose end is delayed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.device import native, open_device
from runtime.engine.execution.model_runner import FrameResult, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.slots import (
    UNLIMITED_FRAMES,
    NetworkSamplingParams,
    RequestSamplingParams,
    SlotCache,
    SlotInputs,
)
from runtime.model.checkpoints.checkpoint import Checkpoint
from tests.conftest import Loaded
from tests.support.engines import Codes
from tests.support.frames import prefer_eos
from tests.support.late_device import LateDevice

FRAMES = 6


def runner_of(checkpoint: Checkpoint, slots: int = 17, chunk: int = 16) -> ModelRunner:
    return ModelRunner(checkpoint, open_device("cpu"), torch.float32, slots, 160, chunk)


def prompt_of(checkpoint: Checkpoint, serial: int, length: int | None = None) -> Prompt:
    """Return a prompt of random embeddings.

    Each serial number yields another prompt. By default, it also determines the length.
    """
    width = checkpoint.config.talker.hidden_size
    length = 3 + 11 * serial % 40 if length is None else length
    embeds = torch.randn(length, width, generator=torch.Generator().manual_seed(serial))
    return Prompt(embeds, [(5 * serial + step) % 60 for step in range(serial % 5)])


def settings_of(serial: int) -> RequestSamplingParams:
    """Return one of four sampling settings, selected by the serial number.

    The settings of all rows determine how a batch is sampled.
    """
    level = (
        NetworkSamplingParams(0.9, 50, 1.0, False),
        NetworkSamplingParams(1.0, 0, 0.8, False),
        NetworkSamplingParams(1.0, 0, 1.0, True),
        NetworkSamplingParams(1.3, 3, 1.0, False),
    )[serial % 4]
    return RequestSamplingParams(talker=level, predictor=level, repetition_penalty=1.05)


def read(runner: ModelRunner, slot: int, prompt: Prompt, start: int = 0) -> FrameResult:
    """Prefill all chunks of a prompt in a slot, and return the result of the first frame."""
    launched = None
    while launched is None:
        start, launched = runner.prefill(slot, prompt, start)
    return launched.result()


def begin(runner: ModelRunner, serial: int) -> tuple[int, FrameResult]:
    prompt = prompt_of(runner_checkpoint(runner), serial)
    slot = runner.slot_cache.allocate(SlotInputs(settings_of(serial), serial, prompt.trailing))
    return slot, read(runner, slot, prompt)


def runner_checkpoint(runner: ModelRunner) -> Checkpoint:
    """Return an object with the checkpoint's ``config``, which is all that a prompt needs."""
    return runner.frame  # type: ignore[return-value]  # both have ``config``


def left_by(runner: ModelRunner, slot: int) -> list[Tensor]:
    """Return copies of all keys and values that the current row of a slot has written."""
    written = int(runner.slot_cache.host_position[slot])
    return [part[slot, :, :written].clone() for part in (*runner.slot_cache.keys, *runner.slot_cache.values)]


def alone(checkpoint: Checkpoint, serial: int) -> tuple[Codes, list[Tensor]]:
    """Return the codes of a row that runs alone, and the talker's keys and values.

    Shapes: codes [FRAMES, Q].
    """
    runner = runner_of(checkpoint, slots=1)
    slot, first = begin(runner, serial)
    frames = [first.codes[0], *(runner.step(np.array([slot])).result().codes[0] for _ in range(FRAMES - 1))]
    return np.stack(frames), left_by(runner, slot)


def assert_as_alone(checkpoint: Checkpoint, sizes: Sequence[int], order: int) -> None:
    """Assert that rows in batches are bitwise equal to rows that run alone.

    `order` is the seed for the order of slots and of starts.
    """
    stream = np.random.RandomState(order)
    expected = {serial: alone(checkpoint, serial) for serial in range(max(sizes))}
    for size in sizes:
        runner = runner_of(checkpoint)
        stream.shuffle(runner.slot_cache.free_slots)
        slots, codes, waiting = {}, {serial: [] for serial in range(size)}, list(range(size))
        while waiting or any(len(made) < FRAMES for made in codes.values()):
            for serial in waiting[:3]:
                slots[serial], result = begin(runner, serial)
                codes[serial].append(result.codes[0])
            del waiting[:3]
            members = stream.permutation([serial for serial in slots if len(codes[serial]) < FRAMES])
            if len(members):
                result = runner.step(np.array([slots[serial] for serial in members])).result()
                for serial, frame in zip(members, result.codes, strict=True):
                    codes[serial].append(frame)
        for serial in range(size):
            assert np.array_equal(np.stack(codes[serial]), expected[serial][0]), (size, serial)
            for ours, theirs in zip(left_by(runner, slots[serial]), expected[serial][1], strict=True):
                assert torch.equal(ours, theirs), (size, serial)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["tiny", "odd"])
def test_frames_are_bitwise_equal_alone_and_in_batches_up_to_17(loaded: Loaded, spec: str) -> None:
    assert_as_alone(loaded(spec, "custom_voice"), (2, 3, 4, 5, 7, 8, 17), order=1)


@pytest.mark.slow
def test_embedded_voice_frames_are_batch_invariant(demo: Checkpoint) -> None:
    assert_as_alone(demo, (3, 8), order=2)


@pytest.mark.skipif(not native.is_loaded(), reason="no C++ compiler built the operators")
@pytest.mark.parametrize("serial", range(4))
@pytest.mark.parametrize("name", ["speaker", "demo"])
def test_native_frames_have_the_codes_of_the_pytorch_layers(
    name: str, serial: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint: Checkpoint = request.getfixturevalue(name)
    assert runner_of(checkpoint, slots=1).frame.native_predictor is not None
    codes, left = alone(checkpoint, serial)
    monkeypatch.setattr("runtime.engine.execution.frame.runs_native", lambda device: False)
    assert runner_of(checkpoint, slots=1).frame.native_predictor is None
    readable_codes, readable_left = alone(checkpoint, serial)
    assert np.array_equal(codes, readable_codes)
    torch.testing.assert_close(left, readable_left, rtol=1e-3, atol=1e-3)


def test_frame_result_consists_of_arrays_on_the_host(speaker: Checkpoint) -> None:
    runner = runner_of(speaker)
    slots = np.array([begin(runner, serial)[0] for serial in range(3)])
    result = runner.step(slots).result()
    assert (result.codes.dtype, result.codes.shape) == (np.int64, (3, speaker.config.talker.num_code_groups))
    for flags in (result.ended, result.finite):
        assert (flags.dtype, flags.shape) == (np.bool_, (3,))
    assert runner.slot_cache.frame[slots].tolist() == [2, 2, 2]
    assert runner.slot_cache.host_position[slots].tolist() == runner.slot_cache.position[slots].tolist()


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 47])
def test_chunked_prefill_equals_unchunked_prefill_except_rounding(speaker: Checkpoint, length: int) -> None:
    prompt = prompt_of(speaker, 3, length)
    made = []
    for chunk in (16, 160):
        runner = runner_of(speaker, slots=1, chunk=chunk)
        slot = runner.slot_cache.allocate(SlotInputs(settings_of(2), 0, []))
        stops, start, launched = [], 0, None
        while launched is None:
            start, launched = runner.prefill(slot, prompt, start)
            stops.append(start)
        result = launched.result()
        assert stops == [*range(chunk, length, chunk), length]
        made.append((result.codes, left_by(runner, slot)))
    assert np.array_equal(made[0][0], made[1][0])
    for ours, theirs in zip(made[0][1], made[1][1], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_interleaved_frames_and_prefill_chunks_do_not_affect_each_other(speaker: Checkpoint) -> None:
    expected, neighbour = alone(speaker, 2), alone(speaker, 5)
    runner = runner_of(speaker, slots=2)
    other, first = begin(runner, 5)
    prompt = prompt_of(speaker, 2)
    slot = runner.slot_cache.allocate(SlotInputs(settings_of(2), 2, prompt.trailing))
    beside, start, launched = [first.codes[0]], 0, None
    assert len(prompt.embeds) > runner.chunk
    while launched is None:
        start, launched = runner.prefill(slot, prompt, start)
        beside.append(runner.step(np.array([other])).result().codes[0])
    codes = [launched.result().codes[0], *(runner.step(np.array([slot])).result().codes[0] for _ in range(FRAMES - 1))]
    assert np.array_equal(np.stack(codes), expected[0])
    for ours, theirs in zip(left_by(runner, slot), expected[1], strict=True):
        assert torch.equal(ours, theirs)
    assert np.array_equal(np.stack(beside), neighbour[0][: len(beside)])


def spoken(runner: ModelRunner, slot: int, prompt: Prompt, frames: int) -> Codes:
    codes = [read(runner, slot, prompt).codes[0]]
    return np.stack([*codes, *(runner.step(np.array([slot])).result().codes[0] for _ in range(frames - 1))])


def test_streamed_row_generates_at_most_one_frame_per_text_id(speaker: Checkpoint) -> None:
    slot_cache = runner_of(speaker).slot_cache
    taken = [
        slot_cache.allocate(SlotInputs(settings_of(0), 0, ids, is_open=is_open))
        for ids, is_open in (([], True), ([1, 2], True), ([1, 2], False), ([], False))
    ]
    assert [slot_cache.inputs[slot].text_frames for slot in taken] == [1, 3, UNLIMITED_FRAMES, UNLIMITED_FRAMES]
    slot_cache.write(taken)
    # The slot has fewer positions than there are text IDs here. All IDs are counted, and IDs without a position are
    # dropped.
    slot_cache.append_token_ids(taken[0], [5] * 200)
    assert slot_cache.inputs[taken[0]].text_frames == 201
    assert slot_cache.trailing[taken[0]].tolist() == [5] * 160
    slot_cache.release(taken[0])
    taken.append(slot_cache.allocate(SlotInputs(settings_of(0), 0, [9])))
    slot_cache.write(taken)
    assert slot_cache.trailing[taken[-1]].tolist() == [9, *[slot_cache.pad] * 159]


@pytest.mark.parametrize(("device", "order"), [("cpu", [2, 1, 0]), ("meta", [0, 1, 2])])
def test_order_in_which_released_slots_are_reused_depends_on_the_device(
    speaker: Checkpoint, device: str, order: list[int]
) -> None:
    """A CPU reuses allocated memory, and other devices avoid slots of running frames."""
    slot_cache = SlotCache(speaker.config, 3, 160, torch.device(device), torch.float32)
    for slot in [slot_cache.allocate(SlotInputs(settings_of(0), 0)) for _ in range(3)]:
        slot_cache.release(slot)
    assert [slot_cache.allocate(SlotInputs(settings_of(0), 0)) for _ in range(3)] == order


def test_text_appended_before_the_prefill_is_not_lost(speaker: Checkpoint) -> None:
    slot_cache = runner_of(speaker).slot_cache
    slot = slot_cache.allocate(SlotInputs(settings_of(0), 0, [1, 2], bans_eos=True, is_open=True))
    slot_cache.append_token_ids(slot, [3], is_last=True)
    slot_cache.write([slot])
    assert slot_cache.trailing[slot, :4].tolist() == [1, 2, 3, slot_cache.pad]
    assert (slot_cache.inputs[slot].text_frames, slot_cache.eos_banned_until[slot]) == (UNLIMITED_FRAMES, 3)


@pytest.fixture
def eager(speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Return a CustomVoice checkpoint whose talker gives EOS the highest logit in every frame."""
    prefer_eos(speaker, monkeypatch)
    return speaker


def frames_until_the_end(runner: ModelRunner, slot: int, prompt: Prompt) -> int:
    result, made = read(runner, slot, prompt), 0
    while not result.ended[0]:
        result, made = runner.step(np.array([slot])).result(), made + 1
        assert made < 30
    return made


def test_end_token_is_blocked_until_the_last_text_frame_if_requested(eager: Checkpoint) -> None:
    runner, prompt = runner_of(eager), prompt_of(eager, 0, 9)

    def end_of(ids: list[int], **kwargs: bool) -> int:
        return frames_until_the_end(
            runner, runner.slot_cache.allocate(SlotInputs(settings_of(0), 1, ids, **kwargs)), prompt
        )

    assert end_of([1, 2, 3, 4, 5]) == 2  # Without `bans_eos`, the row ends as in the reference implementation.
    assert end_of([1, 2, 3, 4, 5], bans_eos=True) == 5
    assert end_of([1], bans_eos=True) == 2
    assert end_of([], bans_eos=True) == 2


def test_speech_ends_only_after_its_text_is_finished(eager: Checkpoint) -> None:
    runner, prompt = runner_of(eager), prompt_of(eager, 0, 9)
    slot = runner.slot_cache.allocate(SlotInputs(settings_of(0), 1, [1, 2, 3], bans_eos=True, is_open=True))
    assert not read(runner, slot, prompt).ended[0]
    assert not any(runner.step(np.array([slot])).result().ended[0] for _ in range(3))
    runner.slot_cache.append_token_ids(slot, [4, 5, 6], is_last=True)
    assert [bool(runner.step(np.array([slot])).result().ended[0]) for _ in range(3)] == [False, False, True]


def test_restarted_slot_equals_a_newly_allocated_slot(speaker: Checkpoint) -> None:
    runner, prompts = runner_of(speaker), [prompt_of(speaker, serial, 20) for serial in (1, 2)]
    fresh = spoken(
        runner, runner.slot_cache.allocate(SlotInputs(settings_of(0), 6, [3, 4], bans_eos=True)), prompts[1], FRAMES
    )
    slot = runner.slot_cache.allocate(SlotInputs(settings_of(0), 6, [5] * 7, bans_eos=True, is_open=True))
    spoken(runner, slot, prompts[0], 8)
    runner.slot_cache.restart(slot, [3, 4])
    assert runner.slot_cache.host_position[slot] == 0
    assert np.array_equal(spoken(runner, slot, prompts[1], FRAMES), fresh)
    assert runner.slot_cache.eos_banned_until[slot] == 2


def test_batch_uses_the_sampling_settings_of_its_rows(speaker: Checkpoint) -> None:
    slot_cache = runner_of(speaker).slot_cache
    slots = np.array([slot_cache.allocate(SlotInputs(settings_of(serial), 0, [])) for serial in range(4)])
    slot_cache.write(slots.tolist())
    level, vocabulary = slot_cache.talker_level, speaker.config.talker.vocab_size

    def output(*members: int) -> tuple[int, bool]:
        rows = slots[list(members)]
        settings = level.of(rows, torch.from_numpy(rows))
        assert settings.top_k.tolist() == [(50, vocabulary, vocabulary, 3)[member] for member in members]
        return settings.widest_k, settings.any_top_p

    assert output(0, 3) == (50, False)
    assert output(3) == (3, False)
    assert output(0, 1) == (vocabulary, True)
    assert output(2) == (vocabulary, False)
    slot_cache.release(int(slots[1]))
    slots[1] = slot_cache.allocate(SlotInputs(dataclasses.replace(settings_of(3)), 0, []))
    assert level.of(slots[1:2], torch.from_numpy(slots[1:2])).any_top_p is False


@pytest.mark.parametrize("slots", [1, 3, 6])
def test_every_graph_is_captured_for_any_number_of_slots(
    quick: Checkpoint, slots: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With six slots, a batch of first frames is padded to eight rows.

    This is more than the number of slots.
    """
    ModelRunner(quick, LateDevice(slots), torch.float32, slots, 64, 16).capture()
    assert not caplog.records
