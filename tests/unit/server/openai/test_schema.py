"""Tests for the bodies of the HTTP speech routes: fields, defaults and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.request import Mode
from runtime.server.openai.schema import read_batch, read_speech


def test_minimal_openai_body_has_openai_defaults() -> None:
    body = read_speech({"input": "Hi."})
    assert (body.response_format, body.speed, body.sample_rate, body.retries) == ("mp3", 1.0, 24_000, 0)
    assert not body.is_events
    assert not body.is_whole


def test_unknown_fields_and_nulls_are_ignored() -> None:
    body = read_speech({"input": "Hi.", "voice": None, "speed": None, "type": "x", "exaggeration": 0.5, "user": "me"})
    assert (body.voice, body.speed) == (None, 1.0)


@pytest.mark.parametrize(
    ("fields", "events", "whole"),
    [
        ({}, False, False),
        ({"stream_format": "audio"}, False, False),
        ({"stream_format": "sse"}, True, False),
        ({"stream": True}, True, False),
        ({"stream": True, "stream_format": "audio"}, False, False),
        ({"stream": True, "stream_format": "sse"}, True, False),
        ({"stream": False}, False, True),
        ({"stream": False, "stream_format": "audio"}, False, True),
    ],
)
def test_stream_settings_select_the_response_format(fields: dict[str, Any], events: bool, whole: bool) -> None:
    body = read_speech({"input": "Hi.", **fields})
    assert (body.is_events, body.is_whole) == (events, whole)


def test_vllm_omni_field_names_are_accepted() -> None:
    body = read_speech({"input": "Hi.", "speaker": "ryan", "task_type": "VoiceDesign", "voice_description": "Old."})
    assert (body.voice, body.task_type, body.instruct) == ("ryan", Mode.VOICE_DESIGN, "Old.")


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"voice": {"id": 5}}, "voice.id"),
        ({"voice": ["ryan"]}, "voice"),
        ({"speed": "fast"}, "speed"),
        ({"speed": 0.2}, "speed"),
        ({"speed": float("inf")}, "speed"),
        ({"sample_rate": "8000"}, "sample_rate"),
        ({"stream": "yes"}, "stream"),
        ({"retries": 6, "stream": False}, "retries"),
        ({"initial_codec_chunk_frames": -1}, "initial_codec_chunk_frames"),
        ({"split_granularity": "word"}, "split_granularity"),
        ({"seed": -1}, "seed"),
        ({"input": "a\0b"}, "input"),
    ],
)
def test_invalid_field_error_contains_the_name_and_not_the_value(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_speech({"input": "Hi.", **fields})
    assert caught.value.param == where
    assert str(caught.value).startswith(f"{where} is not valid: ")
    assert "fast" not in str(caught.value)


def test_conflicting_aliases_are_refused() -> None:
    with pytest.raises(InvalidConfig):
        read_speech({"input": "Hi.", "instructions": "Old.", "instruct": "Young."})


@pytest.mark.parametrize("field", ["response_format", "stream_format"])
def test_unsupported_format_error_lists_the_supported_formats(field: str) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        read_speech({"input": "Hi.", field: "midi"})
    assert caught.value.param == field
    assert "midi" not in str(caught.value)


def test_batch_items_override_shared_fields() -> None:
    shared = {"voice": "ryan", "seed": 4, "stream": True, "stream_format": "sse", "input": "not for all"}
    first, second, third = read_batch(
        {**shared, "items": [{"input": "a"}, {"input": "b", "voice": "serena", "seed": None}, {"voice": None}]}, 3
    )
    left, two = read_speech(first), read_speech(second)
    assert (left.input, left.voice, left.seed, left.response_format, left.is_whole) == ("a", "ryan", 4, "wav", True)
    assert (two.input, two.voice, two.seed) == ("b", "serena", 4)
    with pytest.raises(InvalidConfig) as caught:
        read_speech(third)
    assert caught.value.param == "input"


@pytest.mark.parametrize("items", [None, [], {}, "x", [1], [{}, {}, {}]])
def test_batch_requires_a_list_of_objects_within_the_limit(items: Any) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_batch({"items": items}, 2)
    assert caught.value.param == "items"


@pytest.mark.parametrize("place", ["body", "item"])
def test_batch_with_too_many_fields_is_refused_before_items_are_merged(place: str) -> None:
    """60,000 fields and 32 items would take 280 ms, because each item gets a copy."""
    many = dict.fromkeys(map(str, range(300)), 1)
    body = {**many, "items": [{}]} if place == "body" else {"items": [many]}
    with pytest.raises(InvalidConfig, match="it has more than 256 fields"):
        read_batch(body, 32)


def test_body_with_too_many_fields_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="it has more than 256 fields"):
        read_speech({"input": "Hi.", **dict.fromkeys(map(str, range(300)), 1)})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"volume": 0}, "volume is not valid: it must be at least 0.05"),
        (
            {"bit_rate": 64_000, "response_format": "wav"},
            "bit_rate is not valid: only mp3, opus and aac have a bit rate",
        ),
        ({"bit_rate": 1_000_000}, "bit_rate is not valid: it must be at most 160000"),
        ({"loudness_lufs": -16}, "loudness_lufs is not valid: only whole replies can be measured"),
        ({"timestamp_granularities": ["word"]}, "only events and batches have times"),
        ({"timestamp_granularities": ["segment"]}, "timestamp_granularities.0 is not valid"),
    ],
)
def test_loudness_bit_rate_and_word_times_are_refused_for_unsuitable_formats(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidConfig) as raised:
        read_speech({"input": "Hi.", **fields})
    assert reason in str(raised.value)
