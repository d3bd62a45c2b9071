"""Tests for flow control: slow readers, too few slots and queue timeouts."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.errors import Overloaded, QueueTimeout
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Broken, Finished, Mode, Queued, Started, StopReason
from runtime.settings import Limits, ModeSettings
from tests.support.engines import (
    EventRecorder,
    VirtualClock,
    custom_voice,
    drain,
    engine_of,
    raise_refusal,
    run_turns,
    speak,
)
from tests.support.frames import record_launches

FRAME_S = 0.08
SAMPLES = 1920


def patient(engine: Engine, frames: int = 60) -> tuple[int, EventRecorder]:
    """Submit a request with acknowledgements of audio.

    The result is the request's ticket and event sink.
    """
    recorder = EventRecorder()
    return engine.submit(custom_voice(max_frames=frames, acknowledged=True), recorder), recorder


# --- Tests of clients that read their audio slowly.


def test_reader_without_acknowledgements_gets_a_bounded_number_of_frames(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    engine, launches = engine_of(quick, slots=2, reader_s=0.8, clock=clock), record_launches(monkeypatch)
    _, stuck = patient(engine)
    other = EventRecorder()
    engine.submit(custom_voice(max_frames=30), other)
    for _ in range(60):
        engine.tick()
        clock.now += FRAME_S
    assert len(stuck.codes) == 1 + launches.frames_of(0) == 10
    assert isinstance(other.end, Finished)
    assert len(other.codes) == 30
    assert not stuck.ended


def test_row_generates_as_much_audio_as_is_acknowledged(quick: Checkpoint) -> None:
    engine = engine_of(quick, reader_s=0.8)
    ticket, recorder = patient(engine, frames=24)
    run_turns(engine, 30)
    for taken in (3, 3, 10):
        engine.ack_sent(ticket, taken * SAMPLES)
        run_turns(engine, 30)
        assert len(recorder.codes) == 10 + taken
    engine.ack_sent(ticket, 20 * SAMPLES)
    drain(engine)
    assert np.array_equal(recorder.pcm, speak(engine_of(quick), custom_voice(max_frames=24)).pcm)


@pytest.mark.parametrize("reader_s", [0.1, 0.4, 1.0])
def test_reader_with_a_small_window_does_not_wait_for_a_large_chunk(quick: Checkpoint, reader_s: float) -> None:
    """The row pauses before it has enough frames for a chunk of the usual size.

    Without a smaller chunk, the reader would never acknowledge more audio.
    """
    engine = engine_of(quick, reader_s=reader_s, sound_work=16)
    ticket, recorder = patient(engine, frames=30)
    for _ in range(200):
        engine.tick()
        engine.ack_sent(ticket, len(recorder.pcm))
        if recorder.ended:
            break
    assert len(recorder.codes) == 30


def test_request_without_acknowledgements_is_never_paused(quick: Checkpoint) -> None:
    engine = engine_of(quick, reader_s=0.1)
    assert len(speak(engine, custom_voice(max_frames=20)).codes) == 20


# --- Tests of rows whose audio is far ahead of playback.


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the scheduler treat all frames as slow.

    With the virtual clock, frames take no time.
    """
    monkeypatch.setattr("runtime.engine.scheduling.scheduler.FAST_STEP_SHARE", -1.0)


def test_no_frame_is_decoded_before_pending_first_audio(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(quick, slots=1, clock=VirtualClock())
    # This request measures the durations of frames and chunks, which the scheduler uses.
    speak(engine, custom_voice(max_frames=3))
    launches = record_launches(monkeypatch)
    engine.submit(custom_voice(max_frames=9), recorder := EventRecorder())
    while not recorder.chunks:
        engine.tick()
    assert not launches.steps
    drain(engine)
    assert len(recorder.codes) == 9


@pytest.mark.usefixtures("slow")
def test_playback_reports_change_the_buffered_audio_of_a_row(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    engine, launches = engine_of(quick, slots=1, lead_cap_s=0.5, clock=clock), record_launches(monkeypatch)
    first, second = EventRecorder(), EventRecorder()
    ticket = engine.submit(custom_voice(max_frames=200), first)
    run_turns(engine, 16)
    engine.submit(custom_voice(max_frames=2), second)
    run_turns(engine, 3)
    before = len(launches.steps)
    engine.ack_played(ticket, 1000 * FRAME_S * len(first.codes))
    run_turns(engine, 2)
    assert len(launches.steps) > before, "it has nothing left to play, whatever the clock says"
    engine.ack_played(ticket, 0)
    run_turns(engine, 2)
    before = len(launches.steps)
    clock.now += 0.5
    run_turns(engine, 2)
    assert len(launches.steps) == before, "it has played nothing, whatever the clock says"


def test_acknowledgements_of_unknown_requests_are_ignored(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    recorder = EventRecorder()
    ended = engine.submit(custom_voice(max_frames=1), recorder)
    drain(engine)
    for stranger in (ended, 0, -1, 10**9):
        engine.ack_sent(stranger, 10**9)
        engine.ack_played(stranger, 1e9)
    run_turns(engine, 2)
    assert len(speak(engine, custom_voice(max_frames=2)).codes) == 2


# --- Tests of the queue of requests that have no slot yet.


def test_wait_estimate_is_sent_after_slots_have_been_used(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, clock=clock)
    recorders = [EventRecorder() for _ in range(3)]
    for recorder in recorders:
        engine.submit(custom_voice(max_frames=3), recorder)
    drain(engine, clock, 0.5)
    assert recorders[1].events_of(Queued) == [Queued(0, None)]
    unknown, known = recorders[2].events_of(Queued)
    assert unknown == Queued(1, None)
    assert known.position == 0
    held_ms = recorders[1].end.stats.queue_ms  # The second request waited until the first request ended.
    assert known.eta_ms == pytest.approx(held_ms)


def test_queue_timeout_reports_when_to_retry(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, clock=clock, limits=Limits(queue_s=5.0))
    first, late, later = EventRecorder(), EventRecorder(), EventRecorder()
    engine.submit(custom_voice(max_frames=40), first)
    engine.submit(custom_voice(), late)
    run_turns(engine, 2)
    clock.now += 4.0
    engine.submit(custom_voice(max_frames=2), later)
    run_turns(engine, 2)
    assert not late.ended
    clock.now += 1.1
    run_turns(engine, 1)
    assert isinstance(late.end, Broken)
    assert type(late.end.error) is QueueTimeout
    assert "within 5 s" in str(late.end.error)
    assert late.end.error.retryable
    assert not late.events_of(Started)
    assert later.positions == [1, 0]
    drain(engine)
    assert len(first.codes) == 40
    assert isinstance(later.end, Finished)


def test_request_at_its_queue_timeout_is_served_if_a_slot_is_free(quick: Checkpoint) -> None:
    """A slot becomes free in a tick that takes longer than the queue timeout."""
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, clock=clock, limits=Limits(queue_s=0.0))
    recorder = EventRecorder()
    engine.submit(custom_voice(max_frames=2), recorder)
    engine.run_commands()
    clock.now += 0.001
    drain(engine)
    assert len(recorder.codes) == 2


def test_refusal_reports_when_a_queue_place_may_be_free(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, max_waiting=1, clock=clock)
    engine.submit(custom_voice(max_frames=3), EventRecorder())
    drain(engine, clock, 0.5)
    held_s = clock.now - 100
    for _ in range(2):
        engine.submit(custom_voice(max_frames=3), EventRecorder())
    engine.tick()
    with pytest.raises(Overloaded) as caught:
        raise_refusal(engine, custom_voice())
    retry_s = float(str(caught.value.facts["retry_after_s"]))
    assert held_s <= retry_s <= 2.5 * held_s
    drain(engine)


def test_request_that_would_time_out_is_refused_immediately(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, clock=clock, limits=Limits(queue_s=4.0))
    engine.submit(custom_voice(max_frames=3), EventRecorder())
    drain(engine, clock, 0.5)
    held_s = clock.now - 100
    assert 4.0 / 3 < held_s < 4.0 / 2
    for _ in range(3):  # The engine's thread has not processed these requests yet.
        engine.submit(custom_voice(max_frames=3), EventRecorder())
    with pytest.raises(Overloaded) as caught:
        raise_refusal(engine, custom_voice(max_frames=3))
    assert float(str(caught.value.facts["retry_after_s"])) == pytest.approx(3 * held_s, abs=0.2)
    drain(engine)


def test_retry_after_of_a_refusal_has_a_minimum(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, max_waiting=0, clock=clock)
    engine.submit(custom_voice(max_frames=3), EventRecorder())
    drain(engine, clock, 0.001)
    engine.submit(custom_voice(max_frames=3), EventRecorder())
    with pytest.raises(Overloaded) as caught:
        raise_refusal(engine, custom_voice())
    assert caught.value.facts["retry_after_s"] == 0.1
    drain(engine)


# --- Tests of requests that are cancelled during prefill.


def test_request_can_be_cancelled_during_chunked_prefill(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {mode: ModeSettings(prefills=1) for mode in Mode}
    engine, launches = engine_of(quick, slots=1, prompt_piece=16, modes=modes), record_launches(monkeypatch)
    long = custom_voice("Hello world, the old phone is slow, I say it again and again and again.")
    recorder, after = EventRecorder(), EventRecorder()
    ticket = engine.submit(long, recorder)
    engine.submit(custom_voice(max_frames=4), after)
    run_turns(engine, 2)
    before = [*launches.chunks]
    engine.cancel(ticket)
    drain(engine)
    assert recorder.end.stop_reason is StopReason.CANCELLED
    assert not recorder.chunks
    assert before == [(0, 0, 16), (0, 16, 32)]
    assert launches.chunks == [*before, (0, 0, 16), (0, 16, 28)], "no further chunk of the cancelled request"
    assert np.array_equal(after.pcm, speak(engine_of(quick), custom_voice(max_frames=4)).pcm)


def test_chunked_prefill_does_not_delay_frames_of_other_rows(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = {mode: ModeSettings(prefills=1) for mode in Mode}
    engine, launches = engine_of(quick, slots=2, prompt_piece=16, modes=modes), record_launches(monkeypatch)
    first, long = EventRecorder(), EventRecorder()
    engine.submit(custom_voice(max_frames=40), first)
    run_turns(engine, 6)
    request = custom_voice("Hello world, the old phone is slow, I say it again and again.", max_frames=3)
    engine.submit(request, long)
    made = []
    while not long.chunks:
        made.append(launches.frames_of(0))
        engine.tick()
    assert len(made) >= 3
    assert np.diff(made).tolist() == [1] * (len(made) - 1)
    drain(engine)
    whole = speak(engine_of(quick, prompt_piece=16), request)
    assert np.array_equal(long.codes, whole.codes)
