"""Tests for an engine in another process: requests and events through real pipes.

Each test runs twice, because either an event loop or a thread can read the engine's events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from runtime.errors import EmptyText, EngineDead, GenerationFailed, Overloaded, ReferenceTooShort, SpeechError
from runtime.request import (
    Broken,
    EngineLoad,
    Finished,
    Mode,
    Reference,
    Refused,
    SpeechEvent,
    SpeechRequest,
    VoicePrompt,
)
from runtime.server.engine_process import client as client_module
from runtime.server.engine_process import service as service_module
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.client import EngineClient
from runtime.server.engine_process.messages import Status
from runtime.server.engine_process.service import EngineService
from tests.support.scripted_engine import CARD, ScriptedEngine, chunk, finished, started
from tests.support.timeouts import TEST_TIMEOUT_S, until

REQUEST = SpeechRequest(text="Hello.", mode=Mode.CUSTOM_VOICE)
REFERENCE = Reference(samples=np.zeros(24_000, np.float32), text="Words.")
PROMPT = VoicePrompt(fingerprint="f", x_vector=np.ones(8, np.float32), codes=np.ones((3, 4), np.int64))


@dataclass(slots=True)
class PreparingEngine(ScriptedEngine):
    """Scripted engine that also records prompt preparations, start and close."""

    prepared: list[Callable[[VoicePrompt | SpeechError], None]] = field(default_factory=list)
    is_started: bool = False
    is_closed: bool = False
    step_since: float | None = None

    def start(self) -> None:
        self.is_started = True

    def close(self, timeout_s: float | None = None) -> None:
        self.is_closed = True

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        self.fail_if_scripted("prepare")
        np.testing.assert_array_equal(reference.samples, REFERENCE.samples)
        self.prepared.append(done)

    def busy_since(self) -> float | None:
        return self.step_since


Run = Callable[[Callable[[], None]], None]


@contextmanager
def loop_running() -> Iterator[Run]:
    """Yield a function that runs a call on an event loop in another thread and waits for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="test-loop")
    thread.start()

    def run(call: Callable[[], None]) -> None:
        async def called() -> None:
            call()

        asyncio.run_coroutine_threadsafe(called(), loop).result(TEST_TIMEOUT_S)

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def no_loop() -> Iterator[Run]:
    yield lambda call: call()


@dataclass(slots=True)
class Apart:
    """Engine in a simulated separate process, its service, and the client of the server."""

    engine: PreparingEngine
    service: EngineService
    client: EngineClient
    process: subprocess.Popen[bytes]
    serving: threading.Thread
    run: Run
    by_loop: bool  # True if the event loop reads the events, False if a thread does.

    def close(self, timeout_s: float) -> None:
        """Close the client on the thread that started it."""
        self.run(lambda: self.client.close(timeout_s))

    def submit(self, request: SpeechRequest = REQUEST) -> tuple[int, list[SpeechEvent]]:
        """Submit a request, and return its ticket and the list to which events are appended."""
        heard: list[SpeechEvent] = []
        return self.client.submit(request, heard.append), heard

    def settle(self) -> None:
        """Wait until the engine has received all commands of the client."""
        answers: list[object] = []
        before = len(self.engine.prepared)
        self.client.prepare(REFERENCE, Mode.BASE, answers.append)
        until(lambda: len(self.engine.prepared) > before)
        self.engine.prepared.pop()(GenerationFailed())
        until(lambda: answers)


@pytest.fixture(params=[loop_running, no_loop], ids=["loop", "thread"])
def apart(request: pytest.FixtureRequest) -> Iterator[Apart]:
    (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()
    engine = PreparingEngine()
    # This process only waits for its standard input. The engine is served by a thread of the test's process.
    process = subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with os.fdopen(there_out, "rb") as there, os.fdopen(back_out, "rb") as back, request.param() as run:
        of_engine = Channel(there, os.fdopen(back_in, "wb"))
        service = EngineService(engine, of_engine)
        service.send_status()
        status = Status(EngineLoad(slots=8, active=0, waiting=0), alive=True, busy_since=None, cards=(CARD,))
        client = EngineClient(process, Channel(back, os.fdopen(there_in, "wb")), status)

        def serve() -> None:
            service.run()
            of_engine.close(TEST_TIMEOUT_S)

        serving = threading.Thread(target=serve, name="test-service")
        serving.start()
        run(client.start)
        by_loop = request.param is loop_running
        assert client._listener.is_alive() != by_loop
        yield (both := Apart(engine, service, client, process, serving, run, by_loop))
        process.communicate()
        both.close(TEST_TIMEOUT_S)
        serving.join(TEST_TIMEOUT_S)
        assert not serving.is_alive()


def assert_refused_as_dead(apart: Apart) -> None:
    _, (event,) = apart.submit()
    assert isinstance(event, Refused)
    assert isinstance(event.error, EngineDead)


def test_request_is_accepted_and_its_events_arrive_in_order(apart: Apart) -> None:
    ticket, recorder = apart.submit(replace(REQUEST, seed=5))
    _, other = apart.submit()
    until(lambda: len(apart.engine.requests) == 2)
    assert apart.engine.is_started
    assert apart.engine.requests[0] == replace(REQUEST, seed=5)
    apart.engine.emit(1, started(5), chunk(1, 1), chunk(2, 2), finished())
    apart.engine.emit(2, started(6), finished())
    until(lambda: len(recorder) == 4 and len(other) == 2)
    assert [type(event) for event in recorder] == [type(event) for event in (started(), chunk(), chunk(), finished())]
    assert (recorder[0], recorder[3], other[0]) == (started(5), finished(), started(6))
    assert ticket != 0


def test_every_command_reaches_the_engine_with_its_ticket(apart: Apart) -> None:
    apart.submit()
    ticket, _ = apart.submit()
    apart.settle()
    client = apart.client
    client.append_text(ticket, "More.")
    client.flush(ticket)
    client.ack_played(ticket, 80.0)
    client.finish_text(ticket)
    client.cancel(ticket)
    apart.settle()
    assert apart.engine.commands == [
        ("append_text", 2, "More."),
        ("flush", 2),
        ("ack_played", 2, 80.0),
        ("finish_text", 2),
        ("cancel", 2),
    ]


def test_acknowledgements_are_batched_and_only_the_latest_is_sent(apart: Apart) -> None:
    (first, _), (second, _) = apart.submit(), apart.submit()
    apart.settle()

    def leave() -> None:
        for samples in (1920, 3840):
            apart.client.ack_sent(first, samples)
            apart.client.ack_sent(second, 2 * samples)

    apart.run(leave)
    last = [("ack_sent", 1, 3840), ("ack_sent", 2, 7680)]
    until(lambda: apart.engine.commands[-2:] == last)
    if apart.by_loop:
        assert apart.engine.commands == last


@pytest.mark.parametrize(
    "error", [EmptyText(param="text"), Overloaded(slots=1, waiting=0, retry_after_s=1.5), EngineDead()], ids=repr
)
def test_refusal_is_the_only_event_of_a_request(apart: Apart, error: SpeechError) -> None:
    apart.engine.refusal = error
    _, recorder = apart.submit()
    until(lambda: recorder)
    (event,) = recorder
    assert isinstance(event, Refused)
    assert (type(event.error), event.error.param, str(event.error)) == (type(error), error.param, str(error))
    apart.engine.refusal = None
    apart.submit()
    until(lambda: apart.engine.requests)


@pytest.mark.logs_errors
def test_failing_event_sink_ends_only_its_request(apart: Apart, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: SpeechEvent) -> None:
        raise RuntimeError("the listener")

    apart.client.submit(REQUEST, fail)
    _, recorder = apart.submit()
    until(lambda: len(apart.engine.requests) == 2)
    apart.engine.emit(1, started())
    apart.engine.emit(2, started(), finished())
    until(lambda: len(recorder) == 2)
    apart.settle()
    assert apart.engine.commands == [("cancel", 1)]
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == [client_module.__name__]


def test_prepared_prompt_is_returned_to_its_caller(apart: Apart) -> None:
    first: list[VoicePrompt | SpeechError] = []
    second: list[VoicePrompt | SpeechError] = []
    apart.client.prepare(REFERENCE, Mode.BASE, first.append)
    apart.client.prepare(REFERENCE, Mode.BASE, second.append)
    until(lambda: len(apart.engine.prepared) == 2)
    apart.engine.prepared[1](PROMPT)
    apart.engine.prepared[0](ReferenceTooShort(seconds=0.5, limit=1))
    until(lambda: first and second)
    assert isinstance(first[0], ReferenceTooShort)
    assert isinstance(second[0], VoicePrompt)
    np.testing.assert_array_equal(second[0].x_vector, PROMPT.x_vector)


@pytest.mark.logs_errors
def test_failing_prompt_callback_does_not_block_other_events(apart: Apart) -> None:
    def fail(_: VoicePrompt | SpeechError) -> None:
        raise RuntimeError("the library")

    apart.client.prepare(REFERENCE, Mode.BASE, fail)
    until(lambda: apart.engine.prepared)
    apart.engine.prepared.pop()(PROMPT)
    ticket, recorder = apart.submit()
    until(lambda: apart.engine.requests)
    apart.engine.emit(ticket, finished())
    until(lambda: recorder)


def test_metrics_and_model_cards_are_forwarded_to_the_server_process(apart: Apart) -> None:
    assert apart.client.cards == (CARD,)
    apart.submit()
    until(lambda: apart.client.load().active == 1)
    apart.engine.cards = (replace(CARD, name="another"),)
    until(lambda: apart.client.cards == apart.engine.cards)
    before = apart.client.cards
    ended = apart.client._status_at
    until(lambda: apart.client._status_at > ended)
    assert apart.client.cards is before  # Unchanged model cards are not sent again.


def test_dead_engine_is_reported_even_without_metrics(apart: Apart) -> None:
    apart.engine.faults["load"] = RuntimeError("CUDA error: device-side assert triggered")
    apart.engine.alive = False
    until(lambda: not apart.client.alive)
    assert apart.client.load().slots == 8
    answers: list[VoicePrompt | SpeechError] = []
    apart.client.prepare(REFERENCE, Mode.BASE, answers.append)
    assert [type(answer) for answer in answers] == [EngineDead]
    assert_refused_as_dead(apart)


def test_engine_without_status_messages_counts_as_busy(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "STATUS_TIMEOUT_S", 3600.0)
    assert apart.client.busy_since() is None
    before = apart.client._status_at
    monkeypatch.setattr(service_module, "STATUS_S", TEST_TIMEOUT_S)
    until(lambda: apart.client._status_at > before)  # The next status message would follow only after a long time.
    monkeypatch.setattr(client_module, "STATUS_TIMEOUT_S", 0.01)
    since = until(apart.client.busy_since)
    assert since == apart.client._status_at
    apart.submit()
    until(lambda: apart.engine.requests)
    apart.engine.emit(1, started())  # The service sends its status after this event.
    until(lambda: apart.client._status_at > since)


def test_step_keeps_its_start_time_if_the_engine_sends_no_more_status_messages(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a later start time, the watchdog would assume that the long step had finished.

    Then the watchdog would wait longer.
    """
    apart.engine.step_since = 5.0
    until(lambda: apart.client.busy_since() == 5.0)
    monkeypatch.setattr(client_module, "STATUS_TIMEOUT_S", 0.0)
    assert apart.client.busy_since() == 5.0


def test_exit_of_the_engine_process_is_reported_once_to_every_request(apart: Apart) -> None:
    (_, first), (_, second) = apart.submit(), apart.submit()
    answers: list[VoicePrompt | SpeechError] = []
    apart.client.prepare(REFERENCE, Mode.BASE, answers.append)
    until(lambda: apart.engine.prepared)
    apart.engine.emit(2, finished())
    until(lambda: second)
    apart.service._channel.close(TEST_TIMEOUT_S)
    until(lambda: answers)
    (event,) = first
    assert isinstance(event, Broken)
    assert isinstance(event.error, EngineDead)
    assert isinstance(answers[0], EngineDead)
    assert [type(event) for event in second] == [Finished]
    assert not apart.client.alive
    assert_refused_as_dead(apart)


@pytest.mark.logs_errors
def test_unreadable_message_counts_as_process_exit(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recorder = apart.submit()

    def spoilt() -> Iterator[bytearray]:
        yield bytearray(1)
        raise ModuleNotFoundError("no module named so")

    monkeypatch.setattr(apart.client._channel, "_assemble_messages", spoilt)
    until(lambda: not apart.client.alive)  # The client fails when it reads the next batch.
    until(lambda: recorder)
    assert isinstance(recorder[0], Broken)


def test_close_ends_the_engine_and_the_process(apart: Apart) -> None:
    apart.process.stdin.close()  # type: ignore[union-attr]  # The process exits when its input is closed.
    apart.process.wait()
    apart.close(TEST_TIMEOUT_S)
    apart.serving.join(TEST_TIMEOUT_S)
    assert apart.engine.is_closed


def test_engine_process_that_does_not_end_is_killed(apart: Apart) -> None:
    apart.close(0.01)
    assert apart.process.returncode == -9


def test_server_exit_ends_the_service(apart: Apart) -> None:
    apart.client._channel.close(TEST_TIMEOUT_S)
    apart.serving.join(TEST_TIMEOUT_S)
    assert not apart.serving.is_alive()
