"""Tests that streamed text gives the same codes and audio as the complete text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.engine.engine import Engine
from runtime.engine.text.text_stream import TextStream
from runtime.errors import EmptyText, InvalidConfig, SpeechError, TextTooLong
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Broken, Finished, Guard, Layout, SpeechRequest, Split, Started, StopReason, WaitingForText
from runtime.settings import Limits
from tests.support.engines import (
    EventRecorder,
    VirtualClock,
    assert_same,
    assert_slots_are_free,
    cloned,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    seeded,
    speak,
    speak_live,
    streamed,
)
from tests.support.frames import end_parts_after, prefer_eos, record_launches

pytestmark = pytest.mark.usefixtures("each_device")

TEXT = "Hello world, iPhone 12 你好。 Los"


@pytest.fixture(scope="module")
def engine(quick: Checkpoint) -> Engine:
    return engine_of(quick, slots=3)


@pytest.fixture(scope="module")
def whole_text(quick: Checkpoint) -> EventRecorder:
    return speak(engine_of(quick, slots=1), streamed(TEXT, max_frames=14))


def begin_request(engine: Engine, text: str = "", **kwargs: object) -> tuple[int, EventRecorder]:
    """Submit a request with streamed text input, and return its ticket and event sink."""
    recorder = EventRecorder()
    return engine.submit(streamed(text, open_text=True, **kwargs), recorder), recorder


def tick_until(engine: Engine, come: Callable[[], bool]) -> None:
    for _ in range(2000):
        if come():
            return
        engine.tick()
    raise AssertionError("it did not come")


# --- Tests of text that arrives while the speech is generated.


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, len(TEXT)), max_size=6).map(sorted),
    ticks=st.lists(st.integers(0, 4), min_size=7, max_size=7),
)
def test_streamed_text_gives_the_codes_and_bytes_of_the_complete_text(
    engine: Engine, whole_text: EventRecorder, cuts: list[int], ticks: list[int]
) -> None:
    places = [0, *cuts, len(TEXT)]
    pieces = [TEXT[start:stop] for start, stop in pairwise(places)]
    assert_same(speak_live(engine, streamed(max_frames=14), pieces, ticks), whole_text)


def test_complete_networks_give_the_same_codes_for_text_streamed_by_letter(speaker: Checkpoint) -> None:
    request = streamed("Hello world, you.", max_frames=6, **seeded(5))
    expected = speak(engine_of(speaker, slots=1), request)
    assert_same(speak_live(engine_of(speaker, slots=1), request, list(request.text), [1] * len(request.text)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [["  Hello", " world", ". \n"], ["", "Hello world", "", ".", "   "]])
def test_surrounding_white_space_changes_neither_codes_nor_frame_budget(engine: Engine, pieces: list[str]) -> None:
    expected = speak(engine, streamed("Hello world.", max_frames=None))
    recorder = speak_live(engine, streamed(max_frames=None), pieces, [2] * len(pieces))
    assert_same(recorder, expected)
    assert recorder.end.stats.guard is expected.end.stats.guard is Guard.BUDGET


def test_row_waiting_for_text_runs_no_frames_and_delays_no_other_row(
    engine: Engine, whole_text: EventRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = record_launches(monkeypatch)
    ticket, recorder = begin_request(engine, "Hello world, ", max_frames=14)
    run_turns(engine, 12)
    said_so_far = len(recorder.codes)
    launched = len(launches.steps)
    assert 0 < said_so_far < 8
    run_turns(engine, 5)
    assert len(launches.steps) == launched
    other = EventRecorder()
    engine.submit(streamed(TEXT, max_frames=14), other)
    run_turns(engine, 25)
    assert_same(other, whole_text)
    assert len(recorder.codes) == said_so_far
    engine.append_text(ticket, TEXT.removeprefix("Hello world, "))
    engine.finish_text(ticket)
    drain(engine)
    assert_same(recorder, whole_text)


def test_speech_does_not_end_before_the_text_is_closed(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the text is open, EOS is suppressed even if the talker would sample EOS."""
    prefer_eos(quick, monkeypatch)
    engine = engine_of(quick)
    ticket, recorder = begin_request(engine, "Hello world the old ", max_frames=50)
    run_turns(engine, 25)
    assert not recorder.ended
    engine.finish_text(ticket)
    drain(engine)
    assert recorder.end.stop_reason is StopReason.EOS
    assert len(recorder.codes) >= 5


def test_flush_speaks_an_incomplete_word(engine: Engine) -> None:
    ticket, recorder = begin_request(engine, "Hello", max_frames=14)
    run_turns(engine, 4)
    assert not recorder.chunks
    engine.flush(ticket)
    run_turns(engine, 4)
    assert recorder.chunks
    engine.append_text(ticket, " world.")
    engine.finish_text(ticket)
    drain(engine)
    assert_same(recorder, speak(engine, streamed("Hello world.", max_frames=14)))


def test_request_without_speakable_text_holds_no_slot_or_queue_place(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1, max_waiting=0)
    opened = []
    for _ in range(4):
        opened.append(begin_request(engine, max_frames=3))
        engine.tick()
    other = EventRecorder()
    engine.submit(custom_voice(max_frames=2), other)
    run_turns(engine, 8)
    assert len(other.codes) == other.end.stats.frames == 2
    for ticket, recorder in opened:
        assert not recorder.events
        engine.append_text(ticket, "Hello you.")
        engine.finish_text(ticket)
    drain(engine)
    assert [len(recorder.codes) for _, recorder in opened] == [3] * 4


@pytest.mark.parametrize(
    "after", [["append_text"], ["finish_text"], ["flush"], ["finish_text", "append_text", "flush"]]
)
def test_text_after_the_end_is_ignored(engine: Engine, whole_text: EventRecorder, after: list[str]) -> None:
    ticket, recorder = begin_request(engine, TEXT, max_frames=14)
    run_turns(engine, 3)
    engine.finish_text(ticket)
    run_turns(engine, 2)
    for name in after:
        getattr(engine, name)(ticket, *(["more"] if name == "append_text" else []))
    drain(engine)
    assert_same(recorder, whole_text)


def test_request_with_complete_text_ignores_appended_text(engine: Engine, whole_text: EventRecorder) -> None:
    recorder = EventRecorder()
    ticket = engine.submit(streamed(TEXT, max_frames=14), recorder)
    run_turns(engine, 2)
    engine.append_text(ticket, " and more")
    engine.finish_text(ticket)
    drain(engine)
    assert_same(recorder, whole_text)


def test_text_for_unknown_requests_is_ignored(engine: Engine) -> None:
    recorder = EventRecorder()
    ended = engine.submit(custom_voice(max_frames=1), recorder)
    drain(engine)
    events = list(recorder.events)
    for stranger in (ended, 0, -1, 10**9):
        engine.append_text(stranger, "Hello.")
        engine.flush(stranger)
        engine.finish_text(stranger)
    run_turns(engine, 2)
    assert recorder.events == events
    assert not engine.busy


def test_requests_waiting_for_text_are_counted_separately(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=2)
    wordless, _ = begin_request(engine)
    speaking, recorder = begin_request(engine, "Hello world. ", max_frames=200)
    run_turns(engine, 1)
    load = engine.load()
    assert (load.active, load.waiting, load.waiting_for_text) == (1, 0, 1)
    while len(recorder.codes) < 3 or engine.load().waiting_for_text < 2:
        engine.tick()
    assert (engine.load().active, engine.load().waiting) == (1, 0)
    engine.append_text(speaking, "You speak. ")
    run_turns(engine, 1)
    assert engine.load().waiting_for_text == 1
    # The load can be written as JSON, as in /ready.
    assert json.loads(json.dumps(asdict(engine.load())))["waiting_for_text"] == 1
    for ticket in (wordless, speaking):
        engine.cancel(ticket)
    drain(engine)
    assert engine.load().waiting_for_text == 0


def test_long_text_updates_alternate_with_decode_steps(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change takes 0.1 s, as the end of 4,096 digits does."""
    clock = VirtualClock()
    engine = engine_of(quick, slots=2, clock=clock)
    _, recorder = begin_request(engine, "Hello world. Hello again. ", max_frames=200)
    tickets = [begin_request(engine)[0] for _ in range(6)]
    run_turns(engine, 2)
    finished: list[float] = []

    def finish(_: TextStream) -> None:
        finished.append(clock.now)
        clock.now += 0.1

    monkeypatch.setattr(TextStream, "finish", finish)
    for ticket in tickets:
        engine.append_text(ticket, "One.")
        engine.finish_text(ticket)
    engine.cancel(tickets[-1])
    run_turns(engine, 2)
    assert len(finished) == 1
    frames = len(recorder.codes)
    for _ in range(40):
        clock.now += 0.05
        run_turns(engine, 1)
    assert len(finished) == 5
    assert min(later - earlier for earlier, later in pairwise(finished)) > 0.49
    assert len(recorder.codes) > frames + 10


def test_waiting_for_text_is_reported_after_all_audio_was_sent(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=2)
    recorder = EventRecorder()
    ticket = engine.submit(custom_voice("", open_text=True, max_frames=None, layout=Layout.NON_STREAMING), recorder)
    first, second, third = "Hello world. ", "You speak. ", "The"
    engine.append_text(ticket, first)
    run_turns(engine, 40)
    assert recorder.events == []  # The sentence may continue, so no speech starts.
    engine.flush(ticket)
    tick_until(engine, lambda: bool(recorder.events_of(WaitingForText)))
    assert recorder.events[-1] == WaitingForText(len(first))
    assert recorder.chunks
    said_so_far = len(recorder.codes)
    run_turns(engine, 40)
    assert len(recorder.events_of(WaitingForText)) == 1
    engine.append_text(ticket, second)
    engine.append_text(ticket, third)
    tick_until(engine, lambda: len(recorder.codes) > said_so_far and engine.load().waiting_for_text == 1)
    run_turns(engine, 40)
    # The engine buffers the last word until more text or a flush arrives.
    assert len(recorder.events_of(WaitingForText)) == 1
    engine.flush(ticket)
    tick_until(engine, lambda: len(recorder.events_of(WaitingForText)) == 2)
    assert recorder.events[-1] == WaitingForText(len(first + second + third))
    engine.finish_text(ticket)
    drain(engine)
    assert isinstance(recorder.end, Finished)
    assert len(recorder.events_of(WaitingForText)) == 2


@pytest.mark.parametrize(
    ("text", "is_reported"), [("Hello world. ", True), ("Hello world, ", False), ("Hello wor", False)]
)
def test_waiting_for_text_is_reported_only_after_a_possible_sentence_end(
    quick: Checkpoint, text: str, is_reported: bool
) -> None:
    engine = engine_of(quick, slots=1)
    ticket, recorder = begin_request(engine, text, max_frames=200)
    tick_until(engine, lambda: bool(recorder.chunks) and engine.load().waiting_for_text == 1)
    run_turns(engine, 60)
    assert [event.chars for event in recorder.events_of(WaitingForText)] == [len(text)] * is_reported
    engine.cancel(ticket)
    drain(engine)


# --- Tests of texts that cannot be spoken.


BAD = [
    (["Hello ", "x" * 60], TextTooLong),
    (["Hello <|im_", "end|> you"], InvalidConfig),
    (["Hello \ud83d"], InvalidConfig),
    ([" ", "\n"], EmptyText),
    ([], EmptyText),
]


@pytest.mark.parametrize("ticks", [0, 6], ids=["before it begins", "while it speaks"])
@pytest.mark.parametrize(("pieces", "error"), BAD)
def test_unspeakable_text_fails_only_its_request(
    quick: Checkpoint, pieces: list[str], error: type[SpeechError], ticks: int
) -> None:
    engine = engine_of(quick, slots=2, limits=Limits(max_text_chars=40, queue_s=1e9))
    other = EventRecorder()
    engine.submit(custom_voice(max_frames=6), other)
    recorder = speak_live(engine, streamed(), pieces, [ticks] * len(pieces))
    assert isinstance(recorder.end, Broken)
    assert type(recorder.end.error) is error
    assert len(other.codes) == 6
    assert_slots_are_free(engine)


@pytest.mark.parametrize("text", ["x" * 60, "Hello. <|im_end|>"])
def test_queued_request_with_invalid_text_leaves_the_queue(quick: Checkpoint, text: str) -> None:
    """A request that has ended must not get a slot later."""
    engine = engine_of(quick, slots=1, limits=Limits(max_text_chars=40, queue_s=1e9))
    first = EventRecorder()
    engine.submit(custom_voice(max_frames=5), first)
    ticket, recorder = begin_request(engine, "Hello you. ")
    run_turns(engine, 2)
    assert recorder.positions == [0]
    engine.append_text(ticket, text)
    drain(engine)
    assert isinstance(recorder.end, Broken)
    assert not recorder.events_of(Started)
    assert len(first.codes) == 5
    assert engine.load().active == engine.load().waiting == 0


# --- Tests of segments that contain whole sentences.


def sentence_wise(**kwargs: object) -> SpeechRequest:
    return custom_voice(layout=Layout.NON_STREAMING, split=Split.SENTENCE, max_frames=None, **kwargs)


@pytest.mark.slow("at once-0", "at once-9")
@pytest.mark.parametrize("ticks", [0, 1, 9])
def test_sentence_segments_are_independent_of_chunking(quick: Checkpoint, ticks: int) -> None:
    request = sentence_wise(text="Hello world. You speak. Is the voice calm?")
    left, other = engine_of(quick, slots=1), engine_of(quick, slots=1)
    for engine in (left, other):
        end_parts_after(engine, 4)
    expected = speak(left, request)
    pieces = [request.text[at : at + 3] for at in range(0, len(request.text), 3)]
    recorder = speak_live(other, request, pieces, [ticks] * len(pieces))
    assert_same(recorder, expected)
    assert recorder.end.stats.parts == 3
    assert len(recorder.codes) == 12


def test_segment_starts_only_after_the_next_sentence_has_begun(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1)
    request = custom_voice("", open_text=True, max_frames=None)
    end_parts_after(engine, 3)
    recorder = EventRecorder()
    ticket = engine.submit(request, recorder)
    engine.append_text(ticket, "Hello world. ")
    run_turns(engine, 3)
    assert not recorder.events
    engine.append_text(ticket, "You")
    run_turns(engine, 9)
    assert len(recorder.codes) == 3
    assert not recorder.ended
    engine.flush(ticket)
    run_turns(engine, 9)
    assert len(recorder.codes) == 6
    assert not recorder.ended
    engine.finish_text(ticket)
    drain(engine)
    assert recorder.end.stop_reason is StopReason.EOS
    assert recorder.end.stats.parts == 2


def test_clone_with_reference_codes_speaks_streamed_text_by_sentence(cloner: Checkpoint) -> None:
    request = cloned("Hello world. You speak.", layout=Layout.STREAMING, split=Split.SENTENCE, max_frames=None)
    left, other = engine_of(cloner, slots=1), engine_of(cloner, slots=1)
    for engine in (left, other):
        end_parts_after(engine, 2)
    expected = speak(left, request)
    recorder = speak_live(other, request, ["Hello wor", "ld. You sp", "eak."], [1, 4, 0])
    assert_same(recorder, expected)
    assert recorder.end.stats.parts == 2


# --- Tests of cancelled requests.


@pytest.mark.parametrize("when", range(0, 12, 2))
def test_streamed_request_can_be_cancelled_at_any_time(engine: Engine, whole_text: EventRecorder, when: int) -> None:
    ticket, recorder = begin_request(engine, max_frames=14)
    for turn in range(when):
        engine.append_text(ticket, TEXT[3 * turn : 3 * turn + 3])
        engine.tick()
    engine.cancel(ticket)
    engine.append_text(ticket, "more")
    drain(engine)
    assert recorder.end.stop_reason is StopReason.CANCELLED
    assert np.array_equal(recorder.pcm, whole_text.pcm[: len(recorder.pcm)])
    assert_same(speak(engine, streamed(TEXT, max_frames=14)), whole_text)
