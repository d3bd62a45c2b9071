"""Tests that the page offers interrupted takes after a reload or a crash of the runtime."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import INSECURE_HOST, OpenStudio
from tests.browser.design_steps import (
    LETTERS,
    act,
    expect_set,
    expect_state,
    fix_seed,
    make_three,
    newest,
    newly_kept,
    seeds,
    takes,
)
from tests.browser.steps import await_recording, await_sound, clone_from, enter, reload, wav
from tests.browser.test_frame import COVERED, is_in_view
from tests.support.app import App

pytestmark = pytest.mark.browser

LONG = "The boat came back in the evening, and nobody on the quay had expected it so soon. " * 9
TAKES = "**/studio/takes"
HOLD = """
(passed) => {
  const { fetch } = window;
  window.held = [];
  window.fetch = (address, options) => {
    if (options?.method !== 'POST' || !String(address).endsWith('/studio/takes')) return fetch(address, options);
    const index = held.push(null) - 1;
    if (index === passed) fetch(address, options).then(async (answer) => (held[index] = await answer.json()));
    return new Promise(() => {});
  };
}
"""


def offer(page: Page) -> Locator:
    """Return the button on the page that generates the interrupted take again."""
    return page.get_by_role("button", name="Speak it again", exact=True)


def hold(page: Page, *, passed: int = -1) -> None:
    """Block the page's requests that store a take, until the page is left.

    Only the request with index ``passed`` reaches the studio, but the page receives no response.
    """
    page.evaluate(HOLD, passed)


def await_held(page: Page, count: int) -> None:
    page.wait_for_function("(count) => held.length >= count", arg=count)


def kept(page: Page) -> dict[str, Any]:
    """Return the take that the studio has stored although the page received no response."""
    record: dict[str, Any] = page.wait_for_function("held.find(Boolean)").json_value()
    return record


def expect_in_dock(page: Page, record: dict[str, Any]) -> None:
    """Check that the player bar shows this stored take and no button for another attempt."""
    expect(page.locator("#vw-star")).to_be_visible()
    page.click("#vw-star")
    enter(page, "library")
    expect(page.locator(f"[data-take='{record['id']}'] .vw-take-star")).to_have_attribute("aria-pressed", "true")
    expect(offer(page)).to_have_count(0)


def configs(page: Page) -> list[dict[str, object]]:
    """Return a list to which later session.config messages are appended.

    The messages are recorded after the next page load.
    """
    asked: list[dict[str, object]] = []

    def note(data: str | bytes) -> None:
        if isinstance(data, str) and '"session.config"' in data:
            asked.append({field: value for field, value in json.loads(data).items() if field != "context_id"})

    page.on("websocket", lambda socket: socket.on("framesent", note))
    reload(page)
    return asked


def enter_with_voice(page: Page, room: str) -> None:
    """Open the Speak room, or the Clone room with a recording."""
    enter(page, room)
    if room == "clone":
        clone_from(page, wav(3.0), "The boat came back in the evening.")
        await_recording(page, "voice.wav")


def cut_off_in(page: Page, room: str) -> None:
    """Generate speech in the room, and reload the page before the take is stored."""
    enter_with_voice(page, room)
    hold(page)
    page.fill("#vw-text", "It was whole and on its way.")
    page.click("#vw-speak")
    await_held(page, 1)
    reload(page)
    if room == "clone":
        expect(page.locator("#vw-clone-name")).to_have_text("voice.wav")


def test_reload_during_generation_offers_a_retry_with_the_same_seed(studio: Page) -> None:
    asked = configs(studio)
    studio.fill("#vw-text", LONG)
    studio.click("#vw-speak")
    await_sound(studio)
    reload(studio)
    offer(studio).click()
    await_sound(studio)
    assert len(asked) == 2
    assert asked[0] == asked[1]
    studio.click("#vw-stop")
    reload(studio)
    expect(studio.locator("#vw-speak")).to_be_enabled()
    expect(offer(studio)).to_have_count(0)


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_runtime_crash_during_generation_offers_a_retry_with_the_same_seed(studio: Page, app: App, room: str) -> None:
    asked = configs(studio)
    enter_with_voice(studio, room)
    studio.fill("#vw-text", LONG)
    studio.click("#vw-speak")
    await_sound(studio)
    os.kill(app.runtime_pid, signal.SIGKILL)
    expect(studio.locator("#vw-status")).to_have_attribute("data-state", "waiting")
    expect(offer(studio)).to_have_count(0)
    expect(offer(studio)).to_be_visible(timeout=60_000)
    with studio.expect_response(TAKES):
        offer(studio).click()
        # Until the Stop button is enabled, the page shows the figures of the previous take.
        expect(studio.locator("#vw-stop")).to_be_enabled()
        await_sound(studio)
        studio.click("#vw-stop")
    assert asked[0] == asked[1]
    expect(offer(studio)).to_have_count(0)


def await_sound_of_script(page: Page) -> None:
    expect(page.locator("#vw-play")).to_have_attribute("data-icon", "pause", timeout=60_000)
    page.wait_for_function("document.querySelector('#vw-time').textContent !== '0:00.0'")


def test_runtime_crash_offers_a_retry_of_the_script_line_after_the_restart(studio: Page, app: App) -> None:
    enter(studio, "script")
    studio.locator(".vw-line-text").first.fill(LONG * 4)
    studio.click("#vw-speak")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    os.kill(app.runtime_pid, signal.SIGKILL)
    line = studio.locator("#vw-script-lines > li").first
    expect(line).to_contain_text("The connection to the runtime was lost.")
    expect(line).to_contain_text("The connection is back: speak again.", timeout=60_000)
    seed = line.locator(".vw-line-seed").input_value()
    offer(studio).click()
    expect(offer(studio)).to_have_count(0)
    await_sound_of_script(studio)
    assert line.locator(".vw-line-seed").input_value() == seed != ""
    studio.click("#vw-stop")


def test_script_playback_interrupted_by_reload_continues_at_the_same_line(studio: Page) -> None:
    enter(studio, "script")
    studio.locator(".vw-line-text").nth(1).fill(LONG)
    studio.locator(".vw-line-text").nth(1).focus()
    studio.keyboard.press("Control+Enter")
    await_sound_of_script(studio)
    second = studio.locator("#vw-script-lines > li").nth(1)
    expect(second).to_have_attribute("data-sounding", "")
    name = studio.input_value("#vw-script-name")
    enter(studio, "library")
    reload(studio)
    toasts = studio.locator("#vw-toasts")
    expect(toasts).to_contain_text(f"The reading of “{name}” was interrupted at line 2.")
    studio.select_option("#vw-language", "zh")
    expect(toasts).to_contain_text(f"“{name}”的朗读在第 2 行被中断了。")
    studio.select_option("#vw-language", "en")
    more = studio.get_by_role("button", name="Continue", exact=True)
    more.click()
    await_sound_of_script(studio)
    expect(second).to_have_attribute("data-sounding", "")
    expect(more).to_have_count(0)
    studio.click("#vw-stop")
    reload(studio)
    expect(studio.locator("#vw-script-lines > li").first).to_be_visible()
    expect(more).to_have_count(0)


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_take_not_stored_because_of_reload_gets_a_retry_offer(studio: Page, room: str) -> None:
    asked = configs(studio)
    cut_off_in(studio, room)
    with studio.expect_response(TAKES):
        offer(studio).click()
    expect(studio.locator("#vw-star")).to_be_visible()
    assert asked[0] == asked[1], "the recording too"
    assert ("ref_audio" in asked[1]) is (room == "clone")


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_take_stored_despite_reload_is_shown_in_the_player_bar(studio: Page, room: str) -> None:
    enter_with_voice(studio, room)
    hold(studio, passed=0)
    studio.fill("#vw-text", "It was kept before the page heard of it.")
    studio.click("#vw-speak")
    record = kept(studio)
    reload(studio)
    expect_in_dock(studio, record)


# Script that returns the positions of some elements of the Speak room.
PLACES = """
() => Object.fromEntries(
  ['#vw-text', '#vw-text-count', '#vw-shared-variation', '.vw-footer', '#vw-stage'].map((place) => {
    const { top, bottom } = document.querySelector(place).getBoundingClientRect();
    return [place, [top, bottom]];
  }),
)
"""


@pytest.fixture
def offered(open_studio: OpenStudio) -> Callable[..., Page]:
    """Return a function that opens a window with the offer to retry an interrupted take."""

    def cut_off(width: int = 1200, height: int = 860) -> Page:
        page = open_studio(viewport={"width": width, "height": height}, has_own_window=True)
        hold(page)
        page.fill("#vw-text", "It was whole and on its way.")
        page.click("#vw-speak")
        await_held(page, 1)
        page.clock.install()
        reload(page)
        expect(offer(page)).to_be_visible()
        return page

    return cut_off


def test_retry_offer_does_not_time_out(offered: Callable[..., Page]) -> None:
    page = offered()
    page.clock.fast_forward("05:00")
    expect(offer(page)).to_be_visible()
    page.get_by_role("button", name="Discard").click()
    expect(offer(page)).to_have_count(0)


@pytest.mark.parametrize("window", [(1366, 768), (360, 780)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_retry_offer_causes_no_layout_shift_and_covers_no_control(
    offered: Callable[..., Page], window: tuple[int, int]
) -> None:
    page = offered(*window)
    page.fill("#vw-text", "A text that is longer than its field is high. " * 40)
    page.evaluate("document.querySelector('.vw-rooms').scrollTop = 0")
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    notice, dock = (page.locator(place).bounding_box() for place in (".vw-stays", "#vw-stage"))
    assert notice
    assert dock
    assert notice["y"] + notice["height"] <= dock["y"]
    while_told = page.evaluate(PLACES)
    assert page.evaluate(COVERED, "speakers") == []
    link = page.locator(".vw-footer a")
    link.scroll_into_view_if_needed()
    assert is_in_view(page, ".vw-footer a")
    page.get_by_role("button", name="Discard").click()
    expect(offer(page)).to_have_count(0)
    page.evaluate("document.querySelector('.vw-rooms').scrollTop = 0")
    assert page.evaluate(PLACES) == while_told


def test_retry_offer_follows_a_change_of_the_page_language(offered: Callable[..., Page]) -> None:
    page = offered()
    page.select_option("#vw-language", "zh")
    notice = page.locator(".vw-stays")
    expect(notice).to_contain_text("朗读被中断了。")
    named = notice.get_by_role("button").evaluate_all("all => all.map((one) => one.ariaLabel ?? one.textContent)")
    assert named == ["再次朗读", "不再朗读"]
    with page.expect_response("**/studio/me"):  # Restore the stored language for other tests.
        page.select_option("#vw-language", "en")
    expect(offer(page)).to_be_visible()


def test_retry_offer_disappears_when_another_take_starts(offered: Callable[..., Page]) -> None:
    page = offered()
    page.click("#vw-speak")
    expect(offer(page)).to_have_count(0)


def test_retry_offer_disappears_when_its_room_is_left(offered: Callable[..., Page]) -> None:
    page = offered()
    enter(page, "script")
    expect(offer(page)).to_have_count(0)
    enter(page, "speakers")
    expect(offer(page)).to_have_count(0)


def test_interrupted_design_takes_get_retry_offers_in_their_original_cards(studio: Page) -> None:
    asked = configs(studio)
    enter(studio, "design")
    make_three(studio)
    hold(studio)
    studio.click("#vw-speak")
    expect_set(studio, 2)
    await_held(studio, 3)
    reload(studio)
    expect_set(studio, 1)
    with newly_kept(studio, 3):
        offer(studio).click()
        expect_set(studio, 2)
    expect(studio.locator(".vw-design-set")).to_have_count(2)
    first, again = ({one["seed"] for one in three} for three in (asked[-6:-3], asked[-3:]))
    assert first == again == {*seeds(studio)}, "whichever socket opens first"


def test_stored_design_take_is_restored_and_missing_takes_get_a_retry_offer(studio: Page) -> None:
    asked = configs(studio)
    enter(studio, "design")
    hold(studio, passed=1)
    studio.click("#vw-speak")
    expect_set(studio, 1)
    await_held(studio, 3)
    wanted = [one["seed"] for one in asked]
    record = kept(studio)
    reload(studio)
    expect(newest(studio).locator("article")).to_have_count(1)
    letter = LETTERS[wanted.index(record["seed"])]
    expect_state(studio, letter, "done")
    with newly_kept(studio, 2):
        offer(studio).click()
        expect_state(studio, LETTERS, "done")
    assert len(asked) == 5
    assert seeds(studio) == wanted
    assert sum(take["seed"] in wanted for take in takes(studio)) == 3, "none twice"


def test_interrupted_takes_with_a_reference_are_retried_with_the_same_reference(studio: Page) -> None:
    asked = configs(studio)
    enter(studio, "design")
    make_three(studio)
    hold(studio)
    act(studio, "B", "closer")
    expect_set(studio, 2)
    await_held(studio, 3)
    reload(studio)
    expect_set(studio, 1)
    with newly_kept(studio, 3):
        offer(studio).click()
        expect_set(studio, 2)
    again, first = (sorted(three, key=itemgetter("seed")) for three in (asked[-3:], asked[-6:-3]))
    assert again == first, "the recording too, whichever socket opens first"
    assert asked[-1]["ref_audio"]
    expect(newest(studio)).to_contain_text("from 1B")


def test_clone_gets_no_retry_offer_if_its_recording_cannot_be_identified(open_studio: OpenStudio, app: App) -> None:
    neighbours = open_studio(url=f"http://{INSECURE_HOST}:{app.port}")
    assert neighbours.evaluate("crypto.subtle === undefined")
    cut_off_in(neighbours, "clone")
    expect(offer(neighbours)).to_have_count(0)


def test_interrupted_clone_is_not_retried_with_a_different_recording_of_equal_length(studio: Page) -> None:
    cut_off_in(studio, "clone")
    studio.set_input_files("#vw-clone-file", {**wav(3.0, seed=10), "name": "another.wav"})
    expect(studio.locator("#vw-clone-name")).to_have_text("another.wav")
    offer(studio).click()
    expect(studio.get_by_text("is no longer available")).to_be_visible()
    expect(offer(studio), "the recording may come back").to_be_visible()


def test_take_from_another_recording_of_equal_length_is_not_mistaken_for_the_interrupted_take(
    studio: Page,
) -> None:
    asked = configs(studio)
    enter(studio, "clone")
    clone_from(studio, wav(3.0), "The boat came back in the evening.")
    fix_seed(studio, 5)
    studio.fill("#vw-text", "Two people say the same.")
    with studio.expect_response(TAKES):
        studio.click("#vw-speak")
    clone_from(studio, {**wav(3.0, seed=10), "name": "another.wav"}, "The boat came back in the evening.")
    await_recording(studio, "another.wav")
    hold(studio)
    studio.click("#vw-speak")
    await_held(studio, 1)
    reload(studio)
    expect(studio.locator("#vw-clone-name")).to_have_text("another.wav")
    with studio.expect_response(TAKES):
        offer(studio).click()
    first, cut_off, again = asked
    assert first.pop("ref_audio") != cut_off["ref_audio"] == again["ref_audio"]
    assert first == {field: value for field, value in cut_off.items() if field != "ref_audio"}, "all else is the same"
