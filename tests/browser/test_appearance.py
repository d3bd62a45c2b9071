"""Tests for the page's appearance and accessibility: themes, languages and first use."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import OpenStudio
from tests.browser.design_steps import make_three
from tests.browser.steps import (
    await_sound,
    copy_code,
    enter,
    expect_speaker,
    kept_take,
    picker,
    reading,
    reload_to_speak,
    speak_whole,
    vary,
    wav,
)

pytestmark = pytest.mark.browser

ROOMS = ("speakers", "design", "clone", "script", "library", "host")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_no_accessibility_violation_in_any_room(open_studio: OpenStudio, scheme: str) -> None:
    page = open_studio(color_scheme=scheme)
    kept_take(page, "Hi.")
    axe, found = Axe(), []

    def look(place: str, context: str = "#vw") -> None:
        for each in axe.run(page, context=context).response["violations"]:
            found.append((place, each["id"], [node["html"] for node in each["nodes"]][:3]))

    for room in ROOMS:
        enter(page, room)
        if room == "design":
            make_three(page)
        if room == "library":
            page.locator(".vw-take-open").first.click()
        look(room)
        if room == "script":
            for opener in ("#vw-script-files", ".vw-line-voice", "#vw-script-shelf summary"):
                page.locator(opener).first.click()
                look(f"{room} {opener}")
                page.keyboard.press("Escape")
    for opener in ("#vw-to-sound", "#vw-save"):
        page.click(opener)
        look(opener)
        page.keyboard.press("Escape")
    copy_code(page)
    look("code", "#vw-code")
    assert found == [], found


def names(page: Page) -> Locator:
    """Return the elements with the names of all voices in the Speak room's picker."""
    return picker(page).locator(".vw-pick-name > span:first-child")


def test_first_visit_needs_one_click_to_hear_audio(studio: Page) -> None:
    expect_speaker(studio, "angus")
    assert studio.input_value("#vw-text").startswith("The kettle has just boiled.")
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-stop")


def test_double_click_on_speak_does_not_stop_the_speech(studio: Page) -> None:
    studio.dblclick("#vw-speak")
    await_sound(studio)
    studio.click("#vw-stop")
    expect(studio.locator("#vw-stop")).to_be_disabled()


def test_speaker_sample_plays_with_one_click_and_is_cached(studio: Page) -> None:
    sent: list[str | bytes] = []
    studio.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    studio.reload(wait_until="domcontentloaded")
    expect(names(studio)).to_have_text(["Angus", "Clara", "Owen", "Iris", "Nora", "Reed", "Mia", "Bruno"])
    expect(picker(studio).locator(".vw-pick").first.locator(".vw-tag")).to_have_text(["English", "American"])
    text = studio.input_value("#vw-text")
    studio.click("[aria-label='Hear Angus']")
    await_sound(studio)
    expect(studio.locator("#vw-stop")).to_be_disabled(timeout=60_000)
    expect(studio.locator("#vw-caption")).to_have_text("Angus, sample")
    assert sent, "the first time it is spoken"
    sent.clear()
    studio.click("[aria-label='Hear Angus']")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    studio.keyboard.press("Escape")
    assert sent == []
    expect(studio.locator("#vw-text")).to_have_value(text)
    expect_speaker(studio, "angus")
    expect(studio.locator("#vw-star"), "a sample is not kept").to_be_hidden()


def test_published_speakers_have_portraits_and_unknown_speakers_have_a_plain_row(studio: Page) -> None:
    published = ["serena", "vivian", "uncle_fu", "ryan", "aiden", "ono_anna", "sohee", "eric", "dylan"]

    def another(route: Route) -> None:
        listing = route.fetch().json()
        route.fulfill(json={**listing, "data": [{**listing["data"][0], "speakers": ["stranger_2", *published]}]})

    studio.route("**/v1/models", another)
    reload_to_speak(studio)
    expect(names(studio)).to_have_text(
        [
            "Vivian",
            "Serena",
            "Uncle Fu",
            "Dylan",
            "Eric",
            "Ryan",
            "Aiden",
            "Ono Anna",
            "Sohee",
            "Stranger 2",
        ]
    )
    expect_speaker(studio, "vivian")
    rows = picker(studio).locator(".vw-pick")
    expect(rows.nth(3).locator(".vw-tag")).to_have_text(["Chinese", "Beijing"])
    expect(rows.last).to_contain_text("A speaker of demo-voice")


def luminance(page: Page) -> float:
    channels = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)")
    return float(sum(channels[:3]) / 765)


def test_theme_follows_the_system_until_the_user_chooses_one(open_studio: OpenStudio) -> None:
    page = open_studio(color_scheme="light")
    assert luminance(page) > 0.9
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body.dark")).to_have_count(1)
    assert luminance(page) < 0.15
    page.click("#vw-theme")
    expect(page.locator("#vw-theme")).to_have_attribute("aria-label", "Theme: light")
    assert luminance(page) > 0.9
    with page.expect_response("**/studio/me"):
        page.click("#vw-theme")
    page.emulate_media(color_scheme="light")
    reload_to_speak(page)
    expect(page.locator("#vw-theme")).to_have_attribute("aria-label", "Theme: dark")
    assert luminance(page) < 0.15
    with page.expect_response("**/studio/me"):
        page.click("#vw-theme")  # The studio stores the theme, so it must be restored for later tests.


# Script that returns true if a pixel of the canvas has the page's current colour with this CSS name.
COLOURED = """
([selector, name]) => {
  const canvas = document.querySelector(selector);
  const wanted = new OffscreenCanvas(1, 1).getContext('2d');
  wanted.fillStyle = getComputedStyle(canvas).getPropertyValue(name);
  wanted.fillRect(0, 0, 1, 1);
  const [red, green, blue] = wanted.getImageData(0, 0, 1, 1).data;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return data.some((_, at) => at % 4 === 0 && data[at] === red && data[at + 1] === green && data[at + 2] === blue);
}
"""


def test_waveforms_are_recoloured_when_the_theme_changes(open_studio: OpenStudio) -> None:
    page = open_studio(color_scheme="light")
    speak_whole(page, "Hi.")
    enter(page, "clone")
    page.set_input_files("#vw-clone-file", wav(3.0))
    page.locator("#vw-clone-use").wait_for()
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        for place in (["#vw-wave", "--vw-accent"], ["#vw-clone-trim canvas", "--vw-soft"]):
            page.wait_for_function(COLOURED, arg=place)


def test_page_switches_to_chinese_and_remembers_it(studio: Page) -> None:
    with studio.expect_response("**/studio/me"):
        studio.select_option("#vw-language", "zh")
    expect(studio.locator("#vw-speak")).to_have_text("朗读")
    expect(studio.locator("#vw-status")).to_have_text("内置声音")
    expect(studio.locator("html")).to_have_attribute("lang", "zh")
    expect(picker(studio).locator(".vw-pick").first).to_contain_text("英语")
    expect(studio.locator("#vw-speakers-language option")).to_have_text(["自动", "英语"])
    reload_to_speak(studio)
    expect(studio.locator("#vw-tab-library")).to_have_text("声音库")
    studio.fill("#vw-text", " ")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-text-error")).to_have_text("请先写下要说的话。")
    with studio.expect_response("**/studio/me"):
        studio.select_option("#vw-language", "en")
    expect(studio.locator("#vw-speak")).to_have_text("Speak")


def test_chinese_browser_gets_the_chinese_page(open_studio: OpenStudio) -> None:
    page = open_studio(locale="zh-CN", await_ready=False)
    known = {"preferences": {"language": None, "theme": None}, "features": {}}
    page.route("**/studio/me", lambda route: route.fulfill(json=known))
    page.reload(wait_until="domcontentloaded")
    expect(page.locator("#vw-speak")).to_have_text("朗读")


def test_speaker_can_be_selected_and_played_by_keyboard_only(studio: Page) -> None:
    studio.focus("#vw-speakers-picker input")
    studio.keyboard.press("ArrowDown")
    studio.keyboard.press("ArrowDown")
    studio.keyboard.press("Enter")
    expect_speaker(studio, "clara")
    studio.keyboard.press("Control+Enter")
    await_sound(studio)
    assert reading(studio, "caption") == "Clara"
    studio.keyboard.press("Escape")
    expect(studio.locator("#vw-stop")).to_be_disabled()
    studio.focus("#vw-tab-speakers")
    studio.keyboard.press("ArrowRight")
    expect(studio.locator("#vw-room-design")).to_be_visible()


def test_two_open_pages_do_not_affect_each_other(open_studio: OpenStudio) -> None:
    first, other = open_studio(), open_studio()
    for page in (first, other):
        page.fill("#vw-text", 8 * "The boat came back in the evening. ")
    first.click("#vw-speak")
    other.click("#vw-speak")
    await_sound(first)
    await_sound(other)
    first.click("#vw-stop")
    expect(other.locator("#vw-stop"), "what the other hears goes on").to_be_enabled()
    other.click("#vw-stop")


# Script that returns the number of shared settings in each row, from top to bottom.
IN_ROWS = """
() => {
  const all = [...document.querySelectorAll('.vw-variation-in > :not([hidden])')];
  const rows = Map.groupBy(all, (one) => Math.round(one.getBoundingClientRect().bottom));
  return [...rows.values()].map((row) => row.length);
}
"""


@pytest.mark.parametrize(
    ("room", "width", "rows"), [("speakers", 1280, [2, 2]), ("design", 1280, [4]), ("speakers", 390, [2, 2])]
)
def test_seed_and_sampling_fields_are_aligned_in_rows(
    open_studio: OpenStudio, room: str, width: int, rows: list[int]
) -> None:
    page = open_studio(viewport={"width": width, "height": 860})
    enter(page, room)
    vary(page)
    assert page.evaluate(IN_ROWS) == rows


def test_language_field_has_a_visible_label(studio: Page) -> None:
    label = studio.locator("#vw-room-speakers label[for=vw-speakers-language]")
    box = label.bounding_box()
    assert box is not None
    assert box["width"] > 20
