"""Tests for the scheduler with simulated clients and a virtual clock."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.execution.slots import UNLIMITED_FRAMES
from runtime.engine.scheduling.scheduler import (
    LOW_BUFFER_S,
    MAX_BACKLOG_FRAMES,
    MAX_CHUNK_GROWTH,
    Scheduler,
    SequenceTable,
    StepDurations,
    frame_limit,
)
from tests.support.examples import examples
from tests.support.simulation import FRAME_S, Listener, Simulation, nobody_waits_for, stepped_with


def speaking(
    slots: int, *, made: int = 1, work: int = 16, batch_fill_ratio: float = 0.0
) -> tuple[Scheduler, SequenceTable]:
    """Return a scheduler and a table in which all rows are speaking and have sent no audio."""
    table = SequenceTable(slots)
    table.speaking[:] = True
    table.limit[:], table.text_limit[:] = 1000, UNLIMITED_FRAMES
    table.launched[:] = table.sampled[:] = made
    table.first_chunk[:], table.largest_chunk[:], table.batch[:] = 1, 16, 4
    return Scheduler(
        frame_s=FRAME_S, lead_cap_s=3.0, reader_frames=25, sound_work=work, batch_fill_ratio=batch_fill_ratio
    ), table


# --- Tests of the scheduler with one request.


@pytest.mark.parametrize("max_in_flight", [0, 1])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
def test_engine_faster_than_real_time_leaves_no_gap(share: float, max_in_flight: int) -> None:
    simulation = Simulation.of(
        1,
        max_in_flight=max_in_flight,
        first_alone=not max_in_flight,
        frame_cost=(share * FRAME_S, 0.0),
        sound_cost=(0.0, 0.001),
    )
    listener = Listener(frames=200)
    simulation.run([listener])
    assert listener.chunks[0] == 1
    assert nobody_waits_for(listener.gap_s) == 0


def test_chunks_grow_to_the_maximum_if_there_is_time() -> None:
    simulation = Simulation.of(1, frame_cost=(0.05 * FRAME_S, 0.0), sound_cost=(0.0, 0.0005))
    listener = Listener(frames=300)
    simulation.run([listener])
    assert listener.chunks[:4] == [1, 4, 16, 16]
    assert all(after <= MAX_CHUNK_GROWTH * before for before, after in itertools.pairwise(listener.chunks))


def test_engine_slower_than_real_time_sends_every_frame_immediately() -> None:
    simulation = Simulation.of(1, frame_cost=(1.5 * FRAME_S, 0.0), sound_cost=(0.0, 0.001))
    listener = Listener(frames=40)
    simulation.run([listener])
    assert set(listener.chunks) == {1}


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(shares=st.lists(st.floats(0.2, 0.6), min_size=30, max_size=120))
def test_jitter_in_frame_time_leaves_no_gap(shares: list[float]) -> None:
    simulation = Simulation.of(1, frame_cost=(0.0, 0.0), sound_cost=(0.0, 0.001))
    simulation.steps = [share * FRAME_S for share in shares]
    listener = Listener(frames=len(shares))
    simulation.run([listener])
    assert nobody_waits_for(listener.gap_s) == 0


def test_chunks_are_limited_to_the_code2wav_work_limit() -> None:
    simulation = Simulation.of(2, work=4, frame_cost=(0.004, 0.0))
    both = [Listener(frames=120), Listener(frames=120)]
    simulation.run(both)
    assert max(both[0].chunks + both[1].chunks) == 4


# --- Tests of the scheduler with several requests.


@pytest.mark.parametrize("max_in_flight", [0, 1])
def test_audio_has_no_gap_if_the_load_is_within_capacity(max_in_flight: int) -> None:
    simulation = Simulation.of(
        8,
        max_in_flight=max_in_flight,
        work=4,
        first_alone=not max_in_flight,
        frame_cost=(0.012, 0.0012),
        sound_cost=(0.002, 0.007),
    )
    listeners = [Listener(frames=100, arrives=0.3 * place) for place in range(8)]
    simulation.run(listeners)
    assert [nobody_waits_for(listener.gap_s) for listener in listeners] == [0.0] * 8


def test_first_chunk_does_not_wait_for_later_audio_of_other_requests() -> None:
    simulation = Simulation.of(8, work=4, frame_cost=(0.012, 0.0012), sound_cost=(0.002, 0.008))
    crowd = [Listener(frames=300, arrives=0.2 * place) for place in range(7)]
    late = Listener(frames=20, arrives=3.0)
    simulation.run([*crowd, late])
    assert late.first_audio_at is not None
    # Upper bound: the running frame, the prefill, the running Code2Wav call and the first chunk.
    assert late.first_audio_at - late.arrives < 0.021 + 0.02 + 0.034 + 0.011


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    arrivals=st.lists(st.floats(0, 3), min_size=1, max_size=8),
    share=st.floats(0.1, 0.9),
    max_in_flight=st.integers(0, 2),
)
def test_every_client_is_served_to_the_end(arrivals: list[float], share: float, max_in_flight: int) -> None:
    simulation = Simulation.of(
        8,
        max_in_flight=max_in_flight,
        work=8,
        first_alone=not max_in_flight,
        frame_cost=(share * FRAME_S / 2, 0.001),
        sound_cost=(0.0, 0.002),
    )
    listeners = [Listener(frames=30 + place, arrives=arrival) for place, arrival in enumerate(arrivals)]
    simulation.run(listeners)
    assert [sum(listener.chunks) for listener in listeners] == [listener.frames for listener in listeners]
    # The prefill generates the first frame, and the row launches no frames beyond its limit.
    assert [stepped_with(simulation, listener.slot) for listener in listeners] == [
        listener.frames - 1 for listener in listeners
    ]


# --- Tests of the selection of rows for the next frame.


def test_rows_with_much_buffered_audio_pause_only_if_slots_are_scarce() -> None:
    scheduler, table = speaking(3)
    table.emitted[:] = table.sampled
    table.buffer_empty_at[:] = [102.0, 103.5, 99.0]
    assert scheduler.runnable(table, 100.0, is_scarce=False).tolist() == [0, 1, 2]
    assert scheduler.runnable(table, 100.0, is_scarce=True).tolist() == [0, 2]
    assert scheduler.runnable(table, 100.6, is_scarce=True).tolist() == [0, 1, 2]


def test_only_rows_with_a_low_buffer_run_while_first_audio_is_pending() -> None:
    scheduler, table = speaking(4)
    table.sampled[:3], table.emitted[:3], table.last_chunk[:3] = 9, 8, 4
    table.buffer_empty_at[:3] = 100.0 + LOW_BUFFER_S + np.array([0.1, -0.1, -9.0])
    assert scheduler.runnable(table, 100.0, is_scarce=False, yields_to_first_audio=True).tolist() == [1, 2]
    assert scheduler.runnable(table, 100.0, is_scarce=False, yields_to_first_audio=False).tolist() == [0, 1, 2, 3]
    table.first_chunk[3] = 2  # Row 3 needs one more frame for its first chunk.
    assert scheduler.runnable(table, 100.0, is_scarce=False, yields_to_first_audio=True).tolist() == [0, 1, 2, 3]
    table.first_chunk[3], table.last_chunk[3] = 1, 1  # The first chunk of row 3 has been sent.
    assert scheduler.runnable(table, 100.0, is_scarce=False, yields_to_first_audio=True).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("step_s", "yields_to_first_audio"), [(np.inf, False), (0.7 * FRAME_S, False), (0.6 * FRAME_S, True)]
)
def test_rows_pause_for_first_audio_only_if_decoding_is_faster_than_real_time(
    step_s: float, yields_to_first_audio: bool
) -> None:
    scheduler = Simulation.of(1, first_alone=True).scheduler
    assert (
        scheduler.yields_to_first_audio(StepDurations(step_s=step_s, code2wav_s=0.1 * FRAME_S)) == yields_to_first_audio
    )
    assert not Simulation.of(1).scheduler.yields_to_first_audio(StepDurations(step_s=0.0, code2wav_s=0.0))


@pytest.mark.parametrize(("step_s", "is_decoding_fast"), [(np.inf, False), (FRAME_S / 3, False), (FRAME_S / 5, True)])
def test_no_row_pauses_on_a_fast_machine(step_s: float, is_decoding_fast: bool) -> None:
    scheduler, _ = speaking(1)
    assert scheduler.is_decoding_fast(StepDurations(step_s=step_s)) == is_decoding_fast


def test_row_of_a_slow_reader_pauses_and_resumes_and_other_rows_continue() -> None:
    scheduler, table = speaking(2, made=40)
    table.emitted[:] = 40
    table.has_acks[0] = True
    table.acknowledged_frames[0] = 15
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == [1]
    table.acknowledged_frames[0] = 16
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["limit", "text", "backlog", "reader"])
def test_frames_in_flight_count_as_generated(kind: str) -> None:
    scheduler, table = speaking(2, made=9)
    table.emitted[:], table.launched[0] = 9, 10
    if kind == "limit":
        table.limit[:] = 10
    elif kind == "text":
        table.text_limit[:] = 10
    elif kind == "backlog":
        table.emitted[:], table.launched[:] = 10 - MAX_BACKLOG_FRAMES, (10, 9)
    else:
        table.has_acks[:], table.acknowledged_frames[:] = True, 10 - scheduler.reader_frames
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == [1]


def test_clearing_a_slot_keeps_the_code2wav_flag_of_pending_audio() -> None:
    _, table = speaking(2, made=9)
    table.in_code2wav[:] = True
    table.clear(1)
    assert table.in_code2wav.all()
    assert (table.launched[1], table.sampled[1], bool(table.speaking[1])) == (0, 0, False)


def test_row_without_text_waits_and_sends_its_pending_frames() -> None:
    scheduler, table = speaking(1, made=3)
    table.text_limit[:] = 3
    table.emitted[:], table.last_chunk[:], table.buffer_empty_at[:] = 1, 16, 100.0
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == []
    assert [(chunk.slots.tolist(), chunk.size) for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [
        ([0], 2)
    ]
    table.text_limit[:] = 4
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == [0]


def test_row_never_overwrites_codes_without_audio() -> None:
    scheduler, table = speaking(1, made=MAX_BACKLOG_FRAMES)
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == []


# --- Tests of the order in which audio chunks are decoded.


def test_first_chunks_are_decoded_in_request_order() -> None:
    scheduler, table = speaking(4, made=8, work=4)
    table.last_chunk[:2], table.emitted[:2], table.buffer_empty_at[:] = 4, 1, [0.2, 0.1, 9.0, 8.0]
    chunks = scheduler.due_chunks(table, 0.0, StepDurations())
    assert [(chunk.is_urgent, chunk.slots.tolist()) for chunk in chunks] == [
        (True, [3, 2]),
        (False, [1]),
        (False, [0]),
    ]


def test_client_with_the_emptiest_buffer_is_served_first() -> None:
    scheduler, table = speaking(6, made=40)
    table.last_chunk[:], table.emitted[:] = 16, 20
    table.buffer_empty_at[:] = [7, 3, 9, 5, 4, 8]
    chunks = scheduler.due_chunks(table, 0.0, StepDurations())
    assert [int(chunk.slots[0]) for chunk in chunks] == [1, 4, 3, 0, 5, 2]
    assert [chunk.size for chunk in chunks] == [16] * 6


def test_chunks_of_equal_size_are_batched_up_to_the_row_and_frame_limits() -> None:
    scheduler, table = speaking(6, made=8, work=8)
    table.last_chunk[:], table.emitted[:], table.buffer_empty_at[:] = 2, 4, 50.0
    table.batch[:] = 3
    table.largest_chunk[:] = 4
    # Eight frames of work allow two chunks of four frames per call.
    assert [len(chunk.slots) for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [2, 2, 2]
    table.largest_chunk[:] = 2
    # The mode limits a call to three rows.
    assert [len(chunk.slots) for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [3, 3]


def test_rows_of_different_modes_keep_their_own_chunk_sizes() -> None:
    scheduler, table = speaking(2, made=30)
    table.last_chunk[:], table.buffer_empty_at[:] = 16, 50.0
    table.largest_chunk[:] = [4, 16]
    assert {(chunk.size, *chunk.slots.tolist()) for chunk in scheduler.due_chunks(table, 0.0, StepDurations())} == {
        (4, 0),
        (16, 1),
    }


def test_row_in_code2wav_gets_no_second_chunk() -> None:
    scheduler, table = speaking(2, made=8)
    table.in_code2wav[0] = True
    assert [chunk.slots.tolist() for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [[1]]


def test_last_frames_of_an_ended_row_are_not_delayed() -> None:
    scheduler, table = speaking(1, made=19)
    table.speaking[:], table.ended[:], table.last_chunk[:], table.buffer_empty_at[:] = False, True, 16, 100.0
    assert [chunk.size for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [16]
    table.emitted[:] = 16
    assert [chunk.size for chunk in scheduler.due_chunks(table, 0.0, StepDurations())] == [3]


# --- Tests of batches of audio chunks.


def scheduler_with_pending(*pending: int, batch_fill_ratio: float = 0.5) -> tuple[Scheduler, SequenceTable]:
    """Return a scheduler and a table of rows whose clients have full buffers.

    Some frames of each row are not decoded to audio yet. The chunk size is 16 frames.

    Args:
        pending: Number of frames without audio for each row.
    """
    scheduler, table = speaking(len(pending), work=512, batch_fill_ratio=batch_fill_ratio)
    table.last_chunk[:], table.emitted[:], table.buffer_empty_at[:], table.batch[:] = 16, 21, 50.0, 32
    table.launched[:] = table.sampled[:] = table.emitted + pending
    return scheduler, table


def asked(scheduler: Scheduler, table: SequenceTable) -> list[tuple[bool, list[int], list[int]]]:
    chunks = scheduler.due_chunks(table, 0.0, StepDurations())
    return [(chunk.is_urgent, chunk.slots.tolist(), chunk.frames.tolist()) for chunk in chunks]


def test_chunk_for_a_full_client_buffer_waits_for_half_of_the_rows() -> None:
    scheduler, table = scheduler_with_pending(16, 3, 3, 3)
    assert asked(scheduler, table) == []
    table.sampled[2] += 13
    assert asked(scheduler, table) == [(False, [0, 2], [16, 16])]


def test_chunk_of_a_single_row_does_not_wait_for_a_batch() -> None:
    assert asked(*scheduler_with_pending(16)) == [(False, [0], [16])]


def test_waiting_for_a_batch_ends_with_a_low_buffer_or_a_second_chunk() -> None:
    scheduler, table = scheduler_with_pending(16, 16, 3, 3, 3, 3, 3, 3)
    table.buffer_empty_at[1] = LOW_BUFFER_S
    # The chunk is large enough to keep the client's buffer filled, and urgent.
    assert asked(scheduler, table) == [(True, [1], [2])]
    table.buffer_empty_at[1], table.sampled[0] = 50.0, table.emitted[0] + 32
    assert asked(scheduler, table) == [(False, [0, 1], [16, 16])]


def test_short_chunk_for_a_low_client_buffer_does_not_wait_for_a_large_call() -> None:
    """An example is the second chunk after a first chunk of one frame.

    The client has only 80 ms of audio left, so the chunk is urgent.
    """
    scheduler, table = scheduler_with_pending(16, 16, 16, 16, 4, 1)
    table.last_chunk[4:], table.emitted[4:], table.buffer_empty_at[4:] = 1, 1, 0.08
    table.sampled[4:], table.launched[4:] = [5, 2], [5, 2]
    chunks = asked(scheduler, table)
    assert [chunk for chunk in chunks if chunk[0]] == [(True, [4, 5], [1, 1])]
    assert [chunk for chunk in chunks if not chunk[0]] == [(False, [0, 1, 2, 3], [16] * 4)]
    alone, table_alone = scheduler_with_pending(16, 16, batch_fill_ratio=0.0)
    table_alone.last_chunk[1], table_alone.emitted[1], table_alone.buffer_empty_at[1] = 1, 1, 0.08
    table_alone.sampled[1] = table_alone.launched[1] = 2
    assert not any(is_urgent for is_urgent, *_ in asked(alone, table_alone)), (
        "calls are short where they are of one row"
    )


def test_row_with_a_full_backlog_does_not_wait_for_a_batch() -> None:
    scheduler, table = scheduler_with_pending(MAX_BACKLOG_FRAMES - 1, 3, 3, 3)
    table.largest_chunk[:] = table.last_chunk[:] = 48
    assert asked(scheduler, table) == []
    table.launched[0] = table.sampled[0] = table.emitted[0] + MAX_BACKLOG_FRAMES
    assert scheduler.runnable(table, 0.0, is_scarce=False).tolist() == [1, 2, 3]
    assert asked(scheduler, table) == [(False, [0], [48])]


def test_first_chunks_and_rows_without_text_do_not_wait_for_a_batch() -> None:
    scheduler, table = scheduler_with_pending(16, 3, 3, 3, 3, 3, 3, 3)
    table.text_limit[1] = table.sampled[1]
    table.last_chunk[2] = 0
    assert asked(scheduler, table) == [(True, [2], [1]), (False, [1], [3])]


def test_final_chunks_are_decoded_in_a_larger_code2wav_call() -> None:
    scheduler, table = scheduler_with_pending(5, 16, 9, 3)
    table.ended[[0, 2]], table.speaking[[0, 2]] = True, False
    assert asked(scheduler, table) == [(False, [0, 1, 2], [5, 16, 9])]
    # Now no chunk is final, and fewer than half of the rows have a full chunk, so the chunks are decoded separately.
    table.speaking[:] = True
    assert asked(scheduler, table) == [(False, [0], [5]), (False, [2], [9])]
    alone, table = scheduler_with_pending(5, 16, 9, 3, batch_fill_ratio=0.0)
    table.ended[[0, 2]] = True
    assert [frames for *_, frames in asked(alone, table)] == [[5], [9], [16]]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(arrivals=st.lists(st.floats(0, 3), min_size=1, max_size=8), batch_fill_ratio=st.sampled_from([0.25, 0.5, 1.0]))
def test_waiting_for_a_batch_causes_no_gap_and_no_late_end(arrivals: list[float], batch_fill_ratio: float) -> None:
    """Chunks that wait for a batch and urgent chunks use the same stream.

    This is the worst case.
    """
    simulation = Simulation.of(
        8, work=512, batch_fill_ratio=batch_fill_ratio, frame_cost=(0.005, 0.0), sound_cost=(0.001, 0.0001)
    )
    simulation.prefill_s = 0.005
    listeners = [Listener(frames=30 + 7 * place, arrives=arrival) for place, arrival in enumerate(arrivals)]
    simulation.run(listeners)
    assert [sum(listener.chunks) for listener in listeners] == [listener.frames for listener in listeners]
    assert [nobody_waits_for(listener.gap_s) for listener in listeners] == [0.0] * len(listeners)


# --- Tests of the accounting of sent audio.


def test_record_emitted_extends_buffers_and_returns_rows_with_an_underrun() -> None:
    _, table = speaking(3, made=4)
    table.last_chunk[:], table.buffer_empty_at[:] = [0, 2, 2], [1.0, 1.0, 9.0]
    starved = table.record_emitted(np.arange(3), 2, 2 * FRAME_S, 2.0)
    assert starved.tolist() == [False, True, False]
    assert table.buffer_empty_at.tolist() == pytest.approx([2.16, 2.16, 9.16])
    assert table.emitted.tolist() == [2, 2, 2]


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    first=st.integers(1, 8),
    largest=st.integers(1, 64),
    last=st.integers(0, 64),
    lead=st.floats(-10, 60),
    work=st.integers(1, 64),
)
def test_chunk_size_is_limited_by_maximum_growth_work_and_buffered_audio(
    first: int, largest: int, last: int, lead: float, work: int
) -> None:
    scheduler, table = speaking(1, made=64, work=work)
    table.first_chunk[:], table.largest_chunk[:], table.last_chunk[:], table.buffer_empty_at[:] = (
        first,
        largest,
        last,
        lead,
    )
    size = int(scheduler.chunk_sizes(table, 0.0, StepDurations())[0])
    assert 1 <= size <= min(largest, work)
    if last:
        assert size <= MAX_CHUNK_GROWTH * last
        assert size == 1 or size * FRAME_S <= lead or lead <= 0
    else:
        assert size == min(first, largest, work)


def test_cleared_row_equals_a_new_row_except_for_a_running_code2wav_call() -> None:
    table = SequenceTable(2)
    for array in vars(table).values():
        array[:] = 7
    before = {name: array[1] for name, array in vars(table).items()}
    table.clear(0)
    new = {name: array[0] for name, array in vars(SequenceTable(1)).items()}
    assert {name: array[0] for name, array in vars(table).items()} == new | {"in_code2wav": True}
    assert {name: array[1] for name, array in vars(table).items()} == before


@pytest.mark.parametrize(
    ("room", "budget", "asked", "limit"), [(100, 50, None, 50), (40, 50, None, 40), (100, 50, 80, 80), (60, 50, 80, 60)]
)
def test_frame_limit_is_capped_by_the_free_positions(room: int, budget: int, asked: int | None, limit: int) -> None:
    assert frame_limit(room, budget, asked) == limit
