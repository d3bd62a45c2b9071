"""Tests that the protocol page and its JSON schema match the messages of the server."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from runtime.errors import NonFiniteOutput
from runtime.request import Broken, Guard, Queued, RequestStats, StopReason
from runtime.server.descriptions import Metrics, metrics
from runtime.server.native.messages import ServerMessage
from runtime.server.native.protocol_page import page, schema
from runtime.server.native.schema import MESSAGES, ClientMessage
from runtime.settings import Limits
from tests.unit.server.native.driver import Driver, ready

PAGE = Path(__file__).resolve().parents[4] / "docs" / "protocol.md"
SERVER = {adapter["properties"]["type"]["const"]: adapter for adapter in schema()["server"].values()}


def everything_said() -> list[dict[str, Any]]:
    """Return at least one message of every type that the server sends."""
    said = Driver().replies()
    driver = ready(Limits(idle_s=9999), frames="labelled")
    first, two = driver.speak(context_id="a"), driver.speak(context_id="b")
    driver.session.on_speech(first, Queued(1, 20.0))
    for number in (first, two):
        driver.start(number)
        driver.send_audio(number)
    driver.finish(first, StopReason.RUNAWAY)
    said += driver.replies()
    driver.session.on_speech(two, Broken(NonFiniteOutput(), RequestStats()))
    driver.speak(context_id="c")
    driver.send("context.cancel", context_id="c", played_ms=3)
    said += driver.replies()
    dialogue = ready(voice="anna")
    dialogue.send("input.dialogue", inputs=[{"text": "One."}])
    dialogue.start(dialogue.submitted[-1].utterance)
    said += dialogue.replies()
    driver.send("ping", t=1.5)
    driver.now = 3599.0
    driver.session.tick()
    driver.send("session.close")
    return said + driver.replies()


def test_protocol_page_matches_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.protocol_page"


def test_every_message_is_described() -> None:
    assert list(schema()["client"]) == list(MESSAGES)
    assert set(MESSAGES.values()) == set(get_args(ClientMessage))
    assert {message["type"] for message in everything_said()} == set(SERVER)


@pytest.mark.parametrize("message", everything_said(), ids=lambda message: message["type"])
def test_sent_messages_match_their_description(message: dict[str, Any]) -> None:
    TypeAdapter(ServerMessage).validate_python(message)
    described = SERVER[message["type"]]
    assert set(described["required"]) <= set(message) <= set(described["properties"])


def test_documented_metrics_and_limits_are_complete() -> None:
    assert set(metrics(RequestStats(guard=Guard.SILENCE))) == set(Metrics.__annotations__)
    assert set(Metrics.__annotations__) == {stat.name for stat in fields(RequestStats)} | {"rtf"}
    assert set(SERVER["session.created"]["properties"]["limits"]["properties"]) == {
        limit.name for limit in fields(Limits)
    }
