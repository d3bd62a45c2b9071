"""Engines with tiny checkpoints that a test runs step by step with a virtual clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.device import Device
from runtime.device.cpu import CpuDevice
from runtime.engine.core import Clock, EngineCore
from runtime.engine.engine import PAUSE_S, Engine
from runtime.engine.loading.registry import Registry, RegistryEntry
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.checkpoints.composition import Composition
from runtime.model.checkpoints.files import CheckpointSource
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    Layout,
    Mode,
    Queued,
    Reference,
    Refused,
    Sampling,
    SpeechEvent,
    SpeechRequest,
    Started,
)
from runtime.settings import EngineSettings, Limits, ModeSettings, Settings
from tests.support.signals import voice
from tests.support.timeouts import until

GREEDY = Sampling(greedy=True)
MAX_TICKS = 2000
MAX_IDLE_S = 120.0

new_device: Callable[[], Device] = CpuDevice  # Device constructor for all engines that `engine_of` creates.

Codes = NDArray[np.int64]


@dataclass(slots=True)
class VirtualClock:
    """Virtual clock that tests advance, in seconds."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class EventRecorder:
    """Event sink that stores all events of one speech request."""

    events: list[SpeechEvent] = field(default_factory=list)

    def __call__(self, event: SpeechEvent) -> None:
        self.events.append(event)

    def events_of(self, kind: type[SpeechEvent]) -> list[Any]:
        """Return all stored events of type `kind`, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def chunks(self) -> list[AudioChunk]:
        return self.events_of(AudioChunk)

    @property
    def codes(self) -> Codes:
        """Return the codes of all audio chunks.

        Shapes: result [frames, Q].
        """
        return np.concatenate([chunk.codes for chunk in self.chunks]) if self.chunks else np.empty((0, 0), np.int64)

    @property
    def pcm(self) -> NDArray[np.int16]:
        """Return the PCM samples of all audio chunks.

        Shapes: result [samples].
        """
        return np.frombuffer(b"".join(chunk.pcm for chunk in self.chunks), np.int16)

    @property
    def positions(self) -> list[int]:
        return [event.position for event in self.events_of(Queued)]

    @property
    def started(self) -> Started:
        (event,) = self.events_of(Started)
        return event

    @property
    def ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Finished | Broken)

    @property
    def end(self) -> Finished | Broken:
        """Return the Finished or Broken event, which must be the last event."""
        (event,) = [event for event in self.events if isinstance(event, Finished | Broken)]
        assert event is self.events[-1]
        return event


def engine_of(
    *checkpoints: Checkpoint,
    slots: int = 4,
    length: int = 512,
    limits: Limits | None = None,
    clock: Clock | None = None,
    modes: Mapping[Mode, ModeSettings] | None = None,
    device: Device | None = None,
    **settings: Any,
) -> Engine:
    """Create an engine with these checkpoints and without a thread, by default on the CPU.

    The test advances the engine by calls of ``tick``.
    """
    device = device or new_device()
    engine_settings = EngineSettings(device="cpu", max_slots=slots, max_model_len=length, **settings)
    everything = Settings(engine=engine_settings, modes=modes or Settings().modes, limits=limits or Limits(queue_s=1e9))
    engine = Engine(Registry(), device, everything, clock or VirtualClock())
    for checkpoint in checkpoints:
        config, tokenizer = checkpoint.config, checkpoint.speech_tokenizer.config
        source = CheckpointSource(Path(), name=checkpoint.name)
        composed = Composition({}, config)
        entry = RegistryEntry(source, config.modes, config, tokenizer, checkpoint.fingerprint, 0, composed)
        engine.registry.entries.append(entry)
        engine.loader.create_core(entry, checkpoint)
    return engine


def drain(
    engine: Engine,
    clock: VirtualClock | None = None,
    turn_s: float = 0.0,
    before_tick: Callable[[], None] = lambda: None,
) -> None:
    """Call the engine's `tick` until all requests have ended.

    The clock is advanced by `turn_s` seconds per call, and `before_tick` is called before each call.
    """
    ticks, late = 0, time.monotonic() + MAX_IDLE_S
    while ticks < MAX_TICKS and time.monotonic() < late:
        before_tick()
        worked = engine.tick()
        if not engine.busy:
            return
        if worked:
            ticks, late = ticks + 1, time.monotonic() + MAX_IDLE_S
        elif isinstance(engine.clock, VirtualClock):
            engine.clock.now += PAUSE_S  # Some requests wait until the engine's clock reaches a given time.
            time.sleep(0.0005)  # Other requests wait for a thread.
        if clock is not None:
            clock.now += turn_s
    raise AssertionError(f"still busy after {ticks} ticks")


def run_turns(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.tick()


def speak(engine: Engine, request: SpeechRequest) -> EventRecorder:
    """Submit a request, run the engine until it is idle, and return the events.

    Raises:
        SpeechError: The request was refused.
    """
    recorder = EventRecorder()
    engine.submit(request, recorder)
    drain(engine)
    if isinstance(event := recorder.events[0], Refused):
        raise event.error
    return recorder


def raise_refusal(engine: Engine, request: SpeechRequest) -> None:
    """Submit a request that the engine refuses, and raise the error."""
    recorder = EventRecorder()
    engine.submit(request, recorder)
    until(lambda: recorder.events)
    (event,) = recorder.events
    assert isinstance(event, Refused)
    raise event.error


def speak_together(engine: Engine, *requests: SpeechRequest, apart: int = 0) -> list[EventRecorder]:
    """Submit several requests, run the engine until they have ended, and return their events.

    Each request is submitted `apart` ticks after the previous request.
    """
    recorders = []
    for request in requests:
        recorders.append(EventRecorder())
        engine.submit(request, recorders[-1])
        run_turns(engine, apart)
    drain(engine)
    return recorders


def speak_on_thread(engine: Engine, *requests: SpeechRequest) -> list[EventRecorder]:
    """Serve requests on the engine's own thread, close the engine and return all events."""
    recorders = [EventRecorder() for _ in requests]
    engine.start()
    try:
        for request, recorder in zip(requests, recorders, strict=True):
            engine.submit(request, recorder)
        until(lambda: all(recorder.ended for recorder in recorders))
    finally:
        engine.close()
    return recorders


def assert_slots_are_free(engine: Engine, request: SpeechRequest | None = None) -> None:
    """Assert that requests can use all slots of an engine at the same time."""
    slots = engine.load().slots
    recorders = [EventRecorder() for _ in range(slots)]
    for recorder in recorders:
        engine.submit(request or custom_voice(max_frames=50), recorder)
    engine.tick()
    assert all(recorder.events_of(Started) for recorder in recorders)
    assert engine.load().active == slots
    drain(engine)


def assert_same(recorder: EventRecorder, expected: EventRecorder) -> None:
    """Assert that both requests finished for the same reason with equal codes and samples."""
    assert isinstance(recorder.end, Finished)
    assert isinstance(expected.end, Finished)
    assert recorder.end.stop_reason == expected.end.stop_reason
    assert np.array_equal(recorder.codes, expected.codes)
    assert np.array_equal(recorder.pcm, expected.pcm)


def assert_all_same(recorders: Sequence[EventRecorder], expected: Sequence[EventRecorder]) -> None:
    for recorder, other in zip(recorders, expected, strict=True):
        assert_same(recorder, other)


def assert_one_stream(recorder: EventRecorder) -> None:
    """Assert that the stream has a Started event and that its chunks are contiguous."""
    at = 0
    for chunk in recorder.chunks:
        assert chunk.first_sample == at
        at += len(chunk.pcm) // 2
    assert recorder.started


def custom_voice(text: str = "Hello world, the old phone is slow.", **kwargs: Any) -> SpeechRequest:
    """Return a CustomVoice request, by default with greedy sampling and at most twelve frames."""
    given = {"voice": "serena", "sampling": GREEDY, "max_frames": 12, "seed": 7, **kwargs}
    return SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, **given)


def voice_design(text: str = "Hello world, the old phone is slow.", **kwargs: Any) -> SpeechRequest:
    """Return a VoiceDesign request, by default with greedy sampling and at most twelve frames."""
    given = {"instruct": "A warm young voice.", "sampling": GREEDY, "max_frames": 12, "seed": 7, **kwargs}
    return SpeechRequest(text=text, mode=Mode.VOICE_DESIGN, **given)


def streamed(text: str = "Hello world, the old phone is slow.", **kwargs: Any) -> SpeechRequest:
    """Return a request in the streaming layout that cannot end before all its text is used."""
    return custom_voice(text, **{"layout": Layout.STREAMING, "bans_eos": True, **kwargs})


def speak_live(
    engine: Engine, request: SpeechRequest, pieces: Sequence[str], ticks: Sequence[int] = ()
) -> EventRecorder:
    """Submit a request, send its text in pieces to the engine, and return the events.

    `ticks` has the number of engine ticks after each piece.
    """
    recorder = EventRecorder()
    ticket = engine.submit(replace(request, text="", open_text=True), recorder)
    for piece, turns in zip_longest(pieces, ticks[: len(pieces)], fillvalue=0):
        engine.append_text(ticket, str(piece))
        run_turns(engine, int(turns))
    engine.finish_text(ticket)
    drain(engine)
    return recorder


def cloned(text: str = "Hello world, the old phone is slow.", *, seconds: float = 1.2, **kwargs: Any) -> SpeechRequest:
    """Return a voice cloning request with a transcript, by default with greedy sampling."""
    x_vector_only = kwargs.pop("x_vector_only", False)
    reference = Reference(samples=voice(seconds, 11), text="I say hello.", x_vector_only=x_vector_only)
    given = {"reference": reference, "sampling": GREEDY, "max_frames": 12, "seed": 7, **kwargs}
    return SpeechRequest(text=text, mode=Mode.BASE, **given)


def core_of(engine: Engine, mode: Mode = Mode.CUSTOM_VOICE) -> EngineCore:
    """Return the engine core that serves a mode."""
    entry = engine.registry.entry(mode)
    assert entry is not None
    assert entry.core is not None
    return entry.core


def seeded(seed: int, **kwargs: Any) -> dict[str, Any]:
    """Return the fields of a speech request for a seed and the default sampling parameters."""
    return {"seed": seed, "sampling": Sampling(**kwargs)}
