"""Tests for the page with forced colours, such as the contrast themes of Windows."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.design_steps import make_three
from tests.browser.steps import enter, kept_take

pytestmark = pytest.mark.browser

ROOMS = ("speakers", "design", "clone", "script", "library", "host")

# Script that returns the visible icons whose colour is equal to their background.
UNSEEN = """
() => [...document.querySelectorAll('#vw *')].filter((each) => each.checkVisibility()).flatMap((each) =>
  ['::before', '::after'].filter((part) => {
    const style = getComputedStyle(each, part);
    if (style.content === 'none' || style.maskImage === 'none' || style.display === 'none') return false;
    let under = each;
    while (under && getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement;
    const ground = under ? getComputedStyle(under).backgroundColor : 'rgb(255, 255, 255)';
    return style.backgroundColor === ground || style.backgroundColor === 'rgba(0, 0, 0, 0)';
  }).map((part) => `${each.id || each.className}${part}`))
"""


def looks(page: Page, selector: str) -> set[str]:
    """Return the distinct (background, text, lower border) colours of visible elements."""
    return set(
        page.locator(selector).evaluate_all(
            "(all) => all.filter((each) => each.checkVisibility()).map((each) => { const s = getComputedStyle(each);"
            " return [s.backgroundColor, s.color, s.borderBottomColor].join(); })"
        )
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_icons_and_chosen_controls_are_distinguishable_in_every_room(open_studio: OpenStudio, scheme: str) -> None:
    page = open_studio(forced_colors="active", color_scheme=scheme)
    kept_take(page, "Hi.")
    found: list[tuple[str, list[str]]] = []
    for room in ROOMS:
        enter(page, room)
        if room == "design":
            make_three(page)
        found.append((room, page.evaluate(UNSEEN)))
        if room != "host":
            chosen = looks(page, ".vw-masthead .vw-tabs [aria-selected=true]")
            assert chosen.isdisjoint(looks(page, ".vw-masthead .vw-tabs [aria-selected=false]"))
    assert [each for each in found if each[1]] == []
    enter(page, "speakers")
    pressed = looks(page, "#vw-speakers-picker .vw-chips [aria-pressed=true]")
    assert pressed
    assert pressed.isdisjoint(looks(page, "#vw-speakers-picker .vw-chips [aria-pressed=false]"))


def test_with_forced_colours_select_fields_have_an_arrow_and_borders_do_not_cross(open_studio: OpenStudio) -> None:
    page = open_studio(forced_colors="active")
    selects = page.locator("#vw select").evaluate_all("(all) => all.map((each) => getComputedStyle(each).appearance)")
    assert set(selects) == {"auto"}, "the arrow of the page is a gradient, which is not drawn"
    assert looks(page, "#vw-text-open").isdisjoint(looks(page, ".vw-text-tags button")), "only one has a border"
    enter(page, "script")
    prompt = page.locator("#vw-script-lines .vw-line-instruct").first
    shown = "(field) => getComputedStyle(field, '::placeholder').opacity"
    page.mouse.move(0, 0)
    assert prompt.evaluate(shown) == "0"


def test_with_forced_colours_controls_have_whole_borders_and_tags_are_marked(open_studio: OpenStudio) -> None:
    page = open_studio(forced_colors="active")
    enter(page, "script")
    expect(page.locator(".vw-line-play").first).to_have_css("border-top-style", "solid")
    expect(page.locator(".vw-line-play").first).to_have_css("border-top-width", "1px")
    expect(page.locator(".vw-line-paper mark").first).to_have_css("outline-style", "dashed")
    enter(page, "library")
    expect(page.locator("#vw-takes-day")).to_have_css("border-top-width", "1px")
    button, room = (page.locator(one).bounding_box() for one in ("#vw-library-pronunciation", ".vw-rooms"))
    assert button
    assert room
    assert button["y"] >= room["y"]


def test_with_forced_colours_the_status_border_does_not_touch_its_text(open_studio: OpenStudio) -> None:
    page = open_studio(forced_colors="active")
    border = page.locator("#vw-loaded-open").bounding_box()
    text = page.evaluate(
        "() => { const range = document.createRange(); range.selectNodeContents(document.querySelector('#vw-status'));"
        " const { left, right } = range.getBoundingClientRect(); return [left, right]; }"
    )
    assert border is not None
    assert border["x"] + border["width"] >= text[1] + 4


def test_with_forced_colours_the_focused_text_field_has_an_outline(open_studio: OpenStudio) -> None:
    page = open_studio(forced_colors="active")
    page.locator("#vw-text").focus()
    expect(page.locator("#vw-text")).to_have_css("outline-style", "solid")
