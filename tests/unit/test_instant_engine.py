"""Tests for the instant engine, compared with the real engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from runtime.errors import EmptyText, UnknownVoice
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    Mode,
    SpeechEvent,
    SpeechRequest,
    Started,
    StopReason,
    WaitingForText,
)
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Settings
from tests.support.instant_engine import UNREAD, InstantEngine
from tests.support.instant_speech import FRAME_SAMPLES

WAIT_S = 60
REQUEST = SpeechRequest(text="The kettle is on.", mode=Mode.CUSTOM_VOICE, voice="clara", seed=3)
LONG = replace(REQUEST, text="The boat came back in the evening. " * 40)


@dataclass
class EventRecorder:
    """Event sink that stores events and lets other threads wait for events."""

    events: list[SpeechEvent] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, event: SpeechEvent) -> None:
        with self.news:
            self.events.append(event)
            self.news.notify()

    def until(self, kind: type[SpeechEvent]) -> SpeechEvent:
        """Wait for the first event of a type, and return the event."""

        def found() -> SpeechEvent | None:
            return next((event for event in self.events if isinstance(event, kind)), None)

        with self.news:
            event = self.news.wait_for(found, WAIT_S)
        assert event is not None, self.events
        return event

    @property
    def pcm(self) -> bytes:
        return b"".join(event.pcm for event in self.events if isinstance(event, AudioChunk))


@pytest.fixture
def engine() -> Iterator[InstantEngine]:
    settings = Settings(models=(str(DEMO_CHECKPOINT),), engine=EngineSettings(max_slots=2, max_waiting=1))
    opened = InstantEngine.open(settings)
    opened.start()
    yield opened
    opened.close()


def speak(engine: InstantEngine, request: SpeechRequest) -> EventRecorder:
    recorder = EventRecorder()
    engine.submit(request, recorder)
    recorder.until(Finished)
    return recorder


def test_audio_comes_in_growing_chunks_and_is_reproducible(engine: InstantEngine) -> None:
    recorder = speak(engine, REQUEST)
    assert isinstance(recorder.events[0], Started)
    chunks = [event for event in recorder.events if isinstance(event, AudioChunk)]
    frames = [len(chunk.pcm) // 2 // FRAME_SAMPLES for chunk in chunks]
    assert frames[:2] == [1, 2]
    assert [chunk.first_sample for chunk in chunks] == [
        sum(frames[:number]) * FRAME_SAMPLES for number in range(len(frames))
    ]
    assert recorder.until(Finished).stop_reason is StopReason.EOS
    assert speak(engine, REQUEST).pcm == recorder.pcm
    for other in ({"seed": 4}, {"voice": "angus"}, {"instruct": "Slowly."}):
        assert speak(engine, replace(REQUEST, **other)).pcm != recorder.pcm
    assert engine.load().active == 0


def test_unacknowledged_request_is_paused(engine: InstantEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.instant_engine.AT_ONCE", 10_000)
    recorder = EventRecorder()
    ticket = engine.submit(replace(LONG, acknowledged=True), recorder)
    speak(engine, REQUEST)  # The engine has processed both requests in the meantime.
    assert 0 < len(recorder.pcm) // 2 // FRAME_SAMPLES <= UNREAD
    engine.ack_sent(ticket, 10**9)
    assert recorder.until(Finished).stop_reason is StopReason.EOS
    assert len(recorder.pcm) // 2 // FRAME_SAMPLES > UNREAD


def test_text_may_be_streamed(engine: InstantEngine) -> None:
    recorder = EventRecorder()
    ticket = engine.submit(replace(REQUEST, text="", open_text=True), recorder)
    assert engine.load().waiting_for_text == 1
    engine.append(ticket, "The kettle ")
    engine.append(ticket, "is on.")
    engine.flush(ticket)
    recorder.until(WaitingForText)
    engine.append(ticket, " Come in.")
    engine.finish_text(ticket)
    recorder.until(Finished)
    first, second = (speak(engine, replace(REQUEST, text=text)).pcm for text in (REQUEST.text, "Come in."))
    assert recorder.pcm == first + second


def test_requests_refused_by_the_real_engine_are_refused(engine: InstantEngine) -> None:
    with pytest.raises(UnknownVoice):
        engine.submit(replace(REQUEST, voice="nobody"), EventRecorder())
    recorder = EventRecorder()
    engine.finish_text(engine.submit(replace(REQUEST, text="", open_text=True), recorder))
    broken = recorder.until(Broken)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, EmptyText)
