"""Tests for sessions in three APIs: each message in each state, and random sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from runtime.server.session.commands import AudioMessage, TextMessage
from tests.support.examples import examples
from tests.unit.server.any_dialect import LIMITS, AnyDialect, StateTable
from tests.unit.server.dialects import Clock, DialectDriver, cartesia, elevenlabs, omni, wyoming

STREAM = {"type": "session.config", "stream_audio": True, "response_format": "pcm"}


# --- Tests of vLLM-Omni's API: each message in each state of the session.

OMNI_MESSAGES: dict[str, Any] = {
    "config": STREAM,
    "wrong config": {"type": "session.config", "speed": 9},
    "text": {"type": "input.text", "text": "More."},
    "done": {"type": "input.done"},
    "close": {"type": "session.close"},
    "unknown": {"type": "ping"},
    "no json": "{",
}
OMNI_ANSWERS: dict[str, dict[str, str]] = {
    "unconfigured": {
        "wrong config": "invalid_config, close 1000",
        "text": "out_of_order, close 1000",
        "done": "out_of_order, close 1000",
        "close": "out_of_order, close 1000",
        "unknown": "out_of_order, close 1000",
        "no json": "invalid_json, close 1000",
    },
    "idle": {
        "wrong config": "invalid_config",
        "done": "session.done",
        "close": "close 1000",
        "unknown": "invalid_config",
        "no json": "invalid_json",
    },
    "composing": {
        "config": "out_of_order",
        "wrong config": "out_of_order",
        "done": "audio.start, submit",
        "close": "close 1000",
        "unknown": "invalid_config",
        "no json": "invalid_json",
    },
    "waiting for its voice": {"wrong config": "invalid_config", "unknown": "invalid_config", "no json": "invalid_json"},
    "speaking": {"wrong config": "invalid_config", "unknown": "invalid_config", "no json": "invalid_json"},
    "leaving": {},
    "closed": {},
}


def omni_in(state: str) -> DialectDriver:
    driver = omni()
    if state != "unconfigured":
        is_waiting = state == "waiting for its voice"
        driver.send({**STREAM, **({"ref_audio": "AAAA", "ref_text": "x"} if is_waiting else {})})
    if state in {"composing", "waiting for its voice", "speaking", "leaving"}:
        driver.send({"type": "input.text", "text": "Text."})
    if state in {"waiting for its voice", "speaking", "leaving"}:
        driver.send({"type": "input.done"})
    if state in {"leaving", "closed"}:
        driver.send({"type": "session.close"})
    return driver


# --- Tests of Cartesia's API: each message in each state of the session.

CARTESIA_MESSAGES: dict[str, Any] = {
    "words": {"context_id": "c", "transcript": "More.", "continue": True},
    "last words": {"context_id": "c", "transcript": "More."},
    "blank": {"context_id": "c", "transcript": " ", "continue": True},
    "end": {"context_id": "c", "transcript": ""},
    "flush": {"context_id": "c", "transcript": "", "flush": True, "continue": True},
    "cancel": {"context_id": "c", "cancel": True},
    "wrong": {"context_id": "c", "transcript": 7, "continue": True},
    "nothing": {},
    "no json": "{",
}
CARTESIA_ANSWERS: dict[str, dict[str, str]] = {
    "free": {
        "words": "submit",
        "last words": "submit",
        "end": "done",
        "flush": "flush_done",
        "wrong": "invalid_config",
        "nothing": "invalid_config",
        "no json": "invalid_json, close 1007",
    },
    "opened": {
        "words": "submit",
        "last words": "submit",
        "end": "done",
        "flush": "flush_done",
        "wrong": "invalid_config",
        "nothing": "invalid_config",
        "no json": "invalid_json, invalid_json, close 1007",
    },
    "composing": {
        "words": "append",
        "last words": "append, finishtext",
        "blank": "append",
        "end": "finishtext",
        "flush": "finishtext",
        "cancel": "cancel",
        "wrong": "invalid_config, cancel",
        "nothing": "invalid_config",
        "no json": "invalid_json, invalid_json, close 1007, cancel",
    },
    "complete": {
        "words": "out_of_order",
        "last words": "out_of_order",
        "cancel": "cancel",
        "wrong": "invalid_config, cancel",
        "nothing": "invalid_config",
        "no json": "invalid_json, invalid_json, close 1007, cancel",
    },
    "waiting for its voice": {
        "wrong": "invalid_config",
        "nothing": "invalid_config",
        "no json": "invalid_json, invalid_json, close 1007",
    },
    "refused": {"nothing": "invalid_config", "no json": "invalid_json, close 1007"},
    "cancelled": {
        "words": "submit",
        "last words": "submit",
        "flush": "flush_done",
        "wrong": "invalid_config",
        "nothing": "invalid_config",
        "no json": "invalid_json, close 1007",
    },
    "closed": {},
}


def cartesia_in(state: str) -> DialectDriver:
    driver = cartesia()
    first: dict[str, Any] = {
        "opened": {"transcript": "", "continue": True},
        "composing": {"transcript": "Text.", "continue": True},
        "complete": {"transcript": "Text."},
        "waiting for its voice": {"transcript": "Text.", "continue": True, "voice": {"mode": "id", "id": "v1"}},
        "refused": {"transcript": "Text.", "continue": True, "voice": {"mode": "id", "id": "nobody"}},
        "cancelled": {"transcript": "Text.", "continue": True},
    }
    if state in first:
        driver.send({"context_id": "c", **first[state]})
    if state == "cancelled":
        driver.send({"context_id": "c", "cancel": True})
    elif state == "closed":
        driver.send("{")
    return driver


# --- Tests of the Wyoming protocol: each message in each state of the session.

WYOMING_MESSAGES: dict[str, Any] = {
    "describe": {"type": "describe", "data": {}},
    "whole": {"type": "synthesize", "data": {"text": "More."}},
    "start": {"type": "synthesize-start", "data": {}},
    "piece": {"type": "synthesize-chunk", "data": {"text": "More."}},
    "stop": {"type": "synthesize-stop", "data": {}},
    "of another service": {"type": "transcribe", "data": {}},
    "wrong": {"type": "synthesize", "data": {"text": 7}},
    "no json": "{",
}
WYOMING_ANSWERS: dict[str, dict[str, str]] = {
    "free": {
        "describe": "info",
        "whole": "submit",
        "piece": "out_of_order, close 1008",
        "stop": "out_of_order, close 1008",
        "wrong": "invalid_config, close 1008",
        "no json": "invalid_json, close 1007",
    },
    "opened": {
        "describe": "info",
        "start": "out_of_order, close 1008",
        "piece": "submit",
        "stop": "synthesize-stopped",
        "wrong": "invalid_config, close 1008",
        "no json": "invalid_json, close 1007",
    },
    "composing": {
        "describe": "info",
        "start": "out_of_order, close 1008, cancel",
        "piece": "append",
        "stop": "finishtext",
        "wrong": "invalid_config, close 1008, cancel",
        "no json": "invalid_json, close 1007, cancel",
    },
    "speaking": {
        "describe": "info",
        "wrong": "invalid_config, close 1008, cancel",
        "no json": "invalid_json, close 1007, cancel",
    },
    "waiting for its voice": {
        "describe": "info",
        "wrong": "invalid_config, close 1008",
        "no json": "invalid_json, close 1007",
    },
    "closed": {},
}


def wyoming_in(state: str) -> DialectDriver:
    driver = wyoming()
    if state in {"opened", "composing"}:
        driver.send({"type": "synthesize-start", "data": {"voice": {"name": "anna"}}})
    if state == "composing":
        driver.send({"type": "synthesize-chunk", "data": {"text": "Text. "}})
    elif state in {"speaking", "waiting for its voice"}:
        name = "anna" if state == "speaking" else "v1"
        driver.send({"type": "synthesize", "data": {"text": "Text.", "voice": {"name": name}}})
    elif state == "closed":
        driver.send("{")
    return driver


TABLES = {
    "omni": StateTable(OMNI_MESSAGES, OMNI_ANSWERS, omni_in),
    "cartesia": StateTable(CARTESIA_MESSAGES, CARTESIA_ANSWERS, cartesia_in),
    "wyoming": StateTable(WYOMING_MESSAGES, WYOMING_ANSWERS, wyoming_in),
}


@pytest.mark.parametrize(
    ("dialect", "state", "message"), [(name, *pair) for name, table in TABLES.items() for pair in table.pairs()]
)
def test_every_pair_of_state_and_message_has_a_response(dialect: str, state: str, message: str) -> None:
    TABLES[dialect].check(state, message)


# --- Tests of random sequences of messages.


class AnyOmni(AnyDialect):
    """Client that counts start, audio and done messages of each sentence.

    It compares the totals with session.done.
    """

    @initialize(split=st.sampled_from(["none", "sentence"]), stream=st.booleans(), base=st.booleans())
    def open(self, split: str, stream: bool, base: bool) -> None:
        clock = Clock()
        self.begin(omni(LIMITS, clock), clock)
        self.fields: dict[str, Any] = {"type": "session.config", "split_granularity": split}
        self.fields |= {"stream_audio": True, "response_format": "pcm"} if stream else {}
        self.fields |= {"ref_audio": "AAAA", "ref_text": "x"} if base else {}
        # Number of the utterance and number of the sentence that is being sent.
        self.place: tuple[int, int] | None = None
        self.turns = self.sentences = self.bytes = 0
        self.driver.send(self.fields)
        self.after()

    def hear(self, item: Any) -> None:
        if isinstance(item, bytes):
            assert self.place is not None
            self.bytes += len(item)
            return
        match item["type"]:
            case "audio.start":
                assert self.place is None
                self.place, self.bytes = (item["utterance_index"], item["sentence_index"]), 0
                assert self.place == (self.turns, self.sentences)
            case "audio.done":
                assert self.place == (item["utterance_index"], item["sentence_index"])
                assert item["total_bytes"] == self.bytes
                self.place = None
                self.sentences += 1
            case "session.done":
                assert self.place is None
                assert (item["utterance_index"], item["total_sentences"]) == (self.turns, self.sentences)
                self.turns, self.sentences = self.turns + 1, 0
            case kind:
                assert kind == "error"
                assert item["code"]

    @rule(wrong=st.booleans())
    def configure(self, wrong: bool) -> None:
        self.driver.send({**self.fields, **({"speed": 9} if wrong else {})})
        self.after()

    @rule(text=st.sampled_from(["", " ", "Hi", "One. Two. ", ". More", "far too long to be said", None]))
    def text(self, text: str | None) -> None:
        self.driver.send({"type": "input.text", "text": text})
        self.after()

    @rule()
    def done(self) -> None:
        self.driver.send({"type": "input.done"})
        self.after()

    @precondition(lambda self: self.clock.now > 60)
    @rule()
    def leave(self) -> None:
        self.driver.send({"type": "session.close"})
        self.after()


class AnyCartesia(AnyDialect):
    """Client that tracks each context by its ID, from its first to its last message."""

    @initialize()
    def open(self) -> None:
        clock = Clock()
        self.begin(cartesia(LIMITS, clock), clock)
        self.ended: set[str] = set()
        self.cancelled: set[str] = set()

    def hear(self, item: Any) -> None:
        assert item["type"] in {"chunk", "timestamps", "flush_done", "done", "error"}
        name = item["context_id"]
        assert name not in self.cancelled
        if item["type"] == "error":
            assert item["error_code"]
        elif item["type"] != "done":
            assert name not in self.ended  # A context sends nothing after its last message.
        if item["done"] and name is not None:
            self.ended.add(name)

    @rule(
        name=st.sampled_from(["a", "b", "c"]),
        text=st.sampled_from(["", " ", "Hi ", "there.", "far too long to be said", None]),
        goes_on=st.booleans(),
        flush=st.booleans(),
        stored=st.booleans(),
        times=st.booleans(),
        rate=st.sampled_from([24_000, 8_000]),
    )
    def generate(
        self, name: str, text: str | None, goes_on: bool, flush: bool, stored: bool, times: bool, rate: int
    ) -> None:
        # Each use of a name creates another context. The client first receives all messages of the previous context.
        self.take_everything()
        self.ended.discard(name)
        self.cancelled.discard(name)
        message = {
            "context_id": name,
            "transcript": 7 if text is None else text,
            "continue": goes_on,
            "flush": flush,
            "add_timestamps": times,
            "voice": {"mode": "id", "id": "v1" if stored else "anna"},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": rate},
        }
        self.driver.send(message)
        self.after()

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def cancel(self, name: str) -> None:
        """Cancel a context.

        Unless the session has ended, the client receives no more messages of this context.
        """
        is_heard = not self.driver.dialect.closed
        self.driver.send({"context_id": name, "cancel": True})
        if is_heard:
            self.cancelled.add(name)
        self.after()


class AnyWyoming(AnyDialect):
    """Client that receives the events of one text at a time: start, audio, stop.

    An error must be the last event.
    """

    @initialize()
    def open(self) -> None:
        clock = Clock()
        self.begin(wyoming(LIMITS, clock), clock)
        self.is_sounding = self.has_failed = False

    def hear(self, item: Any) -> None:
        assert not self.has_failed
        if isinstance(item, bytes):
            assert self.is_sounding
            return
        match item["type"]:
            case "audio-start":
                assert not self.is_sounding
                self.is_sounding = True
            case "audio-stop":
                assert self.is_sounding
                self.is_sounding = False
            case "error":
                self.has_failed = True
                assert item["data"]["code"]
            case kind:
                assert kind in {"info", "pong"} or (kind == "synthesize-stopped" and not self.is_sounding)

    @rule(
        kind=st.sampled_from(["synthesize", "synthesize-start", "synthesize-chunk", "synthesize-stop", "describe"]),
        text=st.sampled_from(["Hi", "One. Two. ", "there `", "Hi there."]),
        name=st.sampled_from(["anna", "v1", None]),
    )
    def send(self, kind: str, text: str, name: str | None) -> None:
        self.driver.send({"type": kind, "data": {"text": text, "voice": {"name": name}}})
        self.after()

    @rule(
        kind=st.sampled_from(["synthesize", "synthesize-chunk"]), text=st.sampled_from(["far too long to be said", 7])
    )
    # Invalid messages are sent only after the first minute, because an earlier error would end most sequences.
    @precondition(lambda self: self.clock.now > 60)
    def wrong(self, kind: str, text: Any) -> None:
        self.driver.send({"type": kind, "data": {"text": text}})
        self.after()


def test_audio_messages_of_every_dialect_report_their_sample_count() -> None:
    """The server uses this number to acknowledge audio to the engine.

    With a wrong number, a row would stay paused.
    """
    whole, streamed, json_, events, eleven = omni(), omni(), cartesia(), wyoming(), elevenlabs()
    whole.send({"type": "session.config"})
    streamed.send(STREAM)
    for driver in (whole, streamed):
        driver.send({"type": "input.text", "text": "Hi."})
        driver.send({"type": "input.done"})
    json_.send({"context_id": "c", "transcript": "Hi."})
    events.send({"type": "synthesize", "data": {"text": "Hi."}})
    eleven.send({"context_id": "c", "text": "Hi."})
    for driver in (whole, streamed, json_, events, eleven):
        driver.send_audio(1, frames=7)
        driver.finish(1)
        samples = 0
        while (item := driver.dialect.pop_message()) is not None:
            if isinstance(item, TextMessage | AudioMessage) and item.number == 1:
                samples += item.samples
        assert samples == 7 * 1920


TestAnyOmni = AnyOmni.TestCase
TestAnyOmni.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestAnyCartesia = AnyCartesia.TestCase
TestAnyCartesia.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestAnyWyoming = AnyWyoming.TestCase
TestAnyWyoming.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
