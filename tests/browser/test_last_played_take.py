"""Tests for the last played take, which the page shows after a reload without playing it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenStudio
from tests.browser.script_steps import await_made
from tests.browser.steps import await_end, enter, kept_take, reload_to_speak, save
from tests.browser.test_frame import MAX_SHIFT, SHIFTS
from tests.browser.wire import sound_of
from tests.support.app import App

pytestmark = pytest.mark.browser


def shift(page: Page) -> float:
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    return float(page.evaluate("shifts.reduce((sum, { value }) => sum + value, 0)"))


@pytest.mark.parametrize("window", [(1366, 768), (360, 780)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_reload_keeps_the_last_take_in_the_player(app: App, open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(script=SHIFTS)
    kept_take(page, "The heron waits.")
    take = kept_take(page, "The otter dives.")
    await_end(page)
    page.set_viewport_size({"width": window[0], "height": window[1]})
    caption, length = (page.inner_text(place) for place in ("#vw-caption", "#vw-length"))
    with page.expect_response(re.compile(rf"/studio/takes/{take}/audio")):
        reload_to_speak(page)
    expect(page.locator("#vw-caption")).to_have_text(caption)
    expect(page.locator("#vw-length")).to_have_text(length)
    expect(page.locator("#vw-time")).to_have_text("0:00.0")
    assert shift(page) < MAX_SHIFT
    expect(page.locator("#vw-stop"), "nothing sounds by itself").to_be_hidden()
    assert sound_of(app, take) in save(page).path().read_bytes()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    expect(page.locator("#vw-time")).not_to_have_text("0:00.0")
    await_end(page)
    enter(page, "library")  # Wait until the take is listed in the Library.
    expect(page.locator("#vw-takes-list .vw-take-text").nth(1)).to_have_text("The heron waits.")


def test_play_pressed_before_the_audio_has_loaded_starts_after_loading(open_studio: OpenStudio) -> None:
    page = open_studio()
    kept_take(page, "The otter dives.")
    await_end(page)
    held: list[Route] = []
    page.route("**/studio/takes/*/audio?format=pcm*", lambda route: held.append(route))
    reload_to_speak(page)
    page.click("#vw-play")
    expect(page.locator("#vw-stop")).to_be_visible()
    assert page.inner_text("#vw-time") == "0:00.0"
    held.pop().continue_()
    expect(page.locator("#vw-time")).not_to_have_text("0:00.0")
    await_end(page)
    assert not held  # The page has requested the take only once.


def test_deleted_take_is_not_restored_to_the_player_bar(open_studio: OpenStudio) -> None:
    page = open_studio()
    take = kept_take(page, "The otter dives.")
    await_end(page)
    assert page.request.delete(f"{page.url.partition('#')[0]}studio/takes/{take}").ok
    reload_to_speak(page)
    expect(page.locator("#vw-play")).to_be_hidden()
    expect(page.locator("#vw-dock-line")).to_be_visible()


def test_new_tab_starts_with_an_empty_player_bar(app: App, open_studio: OpenStudio) -> None:
    page = open_studio()
    kept_take(page, "The otter dives.")
    other = open_studio(url=app.url)
    expect(other.locator("#vw-play")).to_be_hidden()


def test_reload_keeps_the_played_script_in_the_player_bar(script: Page) -> None:
    page = script
    page.add_init_script(SHIFTS)
    page.click("#vw-speak")
    await_made(page, 3)
    page.click("#vw-stop")
    expect(page.locator("#vw-script-saved")).to_contain_text("aved")
    length = page.inner_text("#vw-length")
    reload_to_speak(page)
    expect(page.locator("#vw-length")).to_have_text(length)
    expect(page.locator("#vw-caption")).to_contain_text("At the river")
    assert shift(page) < MAX_SHIFT
    page.click("#vw-play")
    expect(page.locator("#vw-time")).not_to_have_text("0:00.0")
    await_end(page)
