"""Tests for the native session: each message in each state, and random sequences."""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.support.examples import examples
from tests.unit.server.any_dialect import LIMITS, AnyDialect, named
from tests.unit.server.native.driver import Driver

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
COMMON = {
    "input.dialogue": "out_of_order@None",
    "ping": "pong",
    "session.close": "session.done, close 1000",
    "nonsense": "invalid_config@None",
}
CANCELLED = {"context.cancel": "context.cancelled", "session.close": "context.cancelled, session.done, close 1000"}
SPEAKING = {kind: f"{answer}, cancel" for kind, answer in CANCELLED.items()} | {"playback": "played"}
TOO_LATE = {"input.text": "out_of_order@None", "input.done": "out_of_order@None"}
TOO_EARLY = dict.fromkeys(("input.text", "input.done", "input.dialogue"), "out_of_order@default")
# Replies and commands by state of the context and message. A message without an entry has no effect.
ANSWERS: dict[str, dict[str, str]] = {
    "unconfigured": COMMON | TOO_EARLY,
    "free": COMMON | {"input.text": "submit", "input.dialogue": "submit, finishtext", "input.done": "submit"},
    "opening": COMMON | CANCELLED,
    "reading": COMMON | CANCELLED | TOO_LATE,
    "composing": COMMON | SPEAKING | {"input.text": "append", "input.flush": "flush", "input.done": "finishtext"},
    "speaking": COMMON | SPEAKING | TOO_LATE,
    "refused": COMMON | {"input.dialogue": ""},
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
    driver.pop_messages()
    driver.commands.clear()
    return driver


@pytest.mark.parametrize(("state", "kind"), list(itertools.product(ANSWERS, MESSAGES)))
def test_every_pair_of_native_state_and_message_has_a_response(state: str, kind: str) -> None:
    driver = in_state(state)
    driver.send(kind, **MESSAGES[kind])
    assert named(driver) == ANSWERS[state].get(kind, "")


NAMES = st.sampled_from(["a", "b", None])


class AnySession(AnyDialect):
    """Client that tracks each context by its ID, from its first to its last message."""

    submits_only_words = False  # The server also submits complete texts without words, and the engine refuses them.

    @initialize(frames=st.sampled_from(["plain", "labelled"]))
    def open(self, frames: str) -> None:
        driver = Driver(LIMITS)
        self.begin(driver, driver.clock)
        self.frames = frames
        self.channels: dict[int, str] = {}
        self.open_before: dict[int, str] = {}  # Names of the contexts by number of the utterance.
        # IDs of the contexts that have ended since the client last read its messages.
        self.ended: Counter[str] = Counter()
        # Number of terminal messages of each context since the client last read its messages.
        self.heard: Counter[str] = Counter()
        driver.configure(frames=frames)

    def after(self) -> None:
        super().after()
        now = {utterance.number: utterance.name for utterance in self.driver.session.utterances.values()}
        self.ended.update(name for number, name in self.open_before.items() if number not in now)
        self.open_before = now
        assert len(now) <= (1 if self.frames == "plain" else 2)

    @rule()
    def take_everything(self) -> None:
        """Check that each ended context has one terminal message, which no audio follows."""
        self.heard.clear()
        super().take_everything()
        assert {name: self.heard[name] for name in self.ended} == self.ended
        self.ended.clear()

    def hear(self, item: Any) -> None:
        if isinstance(item, bytes):
            if self.frames == "labelled":
                assert not self.heard[self.channels[struct.unpack_from("<H", item, 2)[0]]]
            return
        if item["type"] == "audio.start":
            self.channels[item.get("channel", 0)] = item["context_id"]
        if item["type"] in {"audio.done", "context.cancelled", "error"} and item["context_id"] is not None:
            self.heard[item["context_id"]] += 1

    def send(self, kind: str, name: str | None, **fields: Any) -> None:
        """Read all messages about earlier contexts with this name, and send a message."""
        self.take_everything()
        self.driver.send(kind, context_id=name, **fields)
        self.after()

    @rule(name=NAMES, base=st.booleans(), wrong=st.booleans())
    def configure(self, name: str | None, base: bool, wrong: bool) -> None:
        fields = {"task_type": "base", "ref_audio": "AAAA"} if base else {}
        self.send("session.config", name, frames=self.frames, **fields, **({"top_p": 9} if wrong else {}))

    @rule(name=NAMES, text=st.sampled_from(["", " ", "Short.", "Rather long to say.", None]))
    def text(self, name: str | None, text: str | None) -> None:
        self.send("input.text", name, text=text)

    @rule(name=NAMES)
    def whole_text(self, name: str | None) -> None:
        self.send("input.text", name, text="Whole.")
        self.send("input.done", name)

    @rule(name=NAMES, kind=st.sampled_from(["input.done", "input.flush", "context.cancel"]))
    def command(self, name: str | None, kind: str) -> None:
        self.send(kind, name)

    @rule(name=NAMES)
    def played(self, name: str | None) -> None:
        self.send("playback", name, played_ms=80)


TestAnySession = AnySession.TestCase
TestAnySession.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
