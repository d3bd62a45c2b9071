"""Tests for details of controls: states, order, touch targets, printing and numbers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import FloatRect, Locator, Page, Route, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import make_three
from tests.browser.steps import await_end, await_sound, enter, history_row, kept_take, picker, reading, wav
from tests.browser.test_full_store import keep_voice
from tests.support.app import App

pytestmark = pytest.mark.browser

LONG = "The boat came back in the evening, and nobody on the quay had expected it so soon. " * 9
MIN_TARGET_PX = 44
POLLED_MS = 20_000  # Time for changes of another device to appear, on a busy machine.
TARGETS = (
    "button, a, select, summary, label:is(.vw-button, .vw-check), .vw-trim-handle,"
    " input:not([type=checkbox], [type=radio], .vw-offscreen)"
)
SMALL = f"""
() => [...document.querySelectorAll('#vw :is({TARGETS})')]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height > 0)
  .filter((each) => Math.min(each.offsetWidth, each.offsetHeight) < {MIN_TARGET_PX})
  .map((each) => each.id || each.className || each.textContent.trim())
"""


def test_style_suggestion_is_marked_as_pressed_and_a_second_press_removes_it(studio: Page) -> None:
    chips = studio.locator("#vw-speakers-chips button")
    chips.nth(1).click()
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(studio.locator("#vw-speakers-chips [aria-pressed=true]")).to_have_count(1)
    studio.fill("#vw-speakers-instruct", "As if in a hurry")
    expect(studio.locator("#vw-speakers-chips [aria-pressed=true]")).to_have_count(0)
    chips.nth(1).click()
    chips.nth(1).click()
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("")


def test_script_room_has_one_primary_button(studio: Page) -> None:
    enter(studio, "script")
    expect(studio.locator(".vw-primary:visible")).to_have_count(1)


def test_script_room_ignores_clicks_before_a_script_is_open(open_studio: OpenStudio, app: App) -> None:
    held: list[Route] = []
    page = open_studio(url="about:blank", await_ready=False)
    page.route("**/studio/scripts", lambda route: held.append(route))
    page.goto(f"{app.url}/#/script", wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for()
    for control in ("#vw-script-files", "#vw-script-add"):
        box = page.locator(control).bounding_box()
        assert box
        page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert len(held) == 1
    expect(page.locator("#vw-script-export")).to_be_hidden()
    held[0].continue_()
    expect(page.locator("#vw-script-lines > li").first).to_be_visible()
    page.click("#vw-script-files")
    expect(page.locator("#vw-script-export")).to_be_visible()


def test_touch_targets_are_large_enough_for_fingers_in_every_room(open_studio: OpenStudio, no_voices: None) -> None:
    page = open_studio(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    keep_voice(page, "Peter")
    kept_take(page, "Hi.")
    page.evaluate("document.querySelector('#vw-shared-variation').open = true")

    def check(state: str) -> None:
        assert page.evaluate(SMALL) == [], state
        page.screenshot(path=SCREENSHOTS / f"touch-{state}.png")

    check("speakers")
    enter(page, "design")
    make_three(page)
    expect(page.locator(".vw-design-take-wave[data-icon=play]").first).to_be_visible()
    check("design")
    enter(page, "clone")
    check("clone")
    page.set_input_files("#vw-clone-file", wav(4.0))
    expect(page.locator("#vw-clone-use")).to_be_enabled()
    check("clone-recording")
    page.click("#vw-clone-use")
    check("clone-transcript")
    page.fill("#vw-clone-transcript", "The boat came back in the evening.")
    page.click("#vw-clone-words-done")
    check("clone-keep")
    enter(page, "script")
    page.locator(".vw-line-open").first.click()
    check("script")
    page.click("#vw-script-shelf > summary")
    check("script-menu")
    page.click("#vw-script-shelf > summary")
    page.click("#vw-script-files")
    check("script-export")
    page.keyboard.press("Escape")
    enter(page, "library")
    page.locator(".vw-take-open").first.click()
    page.click("#vw-takes-select")
    check("library-takes")
    page.click(".vw-library-turn [data-half=voices]")
    page.locator(".vw-voice-open").first.click()
    check("library-voices")
    enter(page, "host")
    check("host")


def test_preview_of_a_pronunciation_does_not_stop_playback(studio: Page) -> None:
    studio.fill("#vw-text", LONG)
    studio.click("#vw-speak")
    await_sound(studio)
    length = studio.text_content("#vw-caption")
    studio.click("#vw-text-said")
    studio.locator(".vw-word input").nth(0).fill("Nguyen")
    studio.locator(".vw-word input").nth(1).fill("Win")
    studio.locator(".vw-word-hear").first.click()
    studio.wait_for_timeout(3000)  # The word is generated and played during this time.
    expect(studio.locator("#vw-play")).to_have_attribute("data-icon", "pause")
    studio.click("#vw-pronunciation-close")
    expect(studio.locator("#vw-play")).to_have_attribute("data-icon", "pause")
    assert studio.text_content("#vw-caption") == length
    studio.keyboard.press("Escape")


def test_new_voices_appear_on_window_focus_in_the_order_of_their_numbers(
    studio: Page, app: App, no_voices: None
) -> None:
    for number in (10, 2, 1):
        data = {"name": f"Voice {number}", "consent": "Yes.", "ref_text": "A few words."}
        files = {"audio_sample": wav(4.0)["buffer"]}
        httpx.post(f"{app.url}/v1/audio/voices", data=data, files=files, trust_env=False).raise_for_status()
    studio.evaluate("dispatchEvent(new Event('focus'))")
    names = picker(studio).locator(".vw-pick-name > span:first-child")
    expect(names.nth(2)).to_have_text("Voice 10")
    assert names.all_text_contents()[:3] == ["Voice 1", "Voice 2", "Voice 10"]


def place_of(element: Locator) -> FloatRect:
    place = element.bounding_box()
    assert place is not None
    return place


def test_error_of_an_empty_text_is_shown_at_the_field(studio: Page) -> None:
    studio.fill("#vw-text", "")
    expect(studio.get_by_placeholder("Write or paste a text to speak")).to_be_visible()
    studio.click("#vw-speak")
    error = studio.locator("#vw-text-error")
    expect(error).to_have_text("Write something to say first.")
    assert place_of(error)["y"] < place_of(studio.locator(".vw-text-facts"))["y"]


def test_last_line_of_a_long_text_does_not_fade_while_it_is_typed(studio: Page) -> None:
    studio.fill("#vw-text", "The harbour was quiet. " * 30)
    studio.focus("#vw-text")
    studio.keyboard.press("Control+End")
    studio.keyboard.type("The end of the text.")
    expect(studio.locator("#vw-text")).to_have_attribute("data-before", "")
    expect(studio.locator("#vw-text")).not_to_have_attribute("data-behind", "")
    studio.keyboard.press("Control+Home")
    expect(studio.locator("#vw-text")).to_have_attribute("data-behind", "")


def test_related_settings_of_a_script_line_are_in_one_row(script: Page) -> None:
    script.set_viewport_size({"width": 1280, "height": 860})
    line = script.locator("#vw-script-lines > li").first
    line.locator(".vw-line-open").click()
    lock, seed, copy, remove = (
        place_of(line.locator(f".vw-line-{part}")) for part in ("lock", "seed", "copy", "remove")
    )
    assert seed["y"] <= lock["y"] < seed["y"] + seed["height"]
    assert remove["y"] == copy["y"]


def test_take_from_another_window_appears_when_the_window_gets_the_focus(open_studio: OpenStudio) -> None:
    library = open_studio()
    enter(library, "library")
    other = open_studio()
    kept_take(other, "Made elsewhere.")
    library.evaluate("dispatchEvent(new Event('focus'))")
    expect(library.locator("#vw-takes-list .vw-take", has_text="Made elsewhere.").first).to_be_visible()


def test_changes_of_another_tab_appear_without_focus(studio: Page, app: App, no_voices: None) -> None:
    other = studio.context.new_page()
    try:
        other.goto(studio.url, wait_until="domcontentloaded")
        other.locator("#vw-speak:enabled").wait_for()
        peter = keep_voice(other, "Peter")
        # The voice was stored by a request of the test and not of a tab, so this tab must load the voices again.
        other.evaluate("dispatchEvent(new Event('focus'))")
        enter(studio, "library")
        voice = studio.locator(f"#vw-voices-list [data-voice='{peter}']")
        expect(voice).to_be_visible()
        kept_take(other, "Made in the other tab.")
        expect(history_row(studio, "Made in the other tab.")).to_be_visible()
        enter(other, "library")
        other.locator(f"#vw-voices-list [data-voice='{peter}'] .vw-voice-open").click()
        other.locator(f"#vw-voices-list [data-voice='{peter}'] [data-do=remove]").click()
        expect(voice).to_have_count(0)
        enter(studio, "speakers")
        studio.fill("#vw-text", "Ask Nguyen.")
        other.click("#vw-library-pronunciation")
        other.keyboard.type("Nguyen")
        other.keyboard.press("Enter")
        other.keyboard.type("Win")
        other.keyboard.press("Tab")
        expect(studio.locator("#vw-text-said")).to_have_text("Pronunciation (1 here)")
    finally:
        httpx.put(f"{app.url}/studio/pronunciation", json={"words": []}, trust_env=False).raise_for_status()
        other.close()


def test_displayed_time_to_audible_audio_is_not_less_than_time_to_first_audio(open_studio: OpenStudio) -> None:
    # Fake clock of an audio output that has stalled for several seconds.
    page = open_studio(
        script="AudioContext.prototype.getOutputTimestamp = function () {"
        " return { contextTime: this.currentTime, performanceTime: 1 }; };"
    )
    page.fill("#vw-text", "Hi.")
    page.click("#vw-speak")
    await_sound(page)
    await_end(page)
    assert reading(page, "audible") == reading(page, "ttfa")


def test_printed_script_has_its_lines_and_no_controls(studio: Page) -> None:
    enter(studio, "script")
    studio.emulate_media(media="print")
    text, number = studio.locator(".vw-line-text").first, studio.locator(".vw-line-grip").first
    expect(text).to_be_visible()
    expect(number).to_be_visible()
    expect(number).to_have_text("1")
    text.focus()
    expect(text).to_have_css("box-shadow", "none")
    controls = ("#vw-stage", "#vw-script-files", "#vw-tab-speakers", ".vw-line-play >> nth=0")
    for control in (*controls, "#vw-script-saved", "#vw-script-total"):
        expect(studio.locator(control)).to_be_hidden()


def test_export_over_the_server_limit_is_refused_and_offered_by_chapter(
    open_studio: OpenStudio,
) -> None:
    def limited(route: Route) -> None:
        me: dict[str, Any] = route.fetch().json()
        me["features"]["export"]["max_s"] = 8
        route.fulfill(json=me)

    page = open_studio(await_ready=False)
    page.route("**/studio/me", limited)
    page.reload()
    page.locator("#vw-speak:enabled").wait_for()
    enter(page, "script")
    page.click("#vw-script-files")
    expect(page.locator("#vw-script-export-error")).to_contain_text("this server exports at most 8")
    expect(page.locator("#vw-script-go")).to_be_disabled()


def test_changes_of_another_device_appear_without_focus(open_studio: OpenStudio, app: App, no_voices: None) -> None:
    desktop = open_studio()
    phone = open_studio(viewport={"width": 390, "height": 844})
    enter(phone, "library")
    listed = phone.locator("#vw-voices-list .vw-voice-name")
    phone.wait_for_load_state("networkidle")
    polled = [phone.wait_for_event("requestfinished", lambda request: "/studio/" in request.url) for _ in range(3)]
    assert {request.url for request in polled} == {f"{app.url}/studio/revision"}, "unchanged lists are not loaded"
    peter = keep_voice(desktop, "Peter")
    expect(listed).to_have_text(["Peter"], timeout=POLLED_MS)
    desktop.request.patch(f"{app.url}/v1/audio/voices/{peter}", data={"name": "Paul"})
    expect(listed).to_have_text(["Paul"], timeout=POLLED_MS)
    kept_take(desktop, "Made on the desktop.")
    expect(history_row(phone, "Made on the desktop.")).to_have_count(1, timeout=POLLED_MS)
    desktop.request.put(f"{app.url}/studio/scripts/letter", data={"name": "A letter", "lines": []})
    expect(phone.locator("#vw-takes-list", has_text="A letter")).to_have_count(1, timeout=POLLED_MS)
    enter(phone, "speakers")
    expect(picker(phone).get_by_text("Paul", exact=True)).to_have_count(1)
    phone.context.set_offline(True)
    desktop.request.delete(f"{app.url}/studio/voices/{peter}")
    phone.context.set_offline(False)
    expect(picker(phone).get_by_text("Paul", exact=True)).to_have_count(0, timeout=POLLED_MS)
