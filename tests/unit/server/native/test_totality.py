"""Tests for the native session: each message in each state, and random sequences."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime.errors import BadReferenceAudio, GenerationFailed, Overloaded
from runtime.request import Broken, RequestStats, StopReason
from runtime.server.native.contexts import NativeUtterance
from runtime.server.session.commands import AudioMessage, Close
from runtime.settings import Limits
from tests.support.examples import examples
from tests.unit.server.native.driver import REFERENCE, Driver

# Responses by state of the context and by message: terminal replies, other replies and commands.
STATES = ("unconfigured", "free", "opening", "reading", "composing", "speaking", "refused")
MESSAGES: dict[str, dict[str, Any]] = {
    "session.config": {},
    "input.text": {"text": "More."},
    "input.dialogue": {"inputs": [{"text": "More."}]},
    "input.flush": {},
    "input.done": {},
    "context.cancel": {},
    "playback": {"played_ms": 1},
    "ping": {},
    "session.close": {},
    "nonsense": {},
}
ANSWERS: dict[tuple[str, str], list[str]] = {
    **{(state, "session.config"): [] for state in STATES},
    **{(state, "input.text"): [] for state in STATES},
    **{(state, "input.dialogue"): ["out_of_order@None"] for state in STATES},
    **{(state, "input.flush"): [] for state in STATES},
    **{(state, "input.done"): [] for state in STATES},
    **{(state, "context.cancel"): [] for state in STATES},
    **{(state, "playback"): [] for state in STATES},
    **{(state, "ping"): ["pong"] for state in STATES},
    **{(state, "session.close"): ["session.done", "close 1000"] for state in STATES},
    **{(state, "nonsense"): ["invalid_config@None"] for state in STATES},
    ("unconfigured", "input.text"): ["out_of_order@default"],
    ("unconfigured", "input.done"): ["out_of_order@default"],
    ("free", "input.text"): ["submit"],
    ("unconfigured", "input.dialogue"): ["out_of_order@default"],
    ("free", "input.dialogue"): ["submit", "finishtext"],
    ("refused", "input.dialogue"): [],
    ("free", "input.done"): ["submit"],
    ("reading", "input.text"): ["out_of_order@None"],
    ("reading", "input.done"): ["out_of_order@None"],
    ("composing", "input.text"): ["append"],
    ("composing", "input.flush"): ["flush"],
    ("composing", "input.done"): ["finishtext"],
    ("composing", "playback"): ["played"],
    ("speaking", "input.text"): ["out_of_order@None"],
    ("speaking", "input.done"): ["out_of_order@None"],
    ("speaking", "playback"): ["played"],
    ("opening", "context.cancel"): ["context.cancelled"],
    ("reading", "context.cancel"): ["context.cancelled"],
    ("composing", "context.cancel"): ["context.cancelled", "cancel"],
    ("speaking", "context.cancel"): ["context.cancelled", "cancel"],
    ("opening", "session.close"): ["context.cancelled", "session.done", "close 1000"],
    ("reading", "session.close"): ["context.cancelled", "session.done", "close 1000"],
    ("composing", "session.close"): ["context.cancelled", "session.done", "close 1000", "cancel"],
    ("speaking", "session.close"): ["context.cancelled", "session.done", "close 1000", "cancel"],
}


def in_state(state: str) -> Driver:
    driver = Driver()
    if state == "refused":
        driver.configure(seed=-1)
    elif state != "unconfigured":
        driver.configure(**{"task_type": "base", "ref_audio": "AAAA"} if state in {"opening", "reading"} else {})
    if state in {"opening", "reading", "composing", "speaking"}:
        driver.send("input.text", text="Text.")
    if state in {"reading", "speaking"}:
        driver.send("input.done")
    driver.heard()
    driver.commands.clear()
    return driver


@pytest.mark.parametrize(("state", "kind"), list(itertools.product(STATES, MESSAGES)))
def test_every_pair_of_native_state_and_message_has_a_response(state: str, kind: str) -> None:
    driver = in_state(state)
    driver.send(kind, **MESSAGES[kind])
    done = [type(command).__name__.lower() for command in driver.commands]
    assert driver.kinds() + done == ANSWERS[state, kind]


NAMES = st.sampled_from(["a", "b", None])


class AnySession(RuleBasedStateMachine):
    """State machine of client, engine and decoder, which act in random order."""

    @initialize(frames=st.sampled_from(["plain", "labelled"]))
    def open(self, frames: str) -> None:
        self.driver = Driver(Limits(max_contexts=2, max_text_chars=20))
        self.frames = frames
        self.running: list[int] = []  # Utterances that the engine is processing.
        self.texts_open: set[int] = set()  # Running utterances whose text is not complete.
        self.decoding: list[int] = []
        self.open_before: dict[int, NativeUtterance] = {}
        self.said: list[dict[str, Any]] = []  # Terminal messages since the last step.
        self.closed = False
        say = self.driver.session.send_queue.add_message

        def heard(reply: dict[str, Any], *, is_terminal: bool = False, **about: Any) -> None:
            if is_terminal:
                self.said.append(reply)
            say(reply, is_terminal=is_terminal, **about)

        self.driver.session.send_queue.add_message = heard  # type: ignore[method-assign]
        self.driver.configure(frames=frames)

    def ends_are_told_once(self) -> None:
        """Assert exactly one terminal message for each context that ended in this step.

        A cancelled context must not have queued audio.
        """
        now = {utterance.number: utterance for utterance in self.driver.session.utterances.values()}
        ended = [utterance for number, utterance in self.open_before.items() if number not in now]
        terminal_counts = Counter(reply["context_id"] for reply in self.said)
        assert all(terminal_counts[utterance.name] == 1 for utterance in ended)
        cancelled = {reply["context_id"] for reply in self.said if reply["type"] == "context.cancelled"}
        silenced = {utterance.number for utterance in ended if utterance.name in cancelled}
        for item, _ in self.driver.session.send_queue.items:
            assert not (isinstance(item, AudioMessage) and item.number in silenced)
        self.open_before, self.said = now, []

    def after(self) -> None:
        """Process the session's commands, and assert the guarantees of the protocol."""
        driver = self.driver
        driver.commands += driver.session.commands()
        for command in driver.commands:
            match type(command).__name__:
                case "Submit":
                    assert command.utterance not in self.running
                    self.running.append(command.utterance)
                    if command.request.open_text:
                        assert any(character.isalnum() for character in command.request.text)
                        self.texts_open.add(command.utterance)
                case "Append" | "Flush":
                    assert command.utterance in self.texts_open
                case "FinishText":
                    self.texts_open.remove(command.utterance)
                case "Played":
                    assert command.utterance in self.running
                case "Cancel":
                    self.running.remove(command.utterance)
                    self.texts_open.discard(command.utterance)
                case "Decode":
                    self.decoding.append(command.upload)
        driver.commands.clear()
        self.ends_are_told_once()

    @rule(name=NAMES, base=st.booleans(), wrong=st.booleans())
    def configure(self, name: str | None, base: bool, wrong: bool) -> None:
        fields = {"task_type": "base", "ref_audio": "AAAA"} if base else {}
        self.driver.configure(context_id=name, frames=self.frames, **fields, **({"top_p": 9} if wrong else {}))
        self.after()

    @rule(name=NAMES, text=st.sampled_from(["", " ", "Short.", "Rather long to say.", None]))
    def text(self, name: str | None, text: str | None) -> None:
        self.driver.send("input.text", context_id=name, text=text)
        self.after()

    @rule(name=NAMES)
    def whole_text(self, name: str | None) -> None:
        self.driver.send("input.text", context_id=name, text="Whole.")
        self.after()
        self.driver.send("input.done", context_id=name)
        self.after()

    @rule(name=NAMES)
    def done(self, name: str | None) -> None:
        self.driver.send("input.done", context_id=name)
        self.after()

    @rule(name=NAMES)
    def flush(self, name: str | None) -> None:
        self.driver.send("input.flush", context_id=name)
        self.after()

    @rule(name=NAMES)
    def played(self, name: str | None) -> None:
        self.driver.send("playback", context_id=name, played_ms=80)
        self.after()

    @rule(name=NAMES)
    def cancel(self, name: str | None) -> None:
        self.driver.send("context.cancel", context_id=name)
        self.after()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def sound(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.running))
        self.driver.start(number)
        self.driver.sound(number, frames=4)
        self.after()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), kind=st.sampled_from(["finish", "break", "refuse"]))
    def end(self, data: st.DataObject, kind: str) -> None:
        number = data.draw(st.sampled_from(self.running))
        self.running.remove(number)
        self.texts_open.discard(number)
        if kind == "finish":
            self.driver.finish(number, StopReason.EOS)
        elif kind == "break":
            self.driver.session.on_speech(number, Broken(GenerationFailed(), RequestStats()))
        else:
            self.driver.session.on_refused(number, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
        self.after()

    @precondition(lambda self: self.decoding)
    @rule(data=st.data(), good=st.booleans())
    def decoder(self, data: st.DataObject, good: bool) -> None:
        upload = data.draw(st.sampled_from(self.decoding))
        self.decoding.remove(upload)
        self.driver.session.on_reference(upload, REFERENCE if good else BadReferenceAudio(why="it is silent"))
        self.after()

    @rule()
    def take_everything(self) -> None:
        self.remember(self.driver.kinds())

    @rule(seconds=st.sampled_from([1, 5, 70]))
    def wait(self, seconds: int) -> None:
        self.driver.now += seconds
        self.driver.session.tick()
        self.after()

    def remember(self, kinds: list[str]) -> None:
        if self.closed:
            assert kinds == []
        if kinds and kinds[-1].startswith("close"):
            self.closed = True
        assert not any(kind.startswith("close") for kind in kinds[:-1])

    @invariant()
    def slots_and_contexts_agree(self) -> None:
        if not hasattr(self, "driver"):
            return
        session = self.driver.session
        open_ = session.utterances.values()
        assert sorted(utterance.number for utterance in open_ if utterance.is_submitted) == sorted(self.running)
        assert {
            utterance.number for utterance in open_ if utterance.is_submitted and utterance.takes_text
        } == self.texts_open
        assert all(not utterance.queued for utterance in open_ if utterance.is_submitted)
        assert len(open_) <= 2
        assert not (session.closed and open_)
        if self.frames == "plain":
            assert len(open_) <= 1

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.session.on_disconnect()
            self.open_before = {}  # A disconnected client receives no terminal messages.
            self.after()
            assert self.running == []
            assert not any(isinstance(item, Close) for item in self.driver.heard())


TestAnySession = AnySession.TestCase
TestAnySession.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
