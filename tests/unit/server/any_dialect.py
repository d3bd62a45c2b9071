"""Hypothesis state machine of a WebSocket session with random engine events."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from runtime.errors import BadReferenceAudio, GenerationFailed, Overloaded
from runtime.request import Broken, RequestStats, WaitingForText
from runtime.server.session.commands import (
    Append,
    Cancel,
    Close,
    DecodeReference,
    FinishText,
    Flush,
    Played,
    ReadStoredVoice,
    Submit,
)
from runtime.settings import Limits
from tests.unit.server.dialects import REFERENCE, Clock
from tests.unit.server.driver import SessionDriver

LIMITS = Limits(max_contexts=2, max_text_chars=20, session_s=500)


def named(driver: SessionDriver) -> str:
    """Return the kinds of all pending replies and commands of a session, separated by commas."""
    return ", ".join([*driver.kinds(), *(type(command).__name__.lower() for command in driver.commands)])


@dataclass(frozen=True, slots=True)
class StateTable:
    """Expected replies and commands of a session by its state and the received message."""

    messages: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, str]]  # By state and message. A message without an entry has no effect.
    in_state: Callable[[str], Any]  # Function that returns the driver of a session in a state.

    def pairs(self) -> list[tuple[str, str]]:
        assert all(set(answers) <= set(self.messages) for answers in self.answers.values())
        return list(itertools.product(self.answers, self.messages))

    def check(self, state: str, message: str) -> None:
        driver = self.in_state(state)
        driver.pop_messages()
        driver.commands.clear()
        driver.send(self.messages[message])
        assert named(driver) == self.answers[state].get(message, "")


class AnyDialect(RuleBasedStateMachine):
    """State machine of a session whose engine and audio decoder respond randomly.

    Subclasses simulate the client.
    """

    driver: Any
    submits_only_words = True

    def begin(self, driver: SessionDriver, clock: Clock) -> None:
        self.driver, self.clock = driver, clock
        # The keys are the numbers of running requests. The value is True if the request may still receive text.
        self.running: dict[int, bool] = {}
        self.used: set[int] = set()
        self.reading: list[int] = []
        self.is_over = False

    def after(self) -> None:
        """Process the session's commands, and assert that each command is allowed in its state."""
        self.driver.gather()
        for command in self.driver.commands:
            match command:
                case Submit(number, request):
                    assert number not in self.used
                    assert any(map(str.isalnum, request.text)) or not (request.open_text or self.submits_only_words)
                    self.used.add(number)
                    self.running[number] = request.open_text
                case Append(number) | Flush(number):
                    assert self.running[number]
                case FinishText(number):
                    assert self.running[number]
                    self.running[number] = False
                case Cancel(number):
                    del self.running[number]
                case DecodeReference(number) | ReadStoredVoice(number):
                    self.reading.append(number)
                case Played(number):
                    assert number in self.running
        self.driver.commands.clear()
        assert not (self.driver.dialect.closed and self.running)

    def hear(self, item: Any) -> None:
        """Check a message that the client receives."""
        raise NotImplementedError

    @rule()
    def take_everything(self) -> None:
        for item in self.driver.pop_messages():
            assert not self.is_over
            if isinstance(item, Close):
                self.is_over = True
            else:
                self.hear(item)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), frames=st.integers(1, 5))
    def sound(self, data: st.DataObject, frames: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.driver.start(number)
        self.driver.send_audio(number, frames)
        self.after()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), chars=st.integers(0, 30))
    def run_short(self, data: st.DataObject, chars: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.driver.dialect.on_speech(number, WaitingForText(chars))
        self.after()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), how=st.sampled_from(["finish", "break", "refuse"]))
    def end(self, data: st.DataObject, how: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[number]
        if how == "finish":
            self.driver.finish(number)
        elif how == "break":
            self.driver.dialect.on_speech(number, Broken(GenerationFailed(), RequestStats()))
        else:
            self.driver.dialect.on_refused(number, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
        self.after()

    @precondition(lambda self: self.reading)
    @rule(data=st.data(), good=st.booleans())
    def read(self, data: st.DataObject, good: bool) -> None:
        number = data.draw(st.sampled_from(self.reading))
        self.reading.remove(number)
        self.driver.dialect.on_reference(number, REFERENCE if good else BadReferenceAudio(why="it is silent"))
        self.after()

    @rule(seconds=st.sampled_from([1, 9, 100]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds
        self.driver.dialect.tick()
        self.after()

    @rule(text=st.sampled_from(["{", "[]", "{}", '{"type":7}', '{"context_id":{}}', '{"a":1,"a":2}']))
    # Invalid messages are sent only after the first minute, because an earlier error would end most sequences.
    @precondition(lambda self: self.clock.now > 60)
    def nonsense(self, text: str) -> None:
        self.driver.receive(text)
        self.after()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.take_everything()
            self.driver.dialect.on_disconnect()
            self.after()
            assert self.running == {}
            assert self.driver.pop_messages() == []
