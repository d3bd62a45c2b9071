"""Tests for "Speak as I type": a clause is spoken while the user types the next clause."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import await_end, enter, reading
from tests.browser.test_spoken_text import MARKED
from tests.support.app import App

pytestmark = pytest.mark.browser

PRESSED = "aria-pressed"
# Script that returns true if all audio that the take has received was played.
PLAYED = """() => {
  const [time, length] = ['#vw-time', '#vw-length'].map((name) => document.querySelector(name).textContent);
  return time !== '0:00.0' && length === `/ ${time}`;
}"""
LIMIT = re.compile(r'("max_text_chars": ?)\d+')


class Sent:
    """Recorder of the JSON messages that the page sends to the runtime."""

    def __init__(self, page: Page) -> None:
        self.messages: list[dict[str, Any]] = []
        page.on("websocket", lambda socket: socket.on("framesent", self._note))

    def _note(self, data: str | bytes) -> None:
        if isinstance(data, str) and (message := json.loads(data))["type"] != "ping":
            self.messages.append(message)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.of("input.text")]


@pytest.fixture
def sent(open_studio: OpenStudio) -> tuple[Page, Sent]:
    page = open_studio(url="about:blank", await_ready=False)
    return page, Sent(page)


def start(page: Page, app: App) -> None:
    page.goto(app.url, wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for()
    page.evaluate(MARKED)
    page.click("#vw-typed")
    expect(page.locator("#vw-typed")).to_have_attribute(PRESSED, "true")


def expect_texts(page: Page, sent: Sent, texts: list[str]) -> None:
    for _ in range(400):
        if len(sent.texts) >= len(texts):
            break
        page.wait_for_timeout(50)
    assert sent.texts == texts


def newest(page: Page, app: App) -> dict[str, Any]:
    takes: list[dict[str, Any]] = page.request.get(f"{app.url}/studio/takes?limit=1").json()["takes"]
    return takes[0]


def test_each_clause_is_spoken_and_marked_while_the_next_clause_is_typed(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    page.keyboard.type("The boat came back,")
    expect_texts(page, messages, ["The boat came back,"])
    expect(page.locator("#vw-text-mirror mark")).to_have_text("The boat came back,")
    expect(page.locator("#vw-stop")).to_be_enabled()
    page.screenshot(path=SCREENSHOTS / "typing.png")
    # Wait until all audio has been played. The next clause then starts at the end of this audio, so that its start is
    # known exactly.
    page.wait_for_function(PLAYED)
    page.keyboard.insert_text(" and nobody knew it. ")
    expect_texts(page, messages, ["The boat came back,", " and nobody knew it. "])
    page.wait_for_function("marked.includes('and nobody knew it.')")
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        page.keyboard.insert_text("Good night")
        page.keyboard.press("Control+Enter")
    expect(page.locator("#vw-typed")).to_have_attribute(PRESSED, "false")
    await_end(page)
    assert messages.texts[2:] == ["Good night"]
    assert len(messages.of("session.config")) == len(messages.of("input.done")) == 1
    take = newest(page, app)
    assert take["text"] == page.input_value("#vw-text") == "The boat came back, and nobody knew it. Good night"
    assert page.evaluate("marked.at(-1)") == "Good night"


def test_speech_continues_after_a_pause_in_typing(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    page.keyboard.insert_text("One ")  # There is no punctuation mark, so the pause in typing ends the clause.
    expect_texts(page, messages, ["One "])
    page.wait_for_function("document.querySelector('#vw-time').textContent !== '0:00.0'")
    page.wait_for_timeout(2500)  # All audio has been played after this time.
    position = reading(page, "time")
    page.wait_for_timeout(500)
    assert reading(page, "time") == position
    page.keyboard.insert_text("two, ")
    page.wait_for_function("(before) => document.querySelector('#vw-time').textContent > before", arg=position)
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        page.click("#vw-typed")  # Switching the mode off ends the speech.
    await_end(page)
    assert newest(page, app)["text"] == "One two,"
    assert newest(page, app)["stop_reason"] == "eos"


def test_corrections_of_typed_text_are_spoken(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    page.keyboard.insert_text("We met on Monk")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text("day, ")
    expect_texts(page, messages, ["We met on Monday,"])  # The word was deleted before it was sent.
    for _ in range(5):
        page.keyboard.press("Backspace")
    page.wait_for_timeout(2000)
    assert len(messages.texts) == 1  # After a deletion, a pause in typing does not cause speech.
    page.keyboard.insert_text("th, ")
    expect_texts(page, messages, ["We met on Monday,", " We met on Month,"])  # The changed end is spoken again.
    hint = page.locator("#vw-typed-hint")
    expect(hint).to_be_hidden()
    page.keyboard.press("Home")
    page.keyboard.type("X")
    expect(hint).to_contain_text("already spoken")
    page.keyboard.press("End")
    page.keyboard.insert_text("friends. ")
    expect_texts(page, messages, ["We met on Monday,", " We met on Month,", " friends. "])
    page.keyboard.press("Escape")
    expect(page.locator("#vw-typed")).to_have_attribute(PRESSED, "false")
    assert page.input_value("#vw-text") == "XWe met on Month, friends. "


def test_text_inserted_by_the_page_is_not_spoken(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    page.keyboard.type("Mine, ")
    expect_texts(page, messages, ["Mine,"])
    page.evaluate("document.querySelector('#vw-text').value = 'Put here. By the page.'")
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(" Then mine, ")
    expect_texts(page, messages, ["Mine,", " Then mine,"])
    page.keyboard.press("Escape")


def test_speech_starts_after_the_existing_text_and_escape_keeps_the_audio(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    page.goto(app.url, wait_until="domcontentloaded")
    page.fill("#vw-text", "My own text.")
    page.locator("#vw-speak:enabled").wait_for()
    page.click("#vw-typed")
    expect(page.locator("#vw-text")).to_be_focused()
    page.keyboard.insert_text(" More of it,")
    expect_texts(page, messages, [" More of it,"])
    page.wait_for_function("document.querySelector('#vw-time').textContent !== '0:00.0'")
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        page.keyboard.insert_text(" and more")
        page.keyboard.press("Escape")
    assert (newest(page, app)["text"], newest(page, app)["stop_reason"]) == (" More of it,", "cancelled")
    assert page.input_value("#vw-text") == "My own text. More of it, and more"
    page.keyboard.insert_text(", not spoken. ")
    page.wait_for_timeout(1500)
    assert len(messages.texts) == 1


def test_leaving_the_room_or_losing_the_connection_ends_typed_speech(app: App, sent: tuple[Page, Sent]) -> None:
    page, _ = sent
    links: list[tuple[WebSocketRoute, WebSocketRoute]] = []
    page.route_web_socket("**/v1/audio/speech/stream", lambda route: links.append((route, route.connect_to_server())))
    start(page, app)
    page.keyboard.type("One, two")
    page.wait_for_function("document.querySelector('#vw-time').textContent !== '0:00.0'")
    for route, server in links:
        server.close()
        route.close()
    expect(page.locator("#vw-typed")).to_have_attribute(PRESSED, "false")
    expect(page.locator("#vw-stage [data-error-for=request]")).to_contain_text("connection")
    assert page.input_value("#vw-text") == "One, two"
    expect(page.locator("#vw-status")).to_have_attribute("data-state", "ready")
    page.click("#vw-typed")
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        page.keyboard.insert_text(", three, and")
        enter(page, "library")
    take = newest(page, app)
    assert take["text"] in (", three, and", " three, and")
    expect(page.locator("#vw-typed")).to_be_hidden()
    enter(page, "speakers")
    expect(page.locator("#vw-typed")).to_have_attribute(PRESSED, "false")
    assert page.input_value("#vw-text") == "One, two, three, and"
    page.reload(wait_until="domcontentloaded")
    expect(page.locator("#vw-text")).to_have_value("One, two, three, and")


def test_text_composed_with_an_input_method_is_spoken_when_committed(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    keyboard = page.context.new_cdp_session(page)
    keyboard.send("Input.imeSetComposition", {"text": "ni,hao", "selectionStart": 6, "selectionEnd": 6})
    page.wait_for_timeout(1800)
    assert messages.texts == []
    keyboard.send("Input.insertText", {"text": "你好，"})
    expect_texts(page, messages, ["你好，"])
    keyboard.send("Input.insertText", {"text": "世界"})
    expect_texts(page, messages, ["你好，", "世界"])  # The pause in typing ends the second clause.
    page.keyboard.press("Escape")


def test_typed_text_beyond_the_limit_is_spoken_in_a_second_take(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent

    def lower_limit(route: WebSocketRoute) -> None:
        server = route.connect_to_server()
        server.on_message(lambda data: route.send(LIMIT.sub(r"\g<1>40", data) if isinstance(data, str) else data))

    page.route_web_socket("**/v1/audio/speech/stream", lower_limit)
    start(page, app)
    page.keyboard.insert_text("Here is the first half,")
    expect_texts(page, messages, ["Here is the first half,"])
    page.keyboard.insert_text(" and here is the second one,")
    expect_texts(page, messages, ["Here is the first half,", " and here is the second one,"])
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        page.keyboard.press("Control+Enter")
    assert len(messages.of("session.config")) == len(messages.of("input.done")) == 2
    assert newest(page, app)["text"] == " and here is the second one,"


def test_long_pasted_text_is_sent_in_several_messages(app: App, sent: tuple[Page, Sent]) -> None:
    page, messages = sent
    start(page, app)
    text = "The boat came back in the evening. " * 40
    page.keyboard.insert_text(text)
    page.wait_for_timeout(300)
    assert "".join(messages.texts) == text
    assert max(map(len, messages.texts)) <= 1000
    page.keyboard.press("Escape")
