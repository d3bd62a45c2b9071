"""Tests for engine requests: queueing, start, end, cancellation and counters."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.errors import EngineDead, InvalidSetting, ModeNotServed, Overloaded, UnknownVoice
from runtime.model.checkpoints import checkpoint as checkpoint_module
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import (
    AudioChunk,
    Broken,
    EngineLoad,
    Finished,
    Layout,
    Mode,
    Queued,
    Sampling,
    SpeechEvent,
    Started,
    StopReason,
)
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf, Loaded
from tests.support.checkpoints.tiny import QUICK
from tests.support.engines import (
    EventRecorder,
    VirtualClock,
    cloned,
    custom_voice,
    drain,
    engine_of,
    raise_refusal,
    run_turns,
    speak,
    speak_together,
    voice_design,
)
from tests.support.frames import prefer_eos
from tests.unit.engine.test_voice_cache import counted

WAIT_S = 60


def submit(engine: Engine, *count_or_words: dict[str, object]) -> list[tuple[int, EventRecorder]]:
    """Submit one CustomVoice request for each dictionary of arguments.

    Returns:
        Ticket and event sink of each request.
    """
    recorders = [EventRecorder() for _ in count_or_words]
    return [
        (engine.submit(custom_voice(**words), recorder), recorder)
        for words, recorder in zip(count_or_words, recorders, strict=True)
    ]


# --- Tests of the end of a request.


def test_talker_ends_a_request_after_at_least_two_frames(speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer_eos(speaker, monkeypatch)
    recorder = speak(engine_of(speaker), custom_voice(max_frames=50))
    assert recorder.end.stop_reason is StopReason.EOS
    assert len(recorder.codes) == 2
    assert len(recorder.pcm) == 2 * 1920


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_max_frames_limits_the_number_of_frames_exactly(quick: Checkpoint, frames: int) -> None:
    recorder = speak(engine_of(quick), custom_voice(max_frames=frames))
    assert recorder.end.stop_reason is StopReason.MAX_TOKENS
    assert recorder.codes.shape == (frames, QUICK.code_groups)
    assert len(recorder.pcm) == frames * 1920


def test_text_that_exceeds_its_frame_budget_is_a_runaway(quick: Checkpoint) -> None:
    recorder = speak(engine_of(quick), custom_voice("a", max_frames=None))
    assert recorder.end.stop_reason is StopReason.RUNAWAY
    assert len(recorder.codes) == 53


def test_speech_that_fills_its_slot_is_not_a_runaway(quick: Checkpoint) -> None:
    recorder = speak(engine_of(quick, length=128), custom_voice("Hello world. " * 3, max_frames=None))
    assert recorder.end.stop_reason is StopReason.MAX_TOKENS
    assert len(recorder.codes) + recorder.end.stats.prompt_tokens == 128


def test_streamed_text_longer_than_the_slot_is_spoken_up_to_its_end(quick: Checkpoint) -> None:
    """Text IDs for frames beyond the end of the slot are dropped without an effect."""
    engine = engine_of(quick, slots=2, length=80)
    long, short = custom_voice("x y " * 100, layout=Layout.STREAMING, max_frames=60), custom_voice(max_frames=5)
    recorders = speak_together(engine, long, short)
    assert [len(recorder.codes) for recorder in recorders] == [60, 5]
    (alone,) = speak_together(engine_of(quick, slots=1), long)
    assert np.array_equal(alone.codes, recorders[0].codes)


# --- Tests of the events of a request.


def test_events_are_in_order_and_count_samples(speaker: Checkpoint) -> None:
    recorder = speak(engine_of(speaker), custom_voice(max_frames=30))
    kinds = [type(event) for event in recorder.events]
    assert kinds[0] is Started
    assert set(kinds[1:-1]) == {AudioChunk}
    assert kinds[-1] is Finished
    at = 0
    for chunk in recorder.chunks:
        assert chunk.first_sample == at
        assert chunk.codes.dtype == np.int64
        assert len(chunk.pcm) == 2 * 1920 * len(chunk.codes)
        at += 1920 * len(chunk.codes)
    assert at == 30 * 1920


def test_first_chunk_has_one_frame_and_later_chunks_grow_with_the_buffered_audio(quick: Checkpoint) -> None:
    clock = VirtualClock()
    recorder, engine = EventRecorder(), engine_of(quick, clock=clock, sound_work=16)
    engine.submit(custom_voice(max_frames=80), recorder)
    drain(engine, clock, 0.01)
    sizes = [len(chunk.codes) for chunk in recorder.chunks]
    assert sizes[0] == 1
    assert max(sizes) == 16
    assert sum(sizes) == 80


def test_statistics_cover_only_their_own_request(quick: Checkpoint) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=1, clock=clock)
    first, second = EventRecorder(), EventRecorder()
    seen: dict[str, float] = {}

    def sink(event: SpeechEvent) -> None:
        second(event)
        seen.setdefault(type(event).__name__, 1000 * (clock.now - 100))

    engine.submit(custom_voice(max_frames=3), first)
    engine.submit(custom_voice(max_frames=4), sink)
    drain(engine, clock, 0.25)
    assert first.end.stats.queue_ms == 0
    assert first.end.stats.ttfa_ms == 0
    stats = second.end.stats
    assert stats.queue_ms == pytest.approx(seen["Started"])
    assert stats.ttfa_ms == pytest.approx(seen["AudioChunk"])
    assert stats.total_ms == pytest.approx(seen["Finished"])
    assert 500 < stats.queue_ms <= stats.ttfa_ms < stats.total_ms - 500
    assert (stats.frames, stats.audio_s) == (4, pytest.approx(0.32))
    assert stats.rtf == pytest.approx((stats.total_ms - stats.queue_ms) / 320)
    assert stats.prompt_tokens > 9


# --- Tests of the queue of requests that have no slot yet.


def test_waiting_request_is_notified_when_its_place_changes(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1)
    kwargs = submit(engine, *[{"max_frames": 3}] * 4)
    drain(engine)
    assert [heard.positions for _, heard in kwargs] == [[], [0], [1, 0], [2, 1, 0]]
    for _, heard in kwargs:
        assert not any(isinstance(event, Queued) for event in heard.events[heard.events.index(heard.started) :])


def test_queue_is_bounded_and_places_become_free(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=2, max_waiting=1)
    submit(engine, *[{"max_frames": 2}] * 3)
    with pytest.raises(Overloaded, match="2 slots are busy and 1 requests wait") as caught:
        raise_refusal(engine, custom_voice())
    assert caught.value.retryable
    drain(engine)
    assert speak(engine, custom_voice(max_frames=2)).end.stats.frames == 2


def test_full_queue_drops_the_newest_request_of_the_largest_caller(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1, max_waiting=3)
    greedy = submit(engine, *[{"max_frames": 2, "caller": "a"}] * 4)
    engine.tick()
    polite = submit(engine, {"max_frames": 2, "caller": "b"}, {"max_frames": 2, "caller": "c"})
    # Caller "a" has one running and one waiting request. With another request, "b" would also have two.
    with pytest.raises(Overloaded):
        raise_refusal(engine, custom_voice(caller="b"))
    drain(engine)
    for _, displaced in greedy[2:]:
        assert isinstance(displaced.end, Broken)
        assert isinstance(displaced.end.error, Overloaded)
        assert displaced.end.error.retryable
        assert not displaced.events_of(Started)
    for _, served in [*greedy[:2], *polite]:
        assert served.end.stats.frames == 2
    assert engine.load() == EngineLoad(slots=1, active=0, waiting=0)


def test_full_queue_refuses_before_the_validation(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1, max_waiting=3)
    greedy = submit(engine, *[{"max_frames": 2, "caller": "a"}] * 4)
    with pytest.raises(Overloaded):
        raise_refusal(engine, custom_voice(caller="a", voice="nobody"))
    # The queue would accept this caller, but an invalid request must not replace a waiting request.
    with pytest.raises(UnknownVoice):
        raise_refusal(engine, custom_voice(caller="b", voice="nobody"))
    drain(engine)
    assert [recorder.end.stats.frames for _, recorder in greedy] == [2] * 4


def test_single_caller_may_use_the_whole_queue(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1, max_waiting=3)
    submit(engine, *[{"max_frames": 2, "caller": "a"}] * 4)
    engine.tick()
    with pytest.raises(Overloaded):
        raise_refusal(engine, custom_voice(caller="a"))
    drain(engine)


def test_request_about_to_start_is_not_dropped(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=2, max_waiting=0)
    second, late = EventRecorder(), EventRecorder()

    def submit_late(event: SpeechEvent) -> None:
        # The second request gets its slot before the command that would drop it.
        if isinstance(event, Started):
            engine.submit(custom_voice(caller="b", max_frames=2), late)

    engine.submit(custom_voice(caller="a", max_frames=2), submit_late)
    engine.submit(custom_voice(caller="a", max_frames=2), second)
    drain(engine)
    assert second.end.stats.frames == late.end.stats.frames == 2


def test_queue_of_size_zero_still_uses_all_slots(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1, max_waiting=0)
    submit(engine, {"max_frames": 2})
    with pytest.raises(Overloaded):
        raise_refusal(engine, custom_voice())


def test_engine_load_counts_used_slots_and_queue_places(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=2)
    assert engine.load() == EngineLoad(slots=2, active=0, waiting=0)
    submit(engine, *[{"max_frames": 3}] * 5)
    assert engine.load() == EngineLoad(slots=2, active=0, waiting=5)
    engine.tick()
    assert engine.load() == EngineLoad(slots=2, active=2, waiting=3)
    drain(engine)
    assert engine.load() == EngineLoad(slots=2, active=0, waiting=0)


def test_refused_request_takes_no_queue_place(speaker: Checkpoint) -> None:
    engine = engine_of(speaker)
    with pytest.raises(UnknownVoice):
        raise_refusal(engine, custom_voice(voice="nobody"))
    with pytest.raises(ModeNotServed, match="loaded modes: custom_voice"):
        raise_refusal(engine, voice_design())
    assert engine.load().active == 0
    assert not engine.tick()


# --- Tests of cancelled requests.


def test_request_can_be_cancelled_before_the_engine_reads_it(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    ((ticket, recorder),) = submit(engine, {})
    engine.cancel(ticket)
    engine.tick()
    assert len(recorder.events) == 1
    assert recorder.end.stop_reason is StopReason.CANCELLED
    assert recorder.end.stats.ttfa_ms is None
    assert recorder.end.stats.rtf is None


def test_cancel_while_waiting_starts_the_next_request(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1)
    kwargs = submit(engine, *[{"max_frames": 30}] * 3)
    engine.tick()
    engine.cancel(kwargs[1][0])
    engine.tick()
    assert kwargs[1][1].end.stop_reason is StopReason.CANCELLED
    assert kwargs[2][1].positions == [1, 0]
    drain(engine)
    assert not kwargs[1][1].chunks
    assert len(kwargs[2][1].codes) == 30


def test_cancel_while_speaking_releases_the_slot_within_a_frame(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1)
    (ticket, recorder), (_, waiting) = submit(engine, {"max_frames": 100}, {"max_frames": 3})
    run_turns(engine, 10)
    before = len(recorder.events)
    engine.cancel(ticket)
    engine.tick()
    assert len(recorder.events) == before + 1
    assert recorder.end.stop_reason is StopReason.CANCELLED
    assert recorder.end.stats.frames == len(recorder.codes) > 0
    assert isinstance(waiting.events[1], Started)
    drain(engine)
    assert len(recorder.events) == before + 1
    assert len(waiting.codes) == 3


def test_cancel_of_ended_or_unknown_requests_is_ignored(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    ((ticket, recorder),) = submit(engine, {"max_frames": 2})
    drain(engine)
    events = list(recorder.events)
    for stranger in (ticket, ticket, 0, -1, 10**9):
        engine.cancel(stranger)
    engine.tick()
    assert not engine.tick()
    assert recorder.events == events
    assert speak(engine, custom_voice(max_frames=2)).end.stop_reason is StopReason.MAX_TOKENS


# --- Tests of engines with and without their own thread.


def test_engine_thread_serves_requests_from_any_thread(quick: Checkpoint) -> None:
    engine, done = engine_of(quick, slots=2), threading.Barrier(5)
    recorders = [EventRecorder() for _ in range(4)]

    def client(index: int) -> None:
        ended = threading.Event()

        def sink(event: SpeechEvent) -> None:
            recorders[index](event)
            if isinstance(event, Finished | Broken):
                ended.set()

        engine.submit(custom_voice(max_frames=5 + index), sink)
        assert ended.wait(WAIT_S)
        done.wait(WAIT_S)

    engine.start()
    try:
        for index in range(4):
            threading.Thread(target=client, args=(index,), daemon=True).start()
        done.wait(WAIT_S)
    finally:
        engine.close()
    assert [len(recorder.codes) for recorder in recorders] == [5, 6, 7, 8]
    for index, recorder in enumerate(recorders):
        assert np.array_equal(recorder.codes, speak(engine_of(quick), custom_voice(max_frames=5 + index)).codes)


@pytest.mark.parametrize("started", [True, False])
def test_closing_the_engine_notifies_all_requests_and_refuses_new_requests(quick: Checkpoint, started: bool) -> None:
    engine, begun = engine_of(quick, slots=1), threading.Event()
    recorders = [EventRecorder(), EventRecorder()]

    def sink(event: SpeechEvent) -> None:
        recorders[0](event)
        begun.set()

    engine.submit(custom_voice(max_frames=400), sink)
    engine.submit(custom_voice(max_frames=400), recorders[1])
    if started:
        engine.start()
        assert begun.wait(WAIT_S)
    engine.close()
    for recorder in recorders:
        assert isinstance(recorder.end, Broken)
        assert isinstance(recorder.end.error, EngineDead)
    with pytest.raises(EngineDead):
        raise_refusal(engine, custom_voice())
    assert not engine.alive


def test_engine_speak_method_runs_on_the_thread_of_the_caller(speaker: Checkpoint) -> None:
    engine = engine_of(speaker)
    events = list(engine.speak(custom_voice(max_frames=5)))
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    recorder = EventRecorder(events)
    assert np.array_equal(recorder.codes, speak(engine_of(speaker), custom_voice(max_frames=5)).codes)
    assert engine.load().active == 0


def test_engine_speak_method_yields_audio_before_the_end(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    events = engine.speak(custom_voice(max_frames=200))
    assert isinstance(next(events), Started)
    assert isinstance(next(events), AudioChunk)
    assert engine.load().frames < 5


def test_closing_the_speak_generator_releases_the_slot(quick: Checkpoint) -> None:
    engine = engine_of(quick, slots=1)
    events = engine.speak(custom_voice(max_frames=400))
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert speak(engine, custom_voice(max_frames=3)).end.stats.frames == 3
    assert engine.load().active == 0


def test_engine_speak_method_raises_errors_before_it_starts(speaker: Checkpoint) -> None:
    with pytest.raises(UnknownVoice):
        next(engine_of(speaker).speak(custom_voice(voice="nobody")))


# --- Tests of an engine with several checkpoints.


def settings_of(*models: str) -> Settings:
    return Settings(models=models, engine=EngineSettings(device="cpu", max_slots=2, max_model_len=256))


def test_each_mode_has_its_checkpoint_and_all_share_one_speech_tokenizer(
    folder_of: FolderOf, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = counted(checkpoint_module, "speech_tokenizer_networks", monkeypatch)
    folders = [str(folder_of("brief", mode)) for mode in ("custom_voice", "voice_design", "base")]
    engine = Engine.open(settings_of(folders[0], f"voice_design={folders[1]}", folders[2]))
    assert [card.modes for card in engine.cards] == [(Mode.CUSTOM_VOICE,), (Mode.VOICE_DESIGN,), (Mode.BASE,)]
    assert len(networks) == 1
    requests = [custom_voice(max_frames=6), voice_design(max_frames=6), cloned(max_frames=6)]
    recorders = speak_together(engine, *requests, apart=1)
    for request, recorder, card in zip(requests, recorders, engine.cards, strict=True):
        assert np.array_equal(recorder.codes, speak(engine_of(loaded("brief", request.mode)), request).codes)
        assert recorder.started.checkpoint == card.name
    assert engine.load().slots == 6


def test_model_card_lists_the_capabilities_of_a_checkpoint(folder_of: FolderOf) -> None:
    (card,) = Engine.open(settings_of(str(folder_of("odd", "custom_voice")))).cards
    assert card.name == "odd-custom_voice-1"
    assert card.speakers == ("ada", "bob_2", "mei")
    assert set(card.languages) == {"chinese", "english", "french", "korean", "cantonese_dialect"}
    assert card.layouts == tuple(Layout)
    assert card.takes_instruct
    assert card.speaks
    assert (card.samples_per_frame, card.device, card.dtype) == (960, "cpu", "float32")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (("{custom_voice}", "{custom_voice}"), "is served by brief-"),
        (("base={custom_voice}",), "it serves custom_voice, not base"),
        (("base={base}", "{base}"), "is served by brief-"),
    ],
)
def test_contradicting_model_entries_are_refused(folder_of: FolderOf, entries: tuple[str, ...], words: str) -> None:
    folders = {mode: str(folder_of("brief", mode)) for mode in ("custom_voice", "base")}
    with pytest.raises(InvalidSetting, match=words):
        Engine.open(settings_of(*(entry.format(**folders) for entry in entries)))


def test_equals_sign_in_a_path_is_not_parsed_as_a_mode(folder_of: FolderOf, tmp_path: Path) -> None:
    link = tmp_path / "a=b"
    link.symlink_to(folder_of("brief", "custom_voice"))
    assert Engine.open(settings_of(str(link))).cards[0].modes == (Mode.CUSTOM_VOICE,)


def test_checkpoint_may_serve_several_modes(folder_of: FolderOf, loaded: Loaded) -> None:
    base = loaded("brief", "custom_voice")
    both = replace(base, config=replace(base.config, modes=(Mode.CUSTOM_VOICE, Mode.VOICE_DESIGN)))
    engine = engine_of(both)
    recorders = speak_together(engine, custom_voice(max_frames=4), voice_design(max_frames=4))
    assert engine.load().slots == 4
    assert [len(recorder.codes) for recorder in recorders] == [4, 4]


def test_sampled_codes_differ_from_greedy_codes(speaker: Checkpoint) -> None:
    """If sampled requests had greedy codes, other tests of sampling could not fail."""
    sampled = speak(engine_of(speaker), custom_voice(sampling=Sampling()))
    assert not np.array_equal(sampled.codes, speak(engine_of(speaker), custom_voice()).codes)
