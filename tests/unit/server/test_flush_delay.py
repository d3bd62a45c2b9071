"""Tests for the flush delay: a sentence is spoken if no more text arrives."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.server.session.commands import Flush
from runtime.settings import Limits
from runtime.shared.text.sentence_ends import may_end
from tests.unit.server.dialects import Clock, DialectDriver, cartesia, omni
from tests.unit.server.native.driver import REFERENCE, Driver, ready

SENTENCE = "Let me check that for you. "


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "Really?!",
        'He said "No."',
        "你好。",
        "Well… ",
        "That is 42.",
        "A title\n\n",
        "One. Two. Three!",
        "(Yes.)\n",
    ],
)
def test_possible_sentence_ends_are_recognised(text: str) -> None:
    assert may_end(text)


@pytest.mark.parametrize(
    "text", ["", " ", "...", "Let me check", "Let me check, ", "Ask Dr. ", "J. R. ", "e.g. ", "A line\n"]
)
def test_text_without_a_sentence_end_waits_for_more_text(text: str) -> None:
    assert not may_end(text)


def passes(driver: Driver, seconds: float) -> None:
    driver.now += seconds
    driver.session.tick()
    driver.commands += driver.session.commands()


def test_sentence_without_following_text_is_spoken_after_the_delay() -> None:
    driver = ready()
    driver.send("input.text", text=SENTENCE)
    assert driver.session.deadline == pytest.approx(0.3)
    passes(driver, 0.29)
    assert driver.sent_texts(1) == [SENTENCE]
    passes(driver, 0.02)
    assert driver.sent_texts(1) == [SENTENCE, None]
    passes(driver, 1.0)
    driver.send("input.text", text="It is sunny.")
    driver.send("input.done")
    passes(driver, 1.0)
    assert driver.sent_texts(1) == [SENTENCE, None, "It is sunny.", "."]


def test_text_continued_within_the_delay_is_not_split() -> None:
    driver = ready()
    for token in ("It", " rained", ".", " Nobody", " came"):
        driver.send("input.text", text=token)
        passes(driver, 0.2)
    passes(driver, 9.0)
    assert None not in driver.sent_texts(1)


def test_flush_delay_is_set_by_the_server_or_the_session() -> None:
    for limits, fields, delay in (
        (Limits(max_buffer_delay_ms=1000), {}, 1.0),
        (Limits(), {"max_buffer_delay_ms": 50}, 0.05),
        (Limits(), {"max_buffer_delay_ms": 0}, 0.0),
    ):
        driver = ready(limits, **fields)
        driver.send("input.text", text=SENTENCE)
        assert driver.session.deadline == pytest.approx(delay)
        passes(driver, delay)
        assert driver.sent_texts(1) == [SENTENCE, None]


def test_single_segment_text_waits_for_its_end() -> None:
    driver = ready(split_granularity="none")
    driver.send("input.text", text=SENTENCE)
    passes(driver, 5.0)
    assert driver.sent_texts(1) == [SENTENCE]


def test_flush_delay_applies_after_a_slow_reference_was_decoded() -> None:
    driver = ready(task_type="base", ref_audio="AAAA", x_vector_only_mode=True)
    driver.send("input.text", text=SENTENCE)
    passes(driver, 0.5)
    driver.decoded(driver.decodes[0].upload, REFERENCE)
    assert driver.sent_texts(1) == [SENTENCE, None]


def test_each_context_has_its_own_flush_delay() -> None:
    driver = ready(frames="labelled")
    driver.send("input.text", text=SENTENCE, context_id="a")
    passes(driver, 0.2)
    driver.send("input.text", text="More to come", context_id="b")
    passes(driver, 0.15)
    assert [command.utterance for command in driver.commands if isinstance(command, Flush)] == [1]


# --- Tests of Cartesia's API.


def generation(transcript: str, **fields: Any) -> dict[str, Any]:
    return {"context_id": "c", "transcript": transcript, "continue": True, **fields}


def waits(driver: DialectDriver, clock: Clock, seconds: float) -> int:
    """Advance the clock, and return the number of flushes that the engine has received."""
    clock.now += seconds
    driver.dialect.tick()
    driver.gather()
    return len(driver.commands_of(Flush))


@pytest.mark.parametrize(("fields", "delay"), [({}, 3.0), ({"max_buffer_delay_ms": 500}, 0.5)])
def test_cartesia_delay_is_set_by_the_client_or_three_seconds(fields: dict[str, Any], delay: float) -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation(SENTENCE, **fields))
    assert waits(driver, clock, delay - 0.01) == 0
    assert waits(driver, clock, 0.02) == 1
    assert driver.received_text == SENTENCE
    driver.send(generation("It is sunny"))
    assert waits(driver, clock, 5.0) == 1


# --- Tests of vLLM-Omni's API.


def test_omni_sentence_without_trailing_space_is_spoken_after_the_delay() -> None:
    clock = Clock()
    driver = omni(clock=clock)
    driver.send({"type": "session.config", "split_granularity": "sentence"})
    driver.send({"type": "input.text", "text": "Let me check."})
    clock.now += 0.31
    driver.dialect.tick()
    driver.gather()
    assert [request.request.text for request in driver.submitted] == ["Let me check."]
    driver.send({"type": "input.text", "text": " It is sunny."})
    driver.send({"type": "input.done"})
    for number in (1, 2):
        driver.start(number)
        driver.finish(number)
    kinds = driver.pop_messages()
    assert [kind["sentence_text"] for kind in kinds if isinstance(kind, dict) and kind["type"] == "audio.start"] == [
        "Let me check.",
        "It is sunny.",
    ]
    assert kinds[-1]["total_sentences"] == 2


def test_omni_text_without_splitting_is_a_single_request() -> None:
    clock = Clock()
    driver = omni(clock=clock)
    driver.send({"type": "session.config"})
    driver.send({"type": "input.text", "text": SENTENCE})
    clock.now += 5.0
    driver.dialect.tick()
    driver.gather()
    assert not driver.submitted


def test_omni_flush_delay_applies_to_text_streamed_by_token_and_not_to_committed_text() -> None:
    for mode, flushes in (("token_level", 1), ("sentence_commit", 0)):
        clock = Clock()
        driver = omni(clock=clock)
        driver.send({"type": "session.config", "streaming_mode": mode})
        driver.send({"type": "input.text", "text": SENTENCE})
        assert waits(driver, clock, 0.31) == flushes
