"""Tests for the guards that stop runaway speech (speech after the end of its text).

Without guards, such speech would continue until its frame limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.code2wav_worker import Code2WavWorker
from runtime.engine.audio.guards import REPEATED_FRAMES, SILENT_FRAMES, RunawayDetector, estimate_speech_frames
from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import FrameResult
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Guard, SpeechRequest, Split, StopReason
from tests.support.engines import (
    Codes,
    EventRecorder,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    speak,
    streamed,
)
from tests.support.frames import Slots, change_frames, end_parts_after, record_launches

pytestmark = pytest.mark.usefixtures("each_device")

TEXT = "a"  # Text whose IDs are all used after one second.
LOOP = 3  # Length of the repeated loop in frames.


def looping(engine: Engine, slot: int | None = None) -> None:
    """Make one slot, or all slots, repeat a few codes in all later frames."""

    def loop(slots: Slots, frames: Slots, result: FrameResult) -> FrameResult:
        mine = slots == (slots if slot is None else slot)
        result.codes[mine] = (frames[mine] % LOOP)[:, None]
        return result

    change_frames(engine, loop)


def counting(engine: Engine) -> None:
    """Replace the codes of all rows by a counter, in which guards detect no repetition."""

    def count(slots: Slots, frames: Slots, result: FrameResult) -> FrameResult:
        result.codes[:] = (frames % 60)[:, None]
        return result

    change_frames(engine, count)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the decoded audio of all rows by silence."""

    def quiet(self: object, slots: list[int], codes: torch.Tensor, stream: Stream, **_: bool) -> list[bytes | None]:
        return [bytes(2 * 1920 * codes.shape[1]) for _ in slots]

    monkeypatch.setattr(Code2WavStreams, "decode", quiet)
    monkeypatch.setattr(Code2WavStreams, "can_launch_first_audio", lambda streams, voice: False)


def free(text: str = TEXT, **kwargs: Any) -> SpeechRequest:
    """Return a request without max_frames, which only the frame budget and guards can end."""
    return custom_voice(text, **{"max_frames": None, **kwargs})


def ended_by(recorder: EventRecorder) -> tuple[StopReason, Guard | None]:
    return recorder.end.stop_reason, recorder.end.stats.guard


def test_frame_budget_ends_speech_without_repetition_or_silence(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    counting(engine)
    recorder = speak(engine, free())
    assert ended_by(recorder) == (StopReason.RUNAWAY, Guard.BUDGET)
    assert len(recorder.codes) == 53


@pytest.mark.parametrize("live", [False, True])
def test_repetition_after_the_text_is_stopped(quick: Checkpoint, live: bool) -> None:
    engine = engine_of(quick)
    looping(engine)
    text = "Hello world, you speak."
    recorder = EventRecorder()
    if live:
        ticket = engine.submit(streamed("", open_text=True, max_frames=400), recorder)
        engine.append_text(ticket, text)
        engine.finish_text(ticket)
    else:
        engine.submit(free(text, max_frames=400), recorder)
    drain(engine)
    assert ended_by(recorder) == (StopReason.RUNAWAY, Guard.REPETITION)
    spoken = estimate_speech_frames(text)
    assert spoken + REPEATED_FRAMES - LOOP <= len(recorder.codes) <= spoken + REPEATED_FRAMES + 8
    assert recorder.end.stats.frames == len(recorder.codes)


@pytest.mark.usefixtures("silent")
def test_silence_after_the_text_is_stopped(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    counting(engine)
    recorder = speak(engine, free(max_frames=400))
    assert ended_by(recorder) == (StopReason.RUNAWAY, Guard.SILENCE)
    spoken = estimate_speech_frames(TEXT)
    assert spoken + SILENT_FRAMES <= len(recorder.codes) <= spoken + SILENT_FRAMES + 8


@pytest.mark.usefixtures("silent")
def test_repetition_runs_to_the_frame_limit_if_detection_is_off(quick: Checkpoint) -> None:
    engine = engine_of(quick, guard=False)
    looping(engine)
    recorder = speak(engine, free(max_frames=80))
    assert ended_by(recorder) == (StopReason.MAX_TOKENS, None)
    assert len(recorder.codes) == 80


def test_repetition_while_the_text_is_unfinished_is_not_stopped(quick: Checkpoint) -> None:
    """The guard needs the length of the text, which is not known before the text is closed."""
    engine = engine_of(quick)
    looping(engine)
    recorder = EventRecorder()
    ticket = engine.submit(streamed("x " * 70, open_text=True, max_frames=400), recorder)
    run_turns(engine, 90)
    assert len(recorder.codes) > REPEATED_FRAMES + estimate_speech_frames(TEXT)
    assert not recorder.ended
    engine.cancel(ticket)
    drain(engine)


def test_other_rows_are_unaffected_by_a_runaway(quick: Checkpoint) -> None:
    request = custom_voice(max_frames=70)
    alone = speak(engine_of(quick), request)
    engine = engine_of(quick, slots=2)
    recorder, neighbour = EventRecorder(), EventRecorder()
    engine.submit(free(max_frames=400), recorder)
    engine.tick()
    looping(engine, 0)
    engine.submit(request, neighbour)
    drain(engine)
    assert ended_by(recorder) == (StopReason.RUNAWAY, Guard.REPETITION)
    assert np.array_equal(neighbour.pcm, alone.pcm)


@pytest.mark.slow
@pytest.mark.parametrize("guard", [Guard.REPETITION, Guard.SILENCE])
def test_runaway_is_detected_at_the_same_frame_for_any_chunking(
    quick: Checkpoint, request: pytest.FixtureRequest, guard: Guard
) -> None:
    recorders = []
    if guard is Guard.SILENCE:
        request.getfixturevalue("silent")
    for work, first in ((1, 1), (4, 1), (16, 5), (16, 16)):
        engine = engine_of(quick, sound_work=work)
        if guard is Guard.REPETITION:
            looping(engine)
        recorders.append(speak(engine, free(max_frames=300, first_chunk_frames=first)))
    assert {ended_by(recorder) for recorder in recorders} == {(StopReason.RUNAWAY, guard)}
    assert len({len(recorder.codes) for recorder in recorders}) == 1
    assert len({recorder.pcm.tobytes() for recorder in recorders}) == 1
    assert all(len(recorder.pcm) == 1920 * len(recorder.codes) for recorder in recorders)
    assert all(recorder.end.stats.frames == len(recorder.codes) for recorder in recorders)


def test_chunk_is_checked_by_the_detector_of_its_own_segment(
    quick: Checkpoint, held_worker: Code2WavWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next segment may start while the worker decodes the last chunk of a segment."""
    monkeypatch.setattr(
        "runtime.engine.scheduling.code2wav_scheduler.estimate_speech_end", lambda sequence: sequence.before
    )
    check, detectors = RunawayDetector.check_frames, []

    def recorded(detector: RunawayDetector, codes: Codes, pcm: bytes) -> Guard | None:
        detectors.append(detector)
        return check(detector, codes, pcm)

    monkeypatch.setattr(RunawayDetector, "check_frames", recorded)
    engine, launches = engine_of(quick), record_launches(monkeypatch)
    end_parts_after(engine, 30)
    request = custom_voice("One two three four. Five six seven eight.", split=Split.SENTENCE, max_frames=None)
    engine.submit(request, EventRecorder())
    for turns in (1, 40):  # The first segment ends during the second chunk.
        while (run := held_worker.next_task()) is None:
            engine.tick()
        run_turns(engine, turns)
        run()
    assert len(launches.chunks) == 2
    assert len(detectors) > 1
    assert all(detector is detectors[0] for detector in detectors)
