"""Tests that a fault in one request does not affect other requests.

The tests cover promise E1 of docs/reliability.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.code2wav_worker import Code2WavWorker
from runtime.engine.audio.voice_cache import VoiceCache
from runtime.engine.engine import Engine
from runtime.engine.execution.frame import Frame
from runtime.engine.execution.model_runner import ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.scheduling import segment_runner
from runtime.engine.scheduling.waiting_queue import WaitingQueue
from runtime.errors import EngineDead, GenerationFailed
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import AudioChunk, Broken, Finished, Sampling, SpeechEvent, Started
from tests.support.engines import (
    EventRecorder,
    assert_slots_are_free,
    cloned,
    custom_voice,
    drain,
    engine_of,
    raise_refusal,
    run_turns,
    speak,
    speak_together,
)
from tests.support.timeouts import until

WAIT_S = 60
TEXTS = ("Hello world, the old phone is slow.", "You speak.", "A warm young voice says it again and again.")


class Boom(Exception):
    """Exception class that no code of the engine expects."""


def failing(call: Callable[..., Any], nth: int) -> Callable[..., Any]:
    """Return a wrapper of ``call`` that raises an error at the ``nth`` call."""
    calls = 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Boom
        return call(*args, **kwargs)

    return wrapped


def failed(recorder: EventRecorder) -> bool:
    return isinstance(recorder.end, Broken) and type(recorder.end.error) is GenerationFailed


def unreadable(read: Callable[..., list[int]], slot: int) -> Callable[..., list[int]]:
    """Return a wrapper of ``read`` that fails for a slot, first in a batch and then alone.

    After these two failures, the slot can be prefilled.
    """
    is_broken = True

    def reading(runner: ModelRunner, wanted: list[tuple[int, Prompt, int]]) -> list[int]:
        nonlocal is_broken
        if is_broken and any(expected == slot for expected, _, _ in wanted):
            is_broken = len(wanted) > 1
            raise Boom
        return read(runner, wanted)

    return reading


@pytest.mark.parametrize("where", ["prefill_chunks", "open", "build_prompt"])
@pytest.mark.logs_errors
def test_error_at_the_start_of_a_request_fails_only_that_request(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    engine = engine_of(speaker, slots=3)
    owner = {"prefill_chunks": ModelRunner, "open": Code2WavStreams, "build_prompt": segment_runner}[where]
    real = getattr(owner, where)
    monkeypatch.setattr(owner, where, unreadable(real, 1) if where == "prefill_chunks" else failing(real, 2))
    requests = [custom_voice(seed=index) for index in range(4)]
    recorders = [EventRecorder() for _ in requests]
    for request, recorder in zip(requests, recorders, strict=True):
        engine.submit(request, recorder)
    drain(engine)
    assert [failed(recorder) for recorder in recorders] == [False, True, False, False]
    monkeypatch.undo()
    expected = speak(engine_of(speaker), requests[0]).codes
    for index in (0, 2, 3):
        assert np.array_equal(recorders[index].codes, expected)
    assert_slots_are_free(engine)


@pytest.mark.logs_errors
def test_unreadable_reference_fails_only_its_request(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(cloner)
    monkeypatch.setattr(VoiceCache, "read", failing(VoiceCache.read, 1))
    broken, whole = EventRecorder(), EventRecorder()
    engine.submit(cloned(), broken)
    engine.submit(cloned(seconds=1.4), whole)
    drain(engine)
    assert failed(broken)
    assert len(whole.codes) == 12


@pytest.mark.parametrize(("owner", "where", "nth"), [(ModelRunner, "step", 3), (Code2WavStreams, "_piece", 1)])
@pytest.mark.logs_errors
def test_transient_step_failure_is_retried_and_fails_no_request(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch, owner: type, where: str, nth: int
) -> None:
    engine = engine_of(speaker, slots=2)
    monkeypatch.setattr(owner, where, failing(getattr(owner, where), nth))
    recorders = [EventRecorder() for _ in range(4)]
    for recorder in recorders:
        engine.submit(custom_voice(), recorder)
    drain(engine)
    alone = speak(engine_of(speaker), custom_voice())
    for recorder in recorders:
        assert np.array_equal(recorder.codes, alone.codes)
        assert np.array_equal(recorder.pcm, alone.pcm)


def fail_early(monkeypatch: pytest.MonkeyPatch, slot: int) -> None:
    """Make each decode step that contains a slot fail before the state of its rows is changed."""
    step = Frame.next

    def spoiled(frame: Frame, rows: Tensor, *args: Any, **kwargs: bool) -> Tensor:
        if slot in rows.tolist():
            raise Boom
        return step(frame, rows, *args, **kwargs)

    monkeypatch.setattr(Frame, "next", spoiled)


def fail_late(monkeypatch: pytest.MonkeyPatch, slot: int) -> None:
    """Make each frame that contains a slot fail before the progress of its rows is stored."""
    draw = Frame.codes

    def spoiled(frame: Frame, hidden: Tensor, rows: Tensor, *args: Any, **ways: bool) -> tuple[Tensor, Tensor]:
        made = draw(frame, hidden, rows, *args, **ways)
        if slot in rows.tolist():
            raise Boom
        return made

    monkeypatch.setattr(Frame, "codes", spoiled)


@pytest.mark.slow("0-fail_late", "6-fail_late", "3-fail_late", "6-fail_early", "0-fail_early")
@pytest.mark.parametrize("spoil", [fail_early, fail_late])
@pytest.mark.parametrize("guilty", [0, 3, 6])
@pytest.mark.logs_errors
def test_row_that_fails_repeatedly_ends_and_other_rows_are_unchanged(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch, int], None], guilty: int
) -> None:
    """One of seven rows with different texts, lengths and sampling settings fails."""
    requests = [
        custom_voice(
            TEXTS[index % len(TEXTS)],
            seed=100 + index,
            max_frames=10 + 3 * (index % 3),
            sampling=Sampling(greedy=True) if index % 3 == 0 else Sampling(temperature=0.8 + index / 10),
        )
        for index in range(7)
    ]
    engine = engine_of(quick, slots=7)
    recorders = [EventRecorder() for _ in requests]
    for request, recorder in zip(requests, recorders, strict=True):
        engine.submit(request, recorder)
    while min(len(recorder.codes) for recorder in recorders) < 3:
        engine.tick()
    spoil(monkeypatch, guilty)  # The requests have the slots 0 to 6 in this order.
    drain(engine)
    assert [failed(recorder) for recorder in recorders] == [index == guilty for index in range(7)]
    monkeypatch.undo()
    solo = engine_of(quick, slots=1)
    for index, (request, recorder) in enumerate(zip(requests, recorders, strict=True)):
        alone = speak(solo, request)
        count = len(recorder.codes)
        assert count == len(alone.codes) or index == guilty
        assert np.array_equal(recorder.codes, alone.codes[:count])
        assert np.array_equal(recorder.pcm, alone.pcm[: len(recorder.pcm)])
    assert_slots_are_free(engine)


@pytest.mark.logs_errors
def test_failing_first_frame_ends_only_its_request(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(quick, slots=3)
    fail_late(monkeypatch, 1)  # Slot 1 belongs to the second request.
    recorders = speak_together(engine, *(custom_voice(seed=index, sampling=Sampling()) for index in range(3)))
    assert [failed(recorder) for recorder in recorders] == [False, True, False]
    monkeypatch.undo()
    for index in (0, 2):
        alone = speak(engine_of(quick), custom_voice(seed=index, sampling=Sampling()))
        assert np.array_equal(recorders[index].pcm, alone.pcm)


@pytest.mark.logs_errors
def test_completed_frame_that_cannot_be_read_is_not_repeated(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CpuDevice()
    engine = engine_of(speaker, slots=2, device=device)
    monkeypatch.setattr(device, "to_host", failing(device.to_host, 4))
    recorders = [EventRecorder() for _ in range(3)]
    for recorder in recorders:
        engine.submit(custom_voice(), recorder)
    drain(engine)
    assert [failed(recorder) for recorder in recorders] == [True, True, False]
    assert np.array_equal(recorders[2].codes, speak(engine_of(speaker), custom_voice()).codes)


@pytest.mark.parametrize("kind", ["Started", "AudioChunk", "Finished"])
@pytest.mark.logs_errors
def test_failing_event_sink_ends_only_its_request(speaker: Checkpoint, kind: str) -> None:
    engine, other, heard_by_bad = engine_of(speaker, slots=2), EventRecorder(), EventRecorder()

    def bad(event: SpeechEvent) -> None:
        heard_by_bad(event)
        if type(event).__name__ == kind:
            raise Boom

    engine.submit(custom_voice(max_frames=30), bad)
    engine.submit(custom_voice(max_frames=12), other)
    drain(engine)
    assert isinstance(other.end, Finished)
    assert len(other.codes) == 12
    assert isinstance(heard_by_bad.end, Finished)
    assert engine.load().active == 0
    if kind == "AudioChunk":
        assert len(heard_by_bad.codes) < 30


@pytest.mark.logs_errors
def test_death_of_the_engine_thread_is_reported_to_all_requests(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(speaker, slots=1)
    monkeypatch.setattr(WaitingQueue, "report_places", failing(WaitingQueue.report_places, 3))
    recorders = [EventRecorder() for _ in range(3)]
    for recorder in recorders:
        engine.submit(custom_voice(max_frames=50), recorder)
    engine.start()
    until(lambda: all(recorder.ended for recorder in recorders))
    for recorder in recorders:
        assert isinstance(recorder.end, Broken)
        assert isinstance(recorder.end.error, EngineDead)
    assert not engine.alive
    with pytest.raises(EngineDead):
        raise_refusal(engine, custom_voice())
    engine.close()


# --- Tests of the worker that runs Code2Wav.


@pytest.mark.logs_errors
def test_audio_decoding_failure_ends_only_its_request(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(quick, slots=3, sound_work=64)
    recorders, decode = [EventRecorder() for _ in range(3)], Code2WavStreams.decode
    for recorder in recorders:
        engine.submit(custom_voice(max_frames=14), recorder)
    run_turns(engine, 3)

    together = 0

    def spoiled(streams: Code2WavStreams, slots: list[int], codes: Any, stream: Stream, **kwargs: bool) -> Any:
        nonlocal together
        if 1 in slots:  # Slot 1 belongs to the second request.
            together = max(together, len(slots))
            codes[slots.index(1), -1] = 10**6  # No codebook has an entry with this number, so decoding fails.
        return decode(streams, slots, codes, stream, **kwargs)

    monkeypatch.setattr(Code2WavStreams, "decode", spoiled)
    drain(engine)
    assert together > 1
    assert [failed(recorder) for recorder in recorders] == [False, True, False]
    monkeypatch.undo()
    after = speak(engine, custom_voice(max_frames=14))
    for recorder in [recorders[0], recorders[2], after]:
        assert np.array_equal(recorder.pcm, speak(engine_of(quick), custom_voice(max_frames=14)).pcm)


def test_end_of_one_request_keeps_the_pending_audio_of_other_requests(
    quick: Checkpoint, held_worker: Code2WavWorker
) -> None:
    """The request that ends withdraws a queued batch.

    The chunks of other requests in this batch must be queued again.
    """
    engine = engine_of(quick, slots=3)
    recorders = [EventRecorder() for _ in range(3)]
    for index, recorder in enumerate(recorders):
        engine.submit(custom_voice(max_frames=2 + index), recorder)
    run_turns(engine, 8)
    for _ in range(20):
        if (task := held_worker.next_task()) is not None:
            task()
        engine.tick()
    assert [len(recorder.codes) for recorder in recorders] == [2, 3, 4]
    assert all(recorder.ended for recorder in recorders)


class Slow(EventRecorder):
    """Event sink that blocks the worker after its decision to send audio."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def __call__(self, event: SpeechEvent) -> None:
        if isinstance(event, AudioChunk):
            self.inside.set()
            assert self.go_on.wait(WAIT_S)
        super().__call__(event)


def test_no_audio_is_sent_after_a_concurrent_cancel(quick: Checkpoint) -> None:
    """The engine's thread cancels the request while the worker is about to send audio."""
    engine, recorder = engine_of(quick, slots=1), Slow()
    engine.start()
    ticket = engine.submit(custom_voice(max_frames=50), recorder)
    assert recorder.inside.wait(WAIT_S)
    engine.cancel(ticket)
    time.sleep(0.1)
    recorder.go_on.set()
    until(lambda: recorder.ended)
    engine.close()
    assert isinstance(recorder.end, Finished)
    assert recorder.end.stats.frames == len(recorder.codes)


def test_pending_audio_of_a_cancelled_request_does_not_reach_the_next_request(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(quick, slots=1)
    decode, inside, go_on = Code2WavStreams.decode, threading.Event(), threading.Event()

    def held(streams: Code2WavStreams, slots: list[int], codes: Any, stream: Stream, **kwargs: bool) -> Any:
        sounds = decode(streams, slots, codes, stream, **kwargs)
        inside.set()
        assert go_on.wait(WAIT_S)
        return sounds

    monkeypatch.setattr(Code2WavStreams, "decode", held)
    engine.start()
    recorder, after = EventRecorder(), EventRecorder()
    ticket = engine.submit(custom_voice(max_frames=50), recorder)
    assert inside.wait(WAIT_S)
    engine.cancel(ticket)
    engine.submit(custom_voice(seed=3, voice="ryan", max_frames=6), after)
    until(lambda: recorder.ended)
    assert isinstance(recorder.end, Finished)
    assert recorder.end.stats.frames == 0
    until(lambda: after.events_of(Started))
    go_on.set()
    until(lambda: after.ended)
    engine.close()
    assert not recorder.chunks
    expected = speak(engine_of(quick), custom_voice(seed=3, voice="ryan", max_frames=6))
    assert np.array_equal(after.pcm, expected.pcm)


@pytest.mark.logs_errors
def test_error_message_does_not_contain_its_cause(speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Engine = engine_of(speaker)

    def leak(*_: object) -> None:
        raise RuntimeError("/home/somebody/secret: traceback")

    monkeypatch.setattr(ModelRunner, "prefill_chunks", leak)
    recorder = speak(engine, custom_voice())
    assert isinstance(recorder.end, Broken)
    assert "secret" not in str(recorder.end.error)


@pytest.mark.logs_errors
def test_audio_stream_that_cannot_be_opened_ends_only_its_request(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(quick)
    monkeypatch.setattr(Code2WavStreams, "open", failing(Code2WavStreams.open, 2))
    recorders = speak_together(engine, *(custom_voice(max_frames=4 + index) for index in range(3)))
    assert [isinstance(recorder.end, Broken) for recorder in recorders] == [False, True, False]
    assert recorders[1].end.error.code == "generation_failed"
    assert [len(recorder.codes) for recorder in recorders] == [4, 0, 6]
