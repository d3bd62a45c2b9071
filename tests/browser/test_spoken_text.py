"""Tests that the page highlights the sentence that is playing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.script_steps import enter_script, new_script, text_of

pytestmark = pytest.mark.browser

FIRST = "The boat came back in the evening, and nobody had seen where it had been."
TEXT = f"{FIRST} Is it late?\n\n" + "Then they all went home along the river, slowly, and slept until the morning. " * 6

# Script that returns the offset between the hidden copy of the text and the text in the field.
LIES = """() => {
  const mirror = document.querySelector('#vw-text-mirror'), field = document.querySelector('#vw-text');
  const [one, other] = [mirror, field].map((element) => element.getBoundingClientRect());
  const style = (element, name) => getComputedStyle(element)[name];
  return [one.top - other.top, one.left - other.left, mirror.clientWidth - field.clientWidth,
    mirror.scrollHeight - field.scrollHeight, style(mirror, 'fontSize') === style(field, 'fontSize') ? 0 : 1];
}"""


# Script that records each highlighted text once, because a short sentence may end between two checks of a test.
MARKED = """() => {
  window.marked = [];
  const note = () => {
    const words = document.querySelector('#vw-text-mirror mark')?.textContent;
    if (words && words !== marked.at(-1)) marked.push(words);
  };
  const all = { childList: true, characterData: true, subtree: true };
  new MutationObserver(note).observe(document.querySelector('#vw-text-mirror'), all);
}"""


def test_spoken_sentence_is_highlighted_during_playback(studio: Page) -> None:
    mark = studio.locator("#vw-text-mirror mark")
    studio.fill("#vw-text", TEXT)
    studio.evaluate(MARKED)
    studio.click("#vw-speak")
    expect(mark).to_have_text(FIRST)
    studio.screenshot(path=SCREENSHOTS / "sounding.png")
    assert all(abs(away) <= 1 for away in studio.evaluate(LIES))
    studio.wait_for_function("marked.length > 2")
    first, short, next_ = studio.evaluate("marked.slice(0, 3)")
    assert (first, short) == (FIRST, "Is it late?")
    assert next_.startswith("Then they all")
    studio.keyboard.press("Escape")
    expect(mark).to_have_count(0)


def test_progress_of_a_long_text_is_shown(studio: Page) -> None:
    studio.fill("#vw-text", TEXT)
    studio.click("#vw-speak")
    expect(studio.locator("#vw-making")).to_have_text(re.compile(r"\d+ % done, \d+ s left"))
    expect(studio.locator("#vw-length")).to_have_text(re.compile(r"/ ~0:\d\d$"))
    studio.click("#vw-stop")
    expect(studio.locator("#vw-making")).to_have_text("")
    expect(studio.locator("#vw-length")).to_have_text(re.compile(r"/ 0:\d\d\.\d$"))
    studio.fill("#vw-text", "Short.")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-stop")).to_be_disabled()
    expect(studio.locator("#vw-making")).to_have_text("")


def test_edited_text_is_not_highlighted(studio: Page) -> None:
    mark = studio.locator("#vw-text-mirror mark")
    studio.fill("#vw-text", TEXT)
    studio.click("#vw-speak")
    expect(mark).to_have_count(1)
    studio.fill("#vw-text", "Another.")
    expect(mark).to_have_count(0)
    studio.click("#vw-stop")


def test_spoken_sentence_is_scrolled_into_view_unless_the_user_types(studio: Page) -> None:
    studio.set_viewport_size({"width": 360, "height": 700})
    studio.emulate_media(reduced_motion="reduce")
    studio.fill("#vw-text", TEXT)
    field = "document.querySelector('#vw-text')"
    studio.evaluate(f"{field}.blur(); {field}.scrollTop = {field}.scrollHeight")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-text-mirror mark")).to_have_text(FIRST)
    assert studio.evaluate(f"{field}.scrollTop") == 0
    studio.keyboard.press("Escape")
    studio.focus("#vw-text")
    studio.evaluate(f"{field}.scrollTop = {field}.scrollHeight")
    studio.keyboard.press("Control+Enter")
    expect(studio.locator("#vw-text-mirror mark")).to_have_text(FIRST)
    assert studio.evaluate(f"{field}.scrollTop") > 0


# Script that records the highlighted text of a script, and the text before it in its line.
MARKED_IN_SCRIPT = """() => {
  window.marked = [];
  const note = () => {
    const mark = document.querySelector('.vw-line-paper .vw-sounding');
    if (!mark) return;
    const before = document.createRange();
    before.selectNodeContents(mark.closest('.vw-line-paper'));
    before.setEndBefore(mark);
    const place = `${before.toString().length} ${mark.textContent}`;
    if (place !== marked.at(-1)) marked.push(place);
  };
  const all = { childList: true, characterData: true, subtree: true };
  new MutationObserver(note).observe(document.querySelector('#vw-script-lines'), all);
}"""


def test_spoken_sentence_is_highlighted_in_its_script_line(open_studio: OpenStudio) -> None:
    page = open_studio()
    enter_script(page)
    new_script(page, "At the river")
    text = f"Is it late? {FIRST} [pause 0.3s] Is it late? [whispering] Then they all went home. [pause 0.2s] {FIRST}"
    text_of(page, 1).fill(text)
    page.evaluate(MARKED_IN_SCRIPT)
    page.click("#vw-speak")
    spoken = ["Is it late?", FIRST, "Is it late?", "[whispering] Then they all went home.", FIRST]
    starts = [0, 12, text.rindex("Is it"), text.index("[whispering]"), text.rindex(FIRST)]
    places = [f"{start} {sentence}" for start, sentence in zip(starts, spoken, strict=True)]
    page.wait_for_function("(count) => marked.length >= count", arg=2)
    page.screenshot(path=SCREENSHOTS / "script-sounding.png")
    page.wait_for_function("(last) => marked.at(-1) === last", arg=places[-1])
    marked = page.evaluate("marked")
    assert [place for place in places if place not in marked] == [], marked
    text_of(page, 1).fill("Another text.")
    expect(page.locator(".vw-sounding")).to_have_count(0)
    page.keyboard.press("Escape")
