"""Tests for the prompt worker, which computes voice prompts while the engine is idle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime.errors import ReferenceTooLong, SpeechError
from runtime.request import EngineLoad, Mode, Reference, VoicePrompt
from runtime.server.voices import prompt_worker
from runtime.server.voices.prompt_worker import PromptWorker
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.voices.library import Library
from runtime.voices.voice_file import read_voice
from tests.support.timeouts import becomes
from tests.support.voices import create_voice


@dataclass
class PreparingEngine:
    """Fake engine that computes voice prompts on another thread, like the real engine."""

    fingerprint: str = "first"
    loaded: bool = True
    active: int = 0
    refuse: SpeechError | None = None
    made: list[int] = field(default_factory=list)  # Number of samples of each prepared reference.
    at_once: int = 0
    max_at_once: int = 0

    @property
    def cards(self) -> tuple[Any, ...]:
        other = SimpleNamespace(modes=(Mode.CUSTOM_VOICE,), fingerprint="other", loaded=True)
        return (other, SimpleNamespace(modes=(Mode.BASE,), fingerprint=self.fingerprint, loaded=self.loaded))

    def load(self) -> EngineLoad:
        return EngineLoad(slots=1, active=self.active, waiting=0)

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        assert mode is Mode.BASE
        assert not self.active
        self.at_once += 1
        self.max_at_once = max(self.max_at_once, self.at_once)
        self.made.append(len(reference.samples))
        prompt = VoicePrompt(fingerprint=self.fingerprint, x_vector=np.ones(4, np.float32))

        def finish() -> None:
            self.at_once -= 1
            done(self.refuse or prompt)

        threading.Timer(0.01, finish).start()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    made = Library(tmp_path)
    made.open()
    yield made
    made.close()


async def keep(library: Library, engine: PreparingEngine, during: Callable[[PromptWorker], Any]) -> None:
    """Run a prompt worker until the coroutine function ``during`` has ended."""
    with ThreadPoolExecutor(2) as workers:
        worker = PromptWorker(lambda: [library], engine, workers)  # type: ignore[arg-type]
        task = asyncio.create_task(worker.run())
        await during(worker)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def kept(library: Library) -> dict[str, list[str]]:
    return {card.name: sorted(read_voice(library.export(card.id)).prompts) for card in library.cards()}


def test_voice_library_has_the_methods_that_the_server_needs(library: Library) -> None:
    asked: VoiceLibrary = library
    assert asked.cards() == ()


async def test_every_voice_gets_its_prompt_one_at_a_time(library: Library) -> None:
    for name in "ABC":
        library.register_voice(create_voice(name, prompts={}))
    engine = PreparingEngine()

    async def during(worker: PromptWorker) -> None:
        await becomes(lambda: not library.without_prompt("first"))
        library.register_voice(create_voice("D", prompts={}))
        worker.wake()
        await becomes(lambda: not library.without_prompt("first"))

    await keep(library, engine, during)
    assert kept(library) == {name: ["first"] for name in "ABCD"}
    assert (len(engine.made), engine.max_at_once) == (4, 1)
    assert library.fingerprint == "first"


async def test_another_checkpoint_computes_prompts_again(library: Library) -> None:
    card = library.register_voice(create_voice("A", prompts={}))
    for fingerprint in ("first", "second"):

        async def during(_: PromptWorker, wanted: str = fingerprint) -> None:
            await becomes(lambda: not library.without_prompt(wanted))

        await keep(library, PreparingEngine(fingerprint), during)
        prompt = library.reference(card.id).prompt
        assert prompt is not None
        assert prompt.fingerprint == fingerprint
    assert kept(library) == {"A": ["first", "second"]}


async def test_prompts_are_computed_only_if_the_engine_is_idle(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_worker, "BUSY_POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(prompt_worker, "POLL_INTERVAL_S", 0.01)
    library.register_voice(create_voice("A", prompts={}))
    engine = PreparingEngine(active=1)

    async def during(_: PromptWorker) -> None:
        await asyncio.sleep(0.1)
        assert engine.made == []
        engine.active, engine.loaded = 0, False
        await asyncio.sleep(0.1)
        assert engine.made == []
        engine.loaded = True
        await becomes(lambda: not library.without_prompt("first"))

    await keep(library, engine, during)


async def test_voice_that_cannot_be_prepared_is_not_retried_forever(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prompt_worker, "POLL_INTERVAL_S", 0.01)
    card = library.register_voice(create_voice("A", prompts={}))
    engine = PreparingEngine(refuse=ReferenceTooLong(seconds=70.0, limit=60.0))

    async def during(worker: PromptWorker) -> None:
        await becomes(lambda: len(engine.made) == 1)
        await asyncio.sleep(0.2)
        assert len(engine.made) == 1
        engine.refuse = None
        worker.wake()  # Another upload wakes the worker.
        await becomes(lambda: not library.without_prompt("first"))

    await keep(library, engine, during)
    assert card.id in caplog.text
    assert "ref_too_long" in caplog.text


async def test_voice_deleted_during_preparation_is_ignored(library: Library) -> None:
    card = library.register_voice(create_voice("A", prompts={}))
    engine = PreparingEngine()

    async def during(worker: PromptWorker) -> None:
        await becomes(lambda: bool(engine.made))
        library.delete(card.id)
        library.register_voice(create_voice("B", prompts={}))
        worker.wake()
        await becomes(lambda: library.without_prompt("first") == ())

    await keep(library, engine, during)
    assert kept(library) == {"B": ["first"]}
