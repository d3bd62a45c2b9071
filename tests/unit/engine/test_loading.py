"""Tests for checkpoints that are loaded at their first request, and for failed loads."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime.engine.core as core_module
from runtime.engine.engine import Engine
from runtime.engine.loading.loader import CheckpointLoader
from runtime.engine.loading.registry import RegistryEntry
from runtime.engine.scheduling.input_processor import admit
from runtime.errors import CheckpointUnusable, EmptyText, EngineDead, UnknownVoice
from runtime.request import Broken, Finished, Mode, Queued, SpeechEvent, StopReason
from runtime.settings import EngineSettings, Limits, Settings
from tests.conftest import FolderOf, Loaded
from tests.support.engines import (
    EventRecorder,
    custom_voice,
    drain,
    engine_of,
    raise_refusal,
    speak,
    streamed,
    voice_design,
)

WAIT_S = 60.0


def waiting_engine(*models: object) -> Engine:
    """Return an engine without a loaded checkpoint.

    Tests call `tick` while the loader's thread works.
    """
    settings = EngineSettings(device="cpu", max_slots=2, max_model_len=256, loads="first_use")
    return Engine.open(
        Settings(models=tuple(map(str, models)), engine=settings, limits=Limits(queue_s=1e9, max_text_chars=100))
    )


@pytest.fixture
def broken(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return the folder of a checkpoint with a valid configuration and invalid weights."""
    folder = tmp_path / "broken"
    shutil.copytree(folder_of("tiny", "voice_design"), folder)
    (folder / "model.safetensors").write_bytes(b"\x08" + bytes(40))
    return folder


def tick_until(engine: Engine, done: Callable[[], bool]) -> None:
    """Call `tick` until a condition is true."""
    late = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < late
        if not engine.tick():
            time.sleep(0.005)


def test_model_card_is_available_before_the_checkpoint_is_loaded(folder_of: FolderOf) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    (card,) = engine.cards
    assert (card.modes, card.loaded, card.samples_per_frame) == ((Mode.CUSTOM_VOICE,), False, 1920)
    assert card.speakers[0] == "serena"
    assert engine.load().slots == 2
    recorder = EventRecorder()
    engine.submit(custom_voice(max_frames=3), recorder)
    tick_until(engine, lambda: recorder.ended)
    (after,) = engine.cards
    assert after.loaded
    assert after.fingerprint == card.fingerprint


def test_requests_waiting_for_their_checkpoint_are_served_in_order(folder_of: FolderOf, loaded: Loaded) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    recorders = [EventRecorder() for _ in range(4)]
    for index, recorder in enumerate(recorders):
        engine.submit(custom_voice(max_frames=3 + index), recorder)
        assert recorder.events == [Queued(index)]
    tick_until(engine, lambda: all(recorder.ended for recorder in recorders))
    alone = engine_of(loaded("quick", "custom_voice"))
    for index, recorder in enumerate(recorders):
        assert np.array_equal(recorder.codes, speak(alone, custom_voice(max_frames=3 + index)).codes)


@pytest.mark.slow
def test_commands_during_loading_keep_their_order(folder_of: FolderOf, loaded: Loaded) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    live, gone = EventRecorder(), EventRecorder()
    ticket = engine.submit(streamed("Hel", open_text=True, max_frames=8), live)
    other = engine.submit(custom_voice(), gone)
    for piece in ("lo wor", "ld, you", " speak."):
        engine.append_text(ticket, piece)
        engine.tick()
    engine.cancel(other)
    engine.finish_text(ticket)
    tick_until(engine, lambda: live.ended and gone.ended)
    expected = speak(engine_of(loaded("quick", "custom_voice")), streamed("Hello world, you speak.", max_frames=8))
    assert np.array_equal(live.codes, expected.codes)
    assert gone.end.stop_reason is StopReason.CANCELLED
    assert not gone.chunks


def test_waiting_requests_are_validated_on_the_loader_thread(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    threads: list[str] = []

    def admit_and_record(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return admit(*args, **kwargs)

    monkeypatch.setattr(core_module, "admit", admit_and_record)
    recorder = EventRecorder()
    engine.submit(streamed("Hello world.", max_frames=6), recorder)
    tick_until(engine, lambda: recorder.ended)
    assert threads == ["loader"]
    assert len(recorder.codes) == 6


def test_commands_at_the_end_of_loading_are_not_lost(
    folder_of: FolderOf, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine core has just been loaded when a command arrives.

    Waiting requests have not been submitted to the core yet.
    """
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    entry = engine.registry.entries[0]
    monkeypatch.setattr(engine, "_load_late", lambda _: None)
    recorder = EventRecorder()
    ticket = engine.submit(streamed("Hello ", open_text=True, max_frames=6), recorder)
    engine.loader.create_core(entry, loaded("quick", "custom_voice"))
    engine.append_text(ticket, "world.")
    engine.finish_text(ticket)
    engine.tick()
    engine.admit_waiting(entry, {})
    drain(engine)
    assert np.array_equal(recorder.codes, speak(engine, streamed("Hello world.", max_frames=6)).codes)


@pytest.mark.parametrize("usable", [True, False])
def test_request_arriving_as_loading_ends_is_served_or_notified(
    folder_of: FolderOf, loaded: Loaded, monkeypatch: pytest.MonkeyPatch, usable: bool
) -> None:
    """Loading ends between the check that it has not ended and the queueing of the request."""
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    entry = engine.registry.entries[0]
    entry.is_loading = True
    add = engine._open.add_open_request

    def loaded_meanwhile(*args: Any) -> None:
        if usable:
            engine.loader.create_core(entry, loaded("quick", "custom_voice"))
        else:
            entry.has_failed = True
        engine.commands.clear()
        add(*args)

    monkeypatch.setattr(engine._open, "add_open_request", loaded_meanwhile)
    recorder = EventRecorder()
    engine.submit(custom_voice(max_frames=3), recorder)
    drain(engine)
    if usable:
        assert len(recorder.codes) == 3
    else:
        assert isinstance(recorder.end, Broken)
        assert type(recorder.end.error) is CheckpointUnusable


@pytest.mark.logs_errors
def test_broken_checkpoint_fails_only_its_own_mode(
    folder_of: FolderOf, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"), broken)
    all_wait, load = threading.Event(), engine.loader.load

    def load_once_all_wait(entry: RegistryEntry) -> None:
        assert all_wait.wait(WAIT_S)
        load(entry)

    monkeypatch.setattr(engine.loader, "load", load_once_all_wait)
    recorders = [EventRecorder(), EventRecorder(), EventRecorder()]
    engine.submit(voice_design(), recorders[0])
    engine.submit(voice_design(), recorders[1])
    engine.submit(custom_voice(max_frames=3), recorders[2])
    all_wait.set()
    tick_until(engine, lambda: all(recorder.ended for recorder in recorders))
    for recorder in recorders[:2]:
        assert isinstance(recorder.end, Broken)
        assert type(recorder.end.error) is CheckpointUnusable
        assert str(broken) not in str(recorder.end.error)
    assert len(recorders[2].codes) == 3
    with pytest.raises(CheckpointUnusable):
        raise_refusal(engine, voice_design())
    assert [card.loaded for card in engine.cards] == [True, False]
    assert len(speak(engine, custom_voice(max_frames=2)).codes) == 2


def test_invalid_requests_are_refused_once_the_checkpoint_is_loaded(folder_of: FolderOf) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    bad = [(custom_voice(voice="nobody"), UnknownVoice), (custom_voice(" \n"), EmptyText)]
    recorders = [EventRecorder() for _ in bad]
    good = EventRecorder()
    for (request, _), recorder in zip(bad, recorders, strict=True):
        engine.submit(request, recorder)
    engine.submit(custom_voice(max_frames=2), good)
    tick_until(engine, lambda: good.ended)
    for (_, error), recorder in zip(bad, recorders, strict=True):
        assert isinstance(recorder.end, Broken)
        assert type(recorder.end.error) is error
    assert engine.load().waiting == 0


def test_close_during_loading_notifies_waiting_requests(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    monkeypatch.setattr(engine, "_load_late", lambda _: None)
    recorder = EventRecorder()
    ticket = engine.submit(streamed("Hello", open_text=True), recorder)
    engine.append_text(ticket, " world")
    engine.close()
    assert isinstance(recorder.end, Broken)
    assert type(recorder.end.error) is EngineDead


@pytest.mark.slow
def test_checkpoints_loaded_later_share_one_speech_tokenizer(folder_of: FolderOf) -> None:
    engine = waiting_engine(folder_of("tiny", "custom_voice"), folder_of("tiny", "voice_design"))
    for request in (custom_voice(max_frames=2), voice_design(max_frames=2)):
        recorder = EventRecorder()
        engine.submit(request, recorder)
        tick_until(engine, lambda recorder=recorder: recorder.ended)  # type: ignore[misc]
        assert len(recorder.codes) == 2
    one, other = (core.checkpoint.speech_tokenizer for core in engine.registry.cores)
    assert one is other


def test_cancel_is_answered_while_the_checkpoint_loads(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, load = threading.Event(), CheckpointLoader.load

    def slow(loader: CheckpointLoader, entry: RegistryEntry) -> None:
        assert gate.wait(WAIT_S)
        load(loader, entry)

    monkeypatch.setattr(CheckpointLoader, "load", slow)
    engine = waiting_engine(folder_of("quick", "custom_voice"))
    gone, stays = EventRecorder(), EventRecorder()
    ticket = engine.submit(custom_voice(max_frames=3), gone)
    engine.submit(custom_voice(max_frames=3), stays)
    engine.cancel(ticket)
    assert gone.end.stop_reason is StopReason.CANCELLED
    assert not stays.ended
    gate.set()
    tick_until(engine, lambda: stays.ended)
    assert len(stays.codes) == 3
    assert not gone.chunks


@pytest.mark.logs_errors
def test_sink_that_fails_while_the_checkpoint_loads_ends_only_its_own_request(folder_of: FolderOf) -> None:
    engine, events, other = waiting_engine(folder_of("quick", "custom_voice")), list[SpeechEvent](), EventRecorder()

    def fail(event: SpeechEvent) -> None:
        events.append(event)
        raise RuntimeError("the listener")

    submitting = threading.Thread(target=engine.submit, args=(custom_voice(), fail), daemon=True)
    submitting.start()
    submitting.join(WAIT_S)
    assert [type(event) for event in events] == [Queued, Finished]
    engine.submit(custom_voice(max_frames=2), other)
    tick_until(engine, lambda: other.ended)
    assert len(other.codes) == 2
