"""Tests for the native client messages: strict JSON, types and error messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidConfig, InvalidMessage
from runtime.server.native.schema import MESSAGES, SessionConfig, parse
from runtime.server.wire import decode
from tests.support.errors import BY_CODE
from tests.unit.server.native.driver import Driver

CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"input.done"',
        "1e999",
        '{"t": NaN}',
        '{"t": -Infinity}',
        '{"t": 1e999}',
        '{"type": "ping", "type": "ping"}',
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a": ' * 100_000,
        '{"seed": ' + "9" * 5000 + "}",
        '{"type": "ping"} {"type": "ping"}',
        "{'type': 'ping'}",
        "\x00",
    ],
)
def test_invalid_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessage):
        decode(text)


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        ("session.config", {"temperature": "0.9"}, "temperature"),
        ("session.config", {"temperature": 0}, "temperature"),
        ("session.config", {"temperature": -1}, "temperature"),
        ("session.config", {"temperature": True}, "temperature"),
        ("session.config", {"top_k": -1}, "top_k"),
        ("session.config", {"top_k": 1.5}, "top_k"),
        ("session.config", {"top_p": 1.1}, "top_p"),
        ("session.config", {"repetition_penalty": 0}, "repetition_penalty"),
        ("session.config", {"subtalker_top_p": 0}, "subtalker_top_p"),
        ("session.config", {"seed": -1}, "seed"),
        ("session.config", {"seed": 2**63}, "seed"),
        ("session.config", {"seed": 1.0}, "seed"),
        ("session.config", {"max_frames": 0}, "max_frames"),
        ("session.config", {"max_new_tokens": 1}, "max_new_tokens"),
        ("session.config", {"task_type": "Karaoke"}, "task_type"),
        ("session.config", {"task_type": ["Base"]}, "task_type"),
        ("session.config", {"frames": "coloured"}, "frames"),
        ("session.config", {"response_format": "mp3"}, "response_format"),
        ("session.config", {"response_format": 1}, "response_format"),
        ("session.config", {"x_vector_only_mode": "no"}, "x_vector_only_mode"),
        ("session.config", {"non_streaming_mode": 1}, "non_streaming_mode"),
        ("session.config", {"voice": "a", "speaker": "b"}, None),
        ("session.config", {"instruct": "a", "voice_description": "b"}, None),
        ("session.config", {"voice": {"id": "x"}}, "voice"),
        ("session.config", {"voice": "x" * 257}, "voice"),
        ("session.config", {"language": "\ud800"}, "language"),
        ("session.config", {"context_id": ""}, "context_id"),
        ("session.config", {"context_id": "a b"}, "context_id"),
        ("session.config", {"context_id": "a\n"}, "context_id"),
        ("session.config", {"context_id": "x" * 65}, "context_id"),
        ("input.text", {}, "text"),
        ("input.text", {"text": None}, "text"),
        ("input.text", {"text": ["a"]}, "text"),
        ("input.text", {"text": "half an emoji \ud83d"}, "text"),
        ("input.text", {"text": "nul \x00"}, "text"),
        ("playback", {}, "played_ms"),
        ("playback", {"played_ms": -1}, "played_ms"),
        ("context.cancel", {"played_ms": "1"}, "played_ms"),
        ("ping", {"t": "now"}, "t"),
        ("", {}, "type"),
        ("input.sing", {}, "type"),
    ],
)
def test_invalid_field_errors_contain_the_field(kind: str, fields: dict[str, object], param: str | None) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse(decode(json.dumps({"type": kind, **fields})))
    assert caught.value.param == param


@pytest.mark.parametrize("field", ["temperature", "subtalker_temperature"])
@pytest.mark.parametrize("value", [0, 0.0])
def test_temperature_zero_error_suggests_do_sample_false(field: str, value: float) -> None:
    with pytest.raises(InvalidConfig, match="send do_sample: false"):
        parse({"type": "session.config", field: value})


@pytest.mark.parametrize("kind", [None, 1, ["ping"], {"ping": 1}])
def test_message_type_that_is_not_a_string_is_refused(kind: object) -> None:
    with pytest.raises(InvalidConfig):
        parse({"type": kind})


@pytest.mark.parametrize("kind", sorted(MESSAGES))
@pytest.mark.parametrize(
    "where", ["context_id", "type", "text", "task_type", "voice", "seed", "frames", "t", "played_ms"]
)
def test_error_sentences_do_not_quote_the_client(kind: str, where: str) -> None:
    driver = Driver()
    driver.send(kind, **{"text": "x", "played_ms": 1, where: [CANARY]} if where != "type" else {})
    driver.session.receive_text(json.dumps({"type": CANARY, where: CANARY, CANARY: CANARY}))
    driver.session.receive_text(CANARY)
    assert CANARY not in json.dumps([reply for reply in driver.pop_messages() if isinstance(reply, dict)])


def test_unknown_keys_are_ignored_and_aliases_accepted() -> None:
    config = parse(
        decode('{"type":"session.config","speaker":"Anna","voice":null,"speed":1.0,"split_granularity":"none"}')
    )
    assert isinstance(config, SessionConfig)
    assert config.voice == "Anna"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({*SessionConfig.model_fields, "text", "played_ms", "t", "voice_description", "speaker", "context_id"})


@pytest.mark.slow
@given(st.one_of(st.text(), JSON.map(lambda value: json.dumps(value))))
def test_any_text_is_accepted_or_refused_with_a_known_code(text: str) -> None:
    driver = Driver()
    driver.session.receive_text(text)
    created, *rest = driver.replies()
    assert created["type"] == "session.created"
    assert [reply["code"] in BY_CODE for reply in rest] == [True]


@given(st.sampled_from(sorted(MESSAGES)), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5))
def test_any_fields_of_a_known_message_are_accepted_or_refused(kind: str, fields: dict[str, object]) -> None:
    driver = Driver()
    driver.session.receive_text(json.dumps({**fields, "type": kind}))
    _, *rest = driver.replies()
    assert len(rest) <= 1
    assert all(reply["type"] in {"error", "pong", "session.done"} for reply in rest)
