"""Tests for inline tags in Speak and Script: display, word counts, requests and subtitles."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.script_steps import await_made, enter_script, new_script, text_of
from tests.browser.steps import SHORT, change_model_cards, enter, kept_take, reload_to_speak
from tests.support.app import App

pytestmark = pytest.mark.browser

CHIPS = "#vw-text-tags"


def record(app: App, take: str) -> dict[str, Any]:
    kept: dict[str, Any] = httpx.get(f"{app.url}/studio/takes/{take}", trust_env=False).json()
    return kept


def test_tag_button_inserts_at_the_caret_and_tags_are_not_counted(app: App, studio: Page) -> None:
    studio.fill("#vw-text", "Hello world. It is late.")
    counted = studio.locator("#vw-text-count")
    expect(counted).to_have_text(re.compile("^5 words · 24 characters ·"))
    plain = counted.inner_text()
    studio.evaluate("document.querySelector('#vw-text').setSelectionRange(12, 12)")
    studio.click(f"{CHIPS} button[title='[whispering]']")
    expect(studio.locator("#vw-text")).to_have_value("Hello world. [whispering] It is late.")
    assert studio.evaluate("document.activeElement.id") == "vw-text"
    expect(counted).to_have_text(plain)
    take = record(app, kept_take(studio, studio.input_value("#vw-text")))
    assert take["config"]["tags"] is True
    assert "tags" not in record(app, kept_take(studio, SHORT))["config"]


def test_style_tag_buttons_are_shown_only_if_the_voice_supports_styles(studio: Page) -> None:
    expect(studio.locator(CHIPS)).to_be_visible()
    enter(studio, "design")
    expect(studio.locator(CHIPS)).to_be_hidden()


def test_voice_without_styles_offers_only_the_pause_tag(studio: Page, app: App) -> None:
    change_model_cards(studio, takes_instruct=False, styles_voices=False)
    reload_to_speak(studio)
    expect(studio.locator(f"{CHIPS} button").filter(visible=True)).to_have_text(["[pause]"])


def test_style_tag_applies_after_a_pause_in_a_script(app: App, studio: Page) -> None:
    enter_script(studio)
    new_script(studio, "Tags")
    text_of(studio, 1).fill("Hello. [sad] It rains. [pause 0.5s] Still.")
    expect(studio.locator("#vw-script-lines mark")).to_have_text(["[sad]", "[pause 0.5s]"])
    studio.click("#vw-speak")
    await_made(studio, 1)
    wanted, takes = {"Hello. [sad] It rains.", "[sad] Still."}, []
    for _ in range(300):  # A take is stored shortly after it is generated.
        newest = httpx.get(f"{app.url}/studio/takes?room=script&limit=2", trust_env=False).json()["takes"]
        takes = [take for take in newest if take["text"] in wanted]
        if len(takes) == len(wanted):
            break
        studio.wait_for_timeout(50)
    assert {take["text"] for take in takes} == wanted
    assert all(take["config"]["tags"] for take in takes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (360, 780)])
def test_tag_buttons_fit_in_one_scrollable_row(open_studio: OpenStudio, scheme: str, width: int, height: int) -> None:
    page = open_studio(viewport=ViewportSize(width=width, height=height), color_scheme=scheme)
    page.fill("#vw-text", "[excited] The kettle has just boiled. [pause:500ms] [whispering] Do not tell them.")
    expect(page.locator(CHIPS)).to_be_visible()
    chips = page.locator(f"{CHIPS} button")
    tops = {round(box["y"]) for box in (chips.nth(at).bounding_box() for at in range(chips.count())) if box}
    assert len(tops) == 1, "one row"
    goes_on = width < 500  # In a narrow window, not all buttons fit, so the row fades at its end.
    for attribute, is_there in (("data-before", False), ("data-behind", goes_on)):
        expect(page.locator(f"{CHIPS}[{attribute}]")).to_have_count(int(is_there))
    page.locator(CHIPS).evaluate("(row) => (row.scrollLeft = 40)")
    for attribute in ("data-before", "data-behind"):
        expect(page.locator(f"{CHIPS}[{attribute}]")).to_have_count(int(goes_on))
    page.locator(CHIPS).evaluate("(row) => (row.scrollLeft = 0)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=SCREENSHOTS / f"tags-{width}-{scheme}.png")
