"""Tests for the Markdown filter for streamed text in every API."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.server.session.commands import FinishText
from runtime.settings import Limits
from tests.unit.server.cartesia.test_session import generation, short, waits
from tests.unit.server.dialects import Clock, DialectDriver, cartesia, omni
from tests.unit.server.native.driver import ready
from tests.unit.server.openai.test_speech_responder import requested

MARKED, PLAIN = "Some **bold** words.", "Some bold words."
BY_DEFAULT: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, PLAIN),
    ({"text_filter": "markdown"}, PLAIN),
    ({"text_filter": "none"}, MARKED),
    ({"split_granularity": "sentence"}, PLAIN),
    ({"split_granularity": "none"}, MARKED),
    ({"split_granularity": "none", "text_filter": "markdown"}, PLAIN),
)


@pytest.mark.parametrize(("fields", "spoken"), BY_DEFAULT)
def test_native_protocol_filters_streamed_text(fields: dict[str, Any], spoken: str) -> None:
    driver = ready(**fields)
    for piece in ("Some *", "*bold*", "* words", "."):
        driver.send("input.text", text=piece)
    driver.send("input.done")
    assert "".join(message or "" for message in driver.sent_texts(1)) == spoken + "."


def test_unknown_filter_is_refused() -> None:
    driver = ready()
    driver.configure(text_filter="html")
    assert driver.kinds() == ["invalid_config@default"]


def test_plain_text_is_forwarded_message_by_message() -> None:
    driver = ready()
    for piece in ("Good", " morning. ", "How ", "are you"):
        driver.send("input.text", text=piece)
    assert driver.sent_texts(1) == ["Good", " morning. ", "How ", "are you"]


def test_buffered_text_is_forwarded_on_flush_timeout_and_done() -> None:
    driver = ready()
    driver.send("input.text", text="Is it *so")
    driver.send("input.flush")
    driver.send("input.text", text=" or *not?")
    driver.now += 0.3
    driver.session.tick()
    driver.commands += driver.session.commands()
    driver.send("input.text", text=" A [hint")
    driver.send("input.done")
    assert driver.sent_texts(1) == ["Is it ", "*so", None, " or ", "*not?", None, " A ", "[hint", "."]


def test_limits_apply_to_the_received_text() -> None:
    driver = ready(Limits(max_text_chars=20))
    driver.send("input.text", text="```\ncode code code")
    assert driver.kinds() == []
    driver.send("input.text", text="!!!!")
    assert driver.kinds() == ["text_too_long@default"]


@pytest.mark.parametrize("text", ["---", "```\ncode()\n```\n", "![](cat.png)"])
def test_text_removed_completely_by_the_filter_is_a_pause(text: str) -> None:
    driver = ready()
    assert driver.speak(text) == 1
    assert driver.sent_texts(1) == [".", "."]
    assert driver.submitted[0].request.text == "."


async def test_http_text_is_filtered_if_requested() -> None:
    assert (await requested(input=MARKED)).text == MARKED
    assert (await requested(input=MARKED, text_filter="markdown")).text == PLAIN
    assert (await requested(input="# Title\n- one", text_filter="markdown")).text == "Title.\n\none."


def configured(**fields: Any) -> DialectDriver:
    driver = omni(None, Clock())
    driver.send({"type": "session.config", "stream_audio": True, "response_format": "pcm", **fields})
    return driver


@pytest.mark.parametrize(
    ("fields", "spoken"),
    [
        ({}, MARKED),
        ({"text_filter": "markdown"}, PLAIN),
        ({"split_granularity": "sentence"}, PLAIN),
        ({"split_granularity": "sentence", "text_filter": "none"}, MARKED),
        ({"text_input_mode": "commitment", "language": "English"}, PLAIN),
    ],
)
def test_omni_dialect_applies_the_text_filter_to_each_sentence(fields: dict[str, Any], spoken: str) -> None:
    driver = configured(**fields)
    for piece in ("Some *", "*bold*", "* words", ". "):
        driver.send({"type": "input.text", "text": piece})
    driver.send({"type": "input.done"})
    assert [submit.request.text for submit in driver.submitted] == [spoken]
    assert driver.pop_messages()[0]["sentence_text"] == spoken


@pytest.mark.parametrize("mode", ["token_level", "sentence_commit"])
@pytest.mark.parametrize(("name", "spoken"), [(None, PLAIN), ("none", MARKED)])
def test_omni_dialect_filters_streamed_text(mode: str, name: str | None, spoken: str) -> None:
    driver = configured(streaming_mode=mode, text_filter=name)
    pieces = ("Some *", "*bold*", "* words", ".")
    for piece in pieces:
        driver.send({"type": "input.text", "text": piece})
    if mode == "sentence_commit":
        driver.send({"type": "input.commit"})
        (committed,) = [message for message in driver.pop_messages() if message["type"] == "input.committed"]
        # The server counts the characters of the received text, not of the filtered text.
        assert committed["chars_committed"] == len(MARKED)
    driver.send({"type": "input.done"})
    assert driver.received_text == spoken + "|"


def test_text_held_by_the_filter_is_spoken_after_the_delay() -> None:
    clock = Clock()
    driver = omni(None, clock)
    driver.send({"type": "session.config", "streaming_mode": "token_level"})
    driver.send({"type": "input.text", "text": "**Never closed."})
    assert driver.submitted == []
    clock.now += 0.3
    driver.dialect.tick()
    driver.gather()
    assert driver.received_text == "**Never closed."
    driver.send({"type": "input.done"})
    assert driver.received_text == "**Never closed.|"


def test_omni_dialect_counts_removed_text() -> None:
    driver = omni(Limits(max_text_chars=20), Clock())
    driver.send({"type": "session.config", "split_granularity": "sentence"})
    driver.send({"type": "input.text", "text": "Yes. No. "})
    driver.send({"type": "input.text", "text": "\n```\ncode code code code"})
    driver.send({"type": "input.done"})
    assert [submit.request.text for submit in driver.submitted] == ["Yes."]
    for number in (1, 2):
        driver.start(number)
        driver.finish(number)
    assert "text_too_long" in driver.kinds()


@pytest.mark.parametrize(
    ("goes_on", "name", "spoken"),
    [(True, None, PLAIN), (True, "none", MARKED), (False, None, MARKED), (False, "markdown", PLAIN)],
)
def test_cartesia_dialect_filters_text(goes_on: bool, name: str | None, spoken: str) -> None:
    driver = cartesia()
    if goes_on:
        driver.send(generation("Some *", text_filter=name, **{"continue": True}))
        driver.send(generation("*bold** <br", **{"continue": True}))
        driver.send(generation("eak time='1s'/>words.", **{"continue": True}))
        driver.send(generation(""))
        assert driver.received_text == spoken.replace("words", "<break time='1s'/>words") + "|"
    else:
        driver.send(generation(MARKED, text_filter=name))
        assert driver.received_text == spoken + "|"


def test_cartesia_flush_speaks_buffered_text() -> None:
    driver = cartesia()
    driver.send(generation("Is it *so", max_buffer_delay_ms=0, **{"continue": True}))
    assert driver.received_text.startswith("Is it *so")


def test_buffered_text_is_spoken_before_a_context_expires() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("One. *Two", **{"continue": True}))
    driver.start(1)
    driver.send_audio(1)
    short(driver, 1, len("One. "))
    waits(driver, clock, 1.1)
    assert driver.received_text == "One. *Two"
    assert driver.commands_of(FinishText) == []
    short(driver, 1, len("One. *Two"))
    waits(driver, clock, 1.1)
    assert driver.commands_of(FinishText) == [FinishText(1)]


def test_filtered_out_text_delays_context_expiry_only_once() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("One.", **{"continue": True}))
    driver.start(1)
    driver.send_audio(1)
    short(driver, 1, len("One."))
    for line in ("\n```\n", "code\n", "more code\n"):
        waits(driver, clock, 0.9)
        driver.send(generation(line, **{"continue": True}))
    assert driver.commands_of(FinishText) == []
    waits(driver, clock, 1.1)
    assert driver.commands_of(FinishText) == [FinishText(1)]
    assert driver.received_text == "One.|"
