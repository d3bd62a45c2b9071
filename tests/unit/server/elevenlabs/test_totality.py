"""Tests for ElevenLabs' sessions: each message in each state, and random sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.support.examples import examples
from tests.unit.server.any_dialect import LIMITS, AnyDialect, StateTable
from tests.unit.server.dialects import Clock, DialectDriver, elevenlabs

ELEVENLABS_MESSAGES: dict[str, Any] = {
    "words": {"context_id": "c", "text": "More."},
    "blank": {"context_id": "c", "text": " "},
    "nothing": {"context_id": "c", "text": ""},
    "flush": {"context_id": "c", "flush": True},
    "close": {"context_id": "c", "close_context": True},
    "close socket": {"close_socket": True},
    "wrong": {"context_id": "c", "text": 7},
    "no json": "{",
}
ELEVENLABS_ANSWERS: dict[str, dict[str, str]] = {
    "free": {
        "words": "submit",
        "close socket": "close 1000",
        "wrong": "invalid_config, final",
        "no json": "invalid_json, close 1008",
    },
    "opened": {
        "words": "submit",
        "close": "final",
        "close socket": "final, close 1000",
        "wrong": "invalid_config, final",
        "no json": "invalid_json, final, invalid_json, close 1008",
    },
    "composing": {
        "words": "append",
        "blank": "append",
        "flush": "flush",
        "close": "finishtext",
        "close socket": "finishtext",
        "wrong": "invalid_config, final, cancel",
        "no json": "invalid_json, final, invalid_json, close 1008, cancel",
    },
    "complete": {
        "words": "out_of_order",
        "close": "final, cancel",
        "wrong": "invalid_config, final, cancel",
        "no json": "invalid_json, final, invalid_json, close 1008, cancel",
    },
    "waiting for its voice": {
        "wrong": "invalid_config, final",
        "no json": "invalid_json, final, invalid_json, close 1008",
    },
    "refused": {"close socket": "close 1000", "no json": "invalid_json, close 1008"},
    "leaving": {
        "wrong": "invalid_config, final, close 1000, cancel",
        "no json": "invalid_json, final, invalid_json, close 1008, cancel",
    },
    "closed": {},
}


def elevenlabs_in(state: str) -> DialectDriver:
    driver = elevenlabs(voice="v1" if state == "waiting for its voice" else "anna")
    if state == "refused":
        driver.send({"context_id": "c", "text": "Text.", "max_frames": 0})
    elif state == "closed":
        driver.send("{")
    elif state != "free":
        driver.send({"context_id": "c", "text": " " if state == "opened" else "Text."})
    if state in {"complete", "leaving"}:
        driver.send({"close_socket": True} if state == "leaving" else {"context_id": "c", "close_context": True})
    return driver


TABLE = StateTable(ELEVENLABS_MESSAGES, ELEVENLABS_ANSWERS, elevenlabs_in)


@pytest.mark.parametrize(("state", "message"), TABLE.pairs())
def test_every_pair_of_elevenlabs_messages_has_a_response(state: str, message: str) -> None:
    TABLE.check(state, message)


class AnyElevenLabs(AnyDialect):
    """Client of both kinds of sockets that tracks each context by its ID.

    The tracking ends with the last message of the context.
    """

    @initialize(is_multi=st.booleans(), stored=st.booleans(), auto=st.sampled_from(["true", "false"]))
    def open(self, is_multi: bool, stored: bool, auto: str) -> None:
        clock = Clock()
        voice = "v1" if stored else "anna"
        driver = elevenlabs(LIMITS, clock, is_multi=is_multi, voice=voice, auto_mode=auto, output_format="pcm_8000")
        self.begin(driver, clock)
        self.is_multi = is_multi
        self.ended: set[str | None] = set()

    def hear(self, item: Any) -> None:
        name = item.get("contextId")
        assert (name is None) <= (not self.is_multi or "error" in item)
        if "error" in item:
            assert item["message"]
            return
        assert name not in self.ended  # A context sends nothing after its last message.
        if item["isFinal"]:
            self.ended.add(name)

    @rule(
        name=st.sampled_from(["a", "b", "c"]),
        text=st.sampled_from(["", " ", "Hi ", "there.", "far too long to be said", "wrong", None]),
        flush=st.booleans(),
        closes=st.booleans(),
        triggers=st.booleans(),
    )
    def speak(self, name: str, text: str | None, flush: bool, closes: bool, triggers: bool) -> None:
        # Each use of a name creates another context. The client first receives all messages of the previous context.
        self.take_everything()
        self.ended.discard(name)
        message: dict[str, Any] = {"text": 7 if text == "wrong" else text, "flush": flush}
        message |= {"context_id": name, "close_context": closes} if self.is_multi else {}
        self.driver.send({**message, "try_trigger_generation": triggers})
        self.after()

    @precondition(lambda self: self.clock.now > 60)
    @rule()
    def leave(self) -> None:
        self.driver.send({"close_socket": True})
        self.after()


TestAnyElevenLabs = AnyElevenLabs.TestCase
TestAnyElevenLabs.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
