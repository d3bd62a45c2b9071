"""Tests for isolation between requests that use the same slots, caches and streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import FrameResult
from runtime.errors import NonFiniteOutput
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Broken, Finished, SpeechRequest
from tests.support.engines import (
    EventRecorder,
    assert_slots_are_free,
    cloned,
    core_of,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    seeded,
    speak_together,
)
from tests.support.frames import Slots, change_frames

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("each_device")]

NONSENSE = 10**9  # Index outside of every table, so that reading it raises an error.


@torch.inference_mode()
def poison(core: EngineCore) -> None:
    """Overwrite all memory that a correct engine never reads, with NaN or invalid values."""
    slot_cache, frame = core.runner.slot_cache, core.runner.frame
    for slot in range(slot_cache.slots):
        written = int(slot_cache.position[slot]) if slot in core.sequences else 0
        for part in (*slot_cache.keys, *slot_cache.values):
            part[slot, :, written:] = math.nan
    for slot in slot_cache.free_slots:
        for ints in (slot_cache.position, slot_cache.frame, slot_cache.codes, slot_cache.trailing, slot_cache.seed):
            ints[slot] = NONSENSE
        slot_cache.penalty[slot], slot_cache.seen[slot] = math.nan, True
        for level in (slot_cache.talker_level, slot_cache.predictor_level):
            level.temperature[slot], level.top_p[slot] = math.nan, math.nan
            level.top_k[slot], level.greedy[slot] = -NONSENSE, True
        slot_cache.host_position[slot] = NONSENSE
        for part in core.code2wav_streams.network.state.tensors():  # type: ignore[attr-defined]
            part[slot] = math.nan if part.is_floating_point() else -NONSENSE
    for cache in (frame.cache, frame.first_frame_cache):
        cache.keys.fill_(math.nan)
        cache.values.fill_(math.nan)
        cache.used = NONSENSE


def drain_poisoned(engine: Engine, requests: list[SpeechRequest]) -> list[EventRecorder]:
    """Serve requests while unused memory is overwritten before every tick.

    The requests are submitted one tick apart. The result has the events of each request.
    """
    recorders: list[EventRecorder] = []

    def spoil() -> None:
        for core in engine.registry.cores:
            poison(core)
        if len(recorders) < len(requests):
            recorders.append(EventRecorder())
            engine.submit(requests[len(recorders) - 1], recorders[-1])

    drain(engine, before_tick=spoil)
    assert len(recorders) == len(requests)
    return recorders


def assert_identical(left: list[EventRecorder], right: list[EventRecorder]) -> None:
    for heard, other in zip(left, right, strict=True):
        assert np.array_equal(heard.codes, other.codes)
        assert np.array_equal(heard.pcm, other.pcm)
        assert isinstance(heard.end, Finished)
        assert heard.end.stop_reason == other.end.stop_reason


def test_invalid_data_in_unused_slots_changes_no_output(speaker: Checkpoint) -> None:
    requests = [
        custom_voice("Hello."[: 2 + index % 4], max_frames=2 + 3 * (index % 4), **(seeded(index) if index % 2 else {}))
        for index in range(10)
    ]
    clean = speak_together(engine_of(speaker, slots=3), *requests, apart=1)
    assert_identical(drain_poisoned(engine_of(speaker, slots=3), requests), clean)


def test_invalid_data_in_unused_streams_does_not_change_a_clone(cloner: Checkpoint) -> None:
    requests = [cloned(seconds=1.2 + 0.4 * (index % 3), x_vector_only=index == 2, max_frames=6) for index in range(6)]
    clean = speak_together(engine_of(cloner, slots=2), *requests, apart=1)
    assert_identical(drain_poisoned(engine_of(cloner, slots=2), requests), clean)


def speak_with_a_bad_row(speaker: Checkpoint, spoil: str) -> tuple[EventRecorder, list[EventRecorder]]:
    """Run three rows, make the middle row invalid after some frames, and return all events.

    Returns:
        Events of the middle row, and events of the two other rows.
    """
    engine = engine_of(speaker, slots=3)
    runner = core_of(engine).runner
    requests = [custom_voice(max_frames=16, **seeded(index)) for index in range(3)]
    recorders = [EventRecorder() for _ in requests]
    for request, recorder in zip(requests, recorders, strict=True):
        engine.submit(request, recorder)
    run_turns(engine, 5)
    if spoil == "keys":
        runner.slot_cache.keys[0][1] = math.nan
    else:

        def flag(slots: Slots, frames: Slots, result: FrameResult) -> FrameResult:
            return FrameResult(result.codes, result.ended, slots != 1)

        change_frames(engine, flag)
    engine.tick()
    runner.__dict__.pop("step", None)
    drain(engine)
    return recorders[1], [recorders[0], recorders[2]]


def test_non_finite_row_ends_and_other_rows_are_unchanged(speaker: Checkpoint) -> None:
    broken, neighbours = speak_with_a_bad_row(speaker, "keys")
    assert isinstance(broken.end, Broken)
    assert isinstance(broken.end.error, NonFiniteOutput)
    assert 0 < broken.end.stats.frames < 16
    # The second run has the same batch shapes but no NaN. One row is only marked as non-finite.
    _, untouched = speak_with_a_bad_row(speaker, "flag")
    assert_identical(neighbours, untouched)


@pytest.mark.parametrize("where", ["talker", "predictor"])
def test_overflowing_weights_end_the_request_with_an_error(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    talker = speaker.talker
    weight = {"talker": talker.model.norm.weight, "predictor": talker.code_predictor.model.norm.weight}[where]
    monkeypatch.setattr(weight, "data", torch.full_like(weight, math.inf))
    engine = engine_of(speaker)
    recorder = EventRecorder()
    engine.submit(custom_voice(), recorder)
    drain(engine)
    assert isinstance(recorder.end, Broken)
    assert isinstance(recorder.end.error, NonFiniteOutput)
    assert not recorder.chunks


def test_non_finite_audio_is_an_error_and_not_silence(speaker: Checkpoint) -> None:
    engine, recorders = engine_of(speaker, slots=2), [EventRecorder(), EventRecorder()]
    for recorder in recorders:
        engine.submit(custom_voice(max_frames=16), recorder)
    while not all(recorder.chunks for recorder in recorders):
        engine.tick()
    with torch.inference_mode():
        core_of(engine).code2wav_streams.network.state.convs[0][1] = math.nan  # type: ignore[attr-defined]
    drain(engine)
    (whole,) = speak_together(engine_of(speaker, slots=1), custom_voice(max_frames=16))
    other, victim = recorders
    assert isinstance(other.end, Finished)
    assert np.array_equal(other.codes, whole.codes)
    assert isinstance(victim.end, Broken)
    assert isinstance(victim.end.error, NonFiniteOutput)


def test_slot_serves_the_next_request_after_a_failure(speaker: Checkpoint) -> None:
    engine = engine_of(speaker, slots=1)
    recorder, after = EventRecorder(), EventRecorder()
    engine.submit(custom_voice(max_frames=16), recorder)
    engine.tick()
    core_of(engine).runner.slot_cache.keys[1][0] = math.nan
    engine.submit(custom_voice(), after)
    drain(engine)
    assert isinstance(recorder.end, Broken)
    (fresh,) = speak_together(engine_of(speaker, slots=1), custom_voice())
    assert_identical([after], [fresh])


def test_slots_are_released_after_more_requests_than_slots(speaker: Checkpoint) -> None:
    engine = engine_of(speaker, slots=2)
    speak_together(engine, *[custom_voice(max_frames=2)] * 5)
    assert_slots_are_free(engine)
