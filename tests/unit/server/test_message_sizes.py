"""Tests for message size limits, which keep the event loop responsive."""

from __future__ import annotations

import time

import pytest

from runtime.errors import InvalidMessage
from runtime.server.wire import decode
from runtime.settings import Limits
from runtime.shared.strict_json import parse_object

LIMITS = Limits()
MAX_VALUES = LIMITS.max_text_chars + 4096
LARGEST = LIMITS.max_message_bytes
BOMBS = {
    "objects": '{"a":[' + "{}," * (LARGEST // 3) + "{}]}",
    "numbers": '{"a":[' + "1.5," * (LARGEST // 4) + "1]}",
    "lists": '{"a":' + "[" * (LARGEST // 2) + "]" * (LARGEST // 2) + "}",
    "keys": "{" + ",".join(f'"{number}":0' for number in range(LARGEST // 8)) + "}",
    "as large as a message is read": '{"a":[' + "{}," * (2 * LIMITS.max_config_bytes // 3) + "{}]}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_message_with_too_many_values_is_refused_before_parsing(bomb: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidMessage, match="more than 8192 values"):
        decode(BOMBS[bomb], MAX_VALUES)
    assert time.thread_time() - began < 0.1 if "large" in bomb else 0.005


def test_texts_and_recordings_do_not_count_as_values() -> None:
    commas = {"text": "," * LIMITS.max_text_chars, "ref_audio": "A" * 2**20}
    assert decode(f'{{"text": "{commas["text"]}", "ref_audio": "{commas["ref_audio"]}"}}', MAX_VALUES) == commas


def test_byte_order_mark_is_accepted() -> None:
    text = '\ufeff{"text": "\ufeffHello."}'
    assert decode(text) == parse_object(text) == parse_object(text.encode()) == {"text": "\ufeffHello."}
