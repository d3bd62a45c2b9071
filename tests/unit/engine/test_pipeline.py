"""Tests for the pipelined engine, compared with an engine that waits for each frame."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from runtime.device.interface import Graph, Stream
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Mode, Split, StopReason
from runtime.settings import ModeSettings
from tests.support.engines import (
    EventRecorder,
    assert_all_same,
    assert_same,
    cloned,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    seeded,
    speak,
    speak_on_thread,
    speak_together,
    streamed,
)
from tests.support.frames import end_parts_after, record_launches
from tests.support.late_device import LateDevice

pytestmark = pytest.mark.slow

ResultT = TypeVar("ResultT")

LATE = [(seed, chance) for chance in (0.0, 0.2, 0.9) for seed in (0, 1)]
each_lateness = pytest.mark.parametrize(("seed", "chance"), LATE)


# --- Tests of rows that end while one of their frames is in flight.


@pytest.mark.parametrize("most", [None, 10])
@each_lateness
def test_next_segment_is_unaffected_by_a_late_frame_of_the_previous_segment(
    quick: Checkpoint, seed: int, chance: float, most: int | None
) -> None:
    words: dict[str, Any] = {"split": Split.SENTENCE, "max_frames": most, **seeded(5)}
    request = custom_voice("Hello world. You speak. It is slow.", **words)
    plain, late = engine_of(quick), engine_of(quick, device=LateDevice(seed, chance))
    for engine in (plain, late):
        end_parts_after(engine, 4)
    expected = speak(plain, request)
    assert (expected.end.stats.parts, len(expected.codes)) == (3, most or 12)
    assert_same(speak(late, request), expected)


@each_lateness
def test_slot_of_an_ended_request_serves_the_next_request_correctly(
    quick: Checkpoint, seed: int, chance: float
) -> None:
    requests = [custom_voice("Hello world."[: 5 + index], max_frames=None, **seeded(index)) for index in range(5)]
    engines = engine_of(quick, slots=1), engine_of(quick, slots=1, device=LateDevice(seed, chance))
    for engine in engines:
        end_parts_after(engine, lambda number: 2 + number)
    expected = [speak(engines[0], request) for request in requests]
    assert [len(recorder.codes) for recorder in expected] == [3, 4, 5, 6, 7]
    assert_all_same(speak_together(engines[1], *requests), expected)


@pytest.mark.parametrize("seed", range(4))
def test_cancel_at_any_time_leaves_other_requests_unaffected(quick: Checkpoint, seed: int) -> None:
    requests = [custom_voice(max_frames=4 + 5 * (index % 3), **seeded(index)) for index in range(12)]
    alone = [speak(engine_of(quick, slots=1), request) for request in requests]
    stream = np.random.RandomState(seed)
    engine, recorders = engine_of(quick, slots=3, device=LateDevice(seed, 0.3)), [EventRecorder() for _ in requests]
    tickets: list[int] = []
    doomed = set(stream.choice(12, 5, replace=False).tolist())
    for request, recorder in zip(requests, recorders, strict=True):
        tickets.append(engine.submit(request, recorder))
        run_turns(engine, stream.randint(0, 6))
        for index in doomed & set(range(len(tickets))):
            if stream.randint(4) == 0:
                engine.cancel(tickets[index])
    drain(engine)
    for index, recorder in enumerate(recorders):
        if index in doomed and recorder.end.stop_reason is StopReason.CANCELLED:
            assert np.array_equal(recorder.pcm, alone[index].pcm[: len(recorder.pcm)])
        else:
            assert_same(recorder, alone[index])


def test_first_frames_of_cancelled_requests_are_not_assigned_to_other_requests(quick: Checkpoint) -> None:
    """More first frames than slots finish before the host reads a result."""
    request = custom_voice(max_frames=4, **seeded(1))
    alone, device = speak(engine_of(quick), request), LateDevice(0, 0.0)
    modes = dict.fromkeys(Mode, ModeSettings(prefills=8))  # GPUs have the same limit of prefills.
    engine, recorder = engine_of(quick, slots=2, device=device, modes=modes), EventRecorder()
    engine.submit(request, recorder)
    with device.held():
        engine.tick()
        for seed in range(2, 8):
            ticket = engine.submit(custom_voice("Bread.", max_frames=4, **seeded(seed)), EventRecorder())
            engine.tick()
            engine.cancel(ticket)
        engine.tick()
    device.publish_until(Stream.PROMPTS, device.asked[Stream.PROMPTS])
    drain(engine)
    assert_same(recorder, alone)


def test_tokens_appended_during_prefill_are_not_lost(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = speak(engine_of(quick), streamed("Hello world, you speak.", max_frames=12))
    device, recorder = LateDevice(0, 0.0), EventRecorder()
    engine = engine_of(quick, device=device)
    ticket = engine.submit(streamed("", open_text=True, max_frames=12), recorder)
    engine.append_text(ticket, "Hello ")
    launches = record_launches(monkeypatch)
    with device.held():
        run_turns(engine, 3)
        assert launches.chunks
        assert not launches.steps
        engine.append_text(ticket, "world, you ")
        engine.append_text(ticket, "speak.")
        engine.finish_text(ticket)
        engine.tick()
    drain(engine)
    assert_same(recorder, expected)


# --- Tests of the number of frames in flight.


def test_at_most_one_frame_is_launched_ahead_of_results(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device finishes work only when a caller waits."""
    device = LateDevice(0, 0.0)
    engine, launches = engine_of(quick, device=device), record_launches(monkeypatch)
    engine.submit(custom_voice(max_frames=20), EventRecorder())
    while not launches.steps:
        engine.tick()
    with device.held():
        run_turns(engine, 5)
        assert len(launches.steps) == device.max_in_flight + 1
    run_turns(engine, 3)
    assert len(launches.steps) > device.max_in_flight + 1


@pytest.mark.quick
def test_requests_that_arrive_together_share_a_prefill(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    device = LateDevice(0, 0.0)
    engine = engine_of(quick, slots=6, device=device, modes=dict.fromkeys(Mode, ModeSettings(prefills=3)))
    launches = record_launches(monkeypatch)
    for _ in range(5):
        engine.submit(custom_voice(max_frames=4), EventRecorder())
    with device.held():
        run_turns(engine, 4)
        assert [slot for slot, _, _ in launches.chunks] == [0, 1, 2]
    drain(engine)


def test_chunked_prompts_are_equal_on_asynchronous_and_synchronous_devices(cloner: Checkpoint) -> None:
    requests = [cloned(seconds=3.0 + index, max_frames=4) for index in range(3)]
    expected = [speak(engine_of(cloner, slots=1, prompt_piece=16), request) for request in requests]
    engine = engine_of(cloner, slots=2, prompt_piece=16, device=LateDevice(3, 0.2))
    assert_all_same(speak_together(engine, *requests), expected)


@pytest.mark.quick
def test_device_events_wake_the_engine_thread(quick: Checkpoint) -> None:
    requests = [custom_voice(max_frames=6 + index, **seeded(index)) for index in range(6)]
    expected = [speak(engine_of(quick, slots=1), request) for request in requests]
    recorders = speak_on_thread(engine_of(quick, slots=3, device=LateDevice(0, 0.0)), *requests)
    assert_all_same(recorders, expected)


# --- Tests of captured graphs.


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9, 10])
def test_every_graph_size_gives_the_codes_of_rows_that_run_alone(quick: Checkpoint, count: int) -> None:
    """Five rows run in a graph of six rows, and nine rows in a graph of twelve.

    The remaining rows of the graphs are padding.
    """
    requests = [custom_voice(max_frames=5, **seeded(index)) for index in range(count)]
    expected = [speak(engine_of(quick, slots=1), request) for request in requests]
    device = LateDevice(count)
    modes = {mode: ModeSettings(prefills=10) for mode in Mode}
    engine = engine_of(quick, slots=10, device=device, modes=modes)
    assert_all_same(speak_together(engine, *requests), expected)
    assert device.replayed >= 4


def test_engine_runs_without_a_graph_that_cannot_be_captured(
    quick: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(LateDevice):
        def capture(self, work: Callable[[], ResultT], stream: Stream) -> Graph[ResultT]:
            raise RuntimeError("an operation that no graph holds")

    expected = speak(engine_of(quick), custom_voice())
    device = Forgetful()
    with caplog.at_level(logging.WARNING):
        recorder = speak(engine_of(quick, device=device), custom_voice())
    assert_same(recorder, expected)
    assert device.replayed == 0
    assert "an operation that no graph holds" in caplog.text
