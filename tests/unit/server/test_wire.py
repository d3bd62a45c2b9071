"""Tests for parsing text messages as JSON objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.request import UNKNOWN_FIELDS
from runtime.server.native.schema import SessionConfig
from runtime.server.omni.schema import read_config
from runtime.server.openai.schema import read_speech
from runtime.server.wire import validate_fields
from runtime.settings import Limits

CONFIG = {"type": "session.config", "voice": "anna"}


@pytest.mark.parametrize(
    "config",
    [
        lambda fields: validate_fields(SessionConfig, {**CONFIG, **fields}),
        lambda fields: read_config({**CONFIG, **fields}, Limits()),
        lambda fields: read_speech({"input": "Hello.", **fields}),
    ],
)
def test_note_lists_the_unknown_fields_of_a_message(config: Callable[[dict[str, Any]], SessionConfig]) -> None:
    assert config({"instruct": "softly", "speaker": "anna"}).notes == ()
    assert config({"instruction": "softly", "sed": 3}).notes == (UNKNOWN_FIELDS.format(names="instruction, sed"),)
    assert config({"instruction": 1}).model_copy(update={"seed": 1}).notes == config({"instruction": 1}).notes


def test_note_about_unknown_fields_lists_only_a_few_valid_names() -> None:
    fields = {**CONFIG, "a b": 1, "\r\nX-Evil: 1": 1, "x" * 99: 1, **{f"f{number}": 1 for number in range(99)}}
    assert validate_fields(SessionConfig, fields).notes == (UNKNOWN_FIELDS.format(names="f0, f1, f2, f3, f4, …"),)
