"""Tests for keyboard use in all rooms: focus order, visible focus, and closing sheets."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.steps import enter, kept_take, picker, reload, to_words, wav
from tests.browser.test_full_store import keep_voice

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

ROOMS = ("speakers", "design", "clone", "script", "library", "host")
MAX_STEPS = 250
# Script that marks the focused element and describes it. The focus is visible if the element, one of its siblings or
# ancestors looks different without it. If a file input is invisible, its label is compared instead.
VISIT = """
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const name = element.id || `${element.tagName}.${element.className}.${element.textContent.trim()}`;
  const before = window.lastVisited;
  window.lastVisited = element;
  const follows = () => before.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
  const isInOrder = !before || before === element || Boolean(follows());
  const shown = element.matches('.vw-offscreen') ? element.labels[0] : element;
  const look = (one) => {
    const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor } = getComputedStyle(one);
    return [outlineStyle === 'none' ? '' : outlineWidth + outlineColor, boxShadow, borderColor, backgroundColor].join();
  };
  const around = [...shown.parentElement.children, shown.parentElement, shown.parentElement.parentElement];
  const focused = around.map(look).join();
  // A second focus would return to the first part of a date, so Tab would never leave the field.
  const isDate = element.type === 'date';
  if (!isDate) element.blur();
  const plain = isDate ? '' : around.map(look).join();
  if (!isDate) element.focus({ focusVisible: true, preventScroll: true });
  const { top, bottom, width, height } = shown.getBoundingClientRect();
  const isInView = width > 0 && height > 0 && bottom > 0 && top < innerHeight;
  return { name, isTab: element.role === 'tab', isInOrder, isVisible: focused !== plain, isInView };
}
"""
# Script that returns the elements that the Tab key must reach. In a group such as radio buttons or tabs, it must reach
# one element.
REACHABLE = """
() => [...document.querySelectorAll('#vw :is(button, a[href], input, select, textarea, summary, [tabindex="0"])')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0)
  .filter((one) => !one.matches('[type=radio], [role=tab]'))
  .map((one) => one.id || `${one.tagName}.${one.className}.${one.textContent.trim()}`)
"""


def tab_through(page: Page) -> list[dict[str, object]]:
    """Press Tab until the first control has the focus again, and describe each control."""
    page.locator("[role=tab][tabindex='0']").first.focus()
    visits: list[dict[str, object]] = []
    for _ in range(MAX_STEPS):
        page.keyboard.press("Tab")
        visit = page.evaluate(VISIT)
        if visit is None:
            continue
        visits.append(visit)
        if visit["isTab"]:
            return visits[:-1]
    raise AssertionError(f"Tab is trapped: {visits[-3:]}")


def prepare_room(page: Page, room: str) -> None:
    enter(page, room)
    if room == "host":
        # The content of the Host room is loaded after the room is shown.
        expect(page.locator("#vw-host-inside")).to_be_visible()
    if room == "clone":
        to_words(page, wav(4.0))
    if room == "script":
        page.locator(".vw-line-open").first.click()
    if room == "library":
        page.locator(".vw-take-open").first.click()
        page.locator(".vw-voice-open").first.click()


@pytest.mark.parametrize("room", ROOMS)
def test_tab_reaches_every_control_of_a_room_in_order_with_visible_focus(studio: Page, room: str) -> None:
    keep_voice(studio, "Peter")
    reload(studio)
    expect(picker(studio)).to_contain_text("Peter")
    kept_take(studio, "Hi.")
    prepare_room(studio, room)
    visits = tab_through(studio)
    assert [visit["name"] for visit in visits if not visit["isVisible"]] == []
    assert [visit["name"] for visit in visits if not visit["isInView"]] == []
    assert [visit["name"] for visit in visits if not visit["isInOrder"]] == []
    reached = {visit["name"] for visit in visits}
    assert [name for name in studio.evaluate(REACHABLE) if name not in reached] == []


SHEETS = [
    ("speakers", "#vw-save", "#vw-keep"),
    ("speakers", "#vw-rate-button", "#vw-rates"),
    ("speakers", "#vw-volume-button", "#vw-volume-sheet"),
    ("speakers", "#vw-to-sound", "#vw-figures"),
    ("speakers", "#vw-as-code", "#vw-code"),
    ("speakers", "#vw-text-said", "#vw-pronunciation"),
    ("speakers", "#vw-text-web", "#vw-web"),
    ("speakers", "#vw-loaded-open", "#vw-loaded"),
    ("speakers", "#vw-banner-see", "#vw-real-voices"),
    ("script", "#vw-script-files", "#vw-script-export"),
    ("script", ".vw-line-voice >> nth=0", "#vw-voice-sheet"),
    ("script", "#vw-script-shelf > summary", ".vw-script-menu"),
    ("library", ".vw-take-save >> nth=0", "#vw-takes-files"),
]


@pytest.mark.parametrize(("room", "opener", "sheet"), SHEETS, ids=[sheet for _, _, sheet in SHEETS])
def test_escape_closes_a_sheet_and_returns_the_focus(studio: Page, room: str, opener: str, sheet: str) -> None:
    kept_take(studio, "Hi.")
    studio.keyboard.press("Escape")  # The Escape key stops the playback.
    enter(studio, room)
    studio.locator(opener).focus()
    studio.keyboard.press("Enter")
    expect(studio.locator(sheet)).to_be_visible()
    if sheet != "#vw-figures":  # The sheet with the figures contains no control.
        studio.keyboard.press("Tab")
    studio.keyboard.press("Escape")
    expect(studio.locator(sheet)).to_be_hidden()
    expect(studio.locator(opener)).to_be_focused()
