"""Tests that a reload, Back, Stop or a suggestion does not lose the text of the user."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenStudio
from tests.browser.design_steps import LETTERS, act, card, expect_state, make_three, menu, seeds
from tests.browser.script_steps import enter_script, line, new_script, text_of
from tests.browser.steps import (
    KEEPS,
    await_end,
    await_recording,
    await_sound,
    choose,
    clone_from,
    enter,
    expect_speaker,
    history_row,
    reload,
    try_out,
    vary,
    wav,
)
from tests.browser.wire import sound_of
from tests.support.app import App

pytestmark = pytest.mark.browser

DRAFT_HAS_SIX_TAKES = """
() => JSON.parse(localStorage['voicewright.draft.design']).sets.flatMap(({ takes }) => takes).length === 6
"""

LONG = "The boat came back in the evening, and nobody on the quay had expected it so soon. " * 3


def await_draft(page: Page, words: str) -> None:
    """Wait until the draft with this text is saved, so that a new tab would load the draft."""
    kept = "(words) => Object.values(localStorage).some((draft) => draft.includes(words))"
    page.wait_for_function(kept, arg=words)


# --- Tests of URLs that open a room.


def test_browser_back_returns_to_the_previous_room(app: App, studio: Page) -> None:
    assert studio.url.rstrip("/") == app.url
    enter(studio, "design")
    assert studio.url.endswith("/#/design")
    enter(studio, "library")
    studio.go_back()
    expect(studio.locator("#vw-room-design")).to_be_visible()
    studio.go_back()
    expect(studio.locator("#vw-room-speakers")).to_be_visible()
    expect(studio.locator("#vw-tab-speakers")).to_have_attribute("aria-selected", "true")
    studio.go_forward()
    expect(studio.locator("#vw-room-design")).to_be_visible()
    reload(studio)
    expect(studio.locator("#vw-room-design")).to_be_visible()
    expect(studio.locator("#vw-room-speakers")).to_be_hidden()
    studio.keyboard.press("g")
    studio.keyboard.press("s")
    expect(studio.locator("#vw-room-speakers")).to_be_visible()
    assert studio.url.endswith("/#/speak")
    studio.keyboard.press("?")
    sheet = studio.get_by_role("dialog", name="Keys")
    expect(sheet).to_contain_text("Play and pause")
    studio.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    studio.focus("#vw-text")
    studio.keyboard.type("g d?")
    expect(sheet).to_be_hidden()
    expect(studio.locator("#vw-room-speakers")).to_be_visible()


def test_url_opens_its_room_and_an_unknown_url_opens_the_first_room(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(url=f"{app.url}/#/library", await_ready=False)
    expect(page.locator("#vw-room-library")).to_be_visible()
    page.evaluate("location.hash = '#/speakers'")  # Former name of the room in URLs.
    expect(page.locator("#vw-room-speakers")).to_be_visible()
    page.evaluate("location.hash = '#/clone'")
    expect(page.locator("#vw-room-clone")).to_be_visible()
    page.evaluate("location.hash = '#/nowhere'")
    expect(page.locator("#vw-room-speakers")).to_be_visible()


def test_browser_back_closes_an_open_sheet_before_it_changes_the_room(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 390, "height": 844})
    enter(page, "library")
    enter(page, "speakers")
    for button, sheet in (("#vw-speakers-voice", "#vw-voice-sheet"), ("#vw-text-said", "#vw-pronunciation")):
        page.click(button)
        expect(page.locator(sheet)).to_be_visible()
        page.go_back()
        expect(page.locator(sheet)).to_be_hidden()
        page.wait_for_url("**/#/speak")
        expect(page.locator("#vw-room-speakers")).to_be_visible()
    page.go_back()
    expect(page.locator("#vw-room-library")).to_be_visible()


def test_browser_forward_closes_an_open_sheet_and_changes_the_room(studio: Page) -> None:
    enter(studio, "library")
    enter(studio, "design")
    studio.go_back()
    for address, room in (("#/design", "design"), ("#/clone", "clone")):
        studio.keyboard.press("?")
        expect(studio.locator("#vw-shortcuts")).to_be_visible()
        if room == "design":
            studio.go_forward()
        else:
            studio.evaluate("(address) => { location.hash = address; }", address)
        expect(studio.locator("#vw-shortcuts")).to_be_hidden()
        studio.wait_for_url(f"**/{address}")
        expect(studio.locator(f"#vw-room-{room}")).to_be_visible()
    studio.go_back()
    expect(studio.locator("#vw-room-design")).to_be_visible()


def test_browser_back_returns_to_the_previous_script(app: App, studio: Page) -> None:
    enter_script(studio)
    addresses = []
    for name in ("First", "Second"):
        new_script(studio, name)
        text_of(studio, 1).fill(f"{name} words.")
        expect(studio.locator("#vw-script-saved")).to_contain_text("aved")
        addresses.append(studio.url)
    assert len(set(addresses)) == 2
    assert "/#/script/" in addresses[1]
    studio.go_back()
    expect(text_of(studio, 1)).to_have_value("First words.")
    assert studio.url == addresses[0]
    reload(studio)
    expect(text_of(studio, 1)).to_have_value("First words.")
    studio.go_forward()
    expect(text_of(studio, 1)).to_have_value("Second words.")
    studio.click("#vw-tab-library")
    studio.click("#vw-tab-script")
    expect(text_of(studio, 1)).to_have_value("Second words.")
    studio.wait_for_url(addresses[1])
    other = studio.context.new_page()
    other.goto(addresses[0], wait_until="domcontentloaded")
    expect(text_of(other, 1)).to_have_value("First words.")
    other.evaluate("location.hash = '#/script/nothing'")
    expect(other.locator("#vw-toasts")).to_contain_text("This script does not exist")
    other.wait_for_url(addresses[0])
    other.close()


# --- Tests of two tabs with the same page.


def test_each_tab_keeps_its_own_draft_and_a_new_tab_copies_the_latest_draft(app: App, studio: Page) -> None:
    studio.fill("#vw-text", "Mine, in the first tab.")
    await_draft(studio, "Mine, in the first tab.")
    other = studio.context.new_page()
    other.goto(app.url, wait_until="domcontentloaded")
    expect(other.locator("#vw-text")).to_have_value("Mine, in the first tab.")
    other.fill("#vw-text", "Yours, in the second.")
    await_draft(other, "Yours, in the second.")
    reload(studio)
    expect(studio.locator("#vw-text")).to_have_value("Mine, in the first tab.")
    reload(other)
    expect(other.locator("#vw-text")).to_have_value("Yours, in the second.")
    other.close()


def test_recording_from_another_tab_is_not_used_in_this_tab(app: App, studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", {**wav(3.0), "name": "mine.wav"})
    await_recording(studio, "mine.wav")
    other = studio.context.new_page()
    other.goto(f"{app.url}/#/clone", wait_until="domcontentloaded")
    expect(other.locator("#vw-clone-name")).to_have_text("mine.wav")
    other.set_input_files("#vw-clone-file", {**wav(4.0), "name": "yours.wav"})
    await_recording(other, "yours.wav")
    reload(other)
    expect(other.locator("#vw-clone-name")).to_have_text("yours.wav")
    other.close()
    reload(studio)
    expect(studio.locator("#vw-clone-ways")).to_be_visible()


# --- Tests of a reload of the page.


@pytest.mark.quick
def test_reload_keeps_text_speaker_and_style(studio: Page) -> None:
    choose(studio, "Clara")
    studio.select_option("#vw-speakers-language", "english")
    studio.fill("#vw-text", "Mine, and not to be lost.")
    studio.fill("#vw-speakers-instruct", "Slowly, please.")
    vary(studio)
    studio.fill("#vw-seed", "42")
    reload(studio)
    expect(studio.locator("#vw-text")).to_have_value("Mine, and not to be lost.")
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("Slowly, please.")
    expect_speaker(studio, "clara")
    expect(studio.locator("#vw-speakers-language")).to_have_value("english")
    assert (studio.input_value("#vw-seed"), studio.is_checked("#vw-lock")) == ("42", True)


def test_reload_keeps_description_and_takes(studio: Page) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", "The kettle is on.")
    studio.fill("#vw-design-description", "A man with a low voice.")
    make_three(studio)
    first = seeds(studio)
    make_three(studio)
    studio.keyboard.press("Escape")
    before = seeds(studio)
    # A tab that crashes does not save its draft, so the test waits until the draft is stored.
    studio.wait_for_function(DRAFT_HAS_SIX_TAKES)
    reload(studio)
    expect(studio.locator("#vw-design-description")).to_have_value("A man with a low voice.")
    expect(studio.locator(".vw-design-set")).to_have_count(2)
    expect_state(studio, LETTERS, "done")
    assert seeds(studio) == before != first
    studio.keyboard.press("2")
    expect(card(studio, "B")).to_have_class(re.compile(r"\bvw-design-take-playing\b"))
    await_end(studio)
    act(studio, "B", "keep")
    expect(studio.locator("#vw-design-name")).to_be_focused()


def test_reload_keeps_recording_transcript_and_selection(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(3.0))
    expect(studio.locator("#vw-clone-trim")).to_be_visible()  # Hidden elements do not receive key events.
    studio.focus("#vw-clone-trim [data-edge=start]")
    studio.keyboard.press("Shift+ArrowRight")
    expect(studio.locator("#vw-clone-span [data-edge=start]")).to_have_value("0.50")
    expect(studio.locator("#vw-clone-span [data-edge=end]")).to_have_value("3.00")
    studio.click("#vw-clone-use")
    studio.fill("#vw-clone-transcript", "The words that are said in it.")
    await_recording(studio, "voice.wav")
    reload(studio)
    expect(studio.locator("#vw-clone-transcript")).to_have_value("The words that are said in it.")
    expect(studio.locator("#vw-clone-span [data-edge=start]")).to_have_value("0.50")
    expect(studio.locator("#vw-clone-span [data-edge=end]")).to_have_value("3.00")
    expect(studio.locator("#vw-clone-name")).to_have_text("voice.wav")
    try_out(studio)
    expect(studio.locator("#vw-clone-consent"), "consent is given anew").not_to_be_checked()
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-stop")
    studio.locator(".vw-step-change").first.click()
    studio.click("#vw-clone-drop")
    studio.wait_for_function(f"async () => !(await ({KEEPS})('voice.wav'))")
    reload(studio)
    studio.evaluate("new Promise((rest) => setTimeout(rest, 300))")
    expect(studio.locator("#vw-clone-recording")).to_be_hidden()


def test_consent_to_blends_is_only_given_by_the_user(studio: Page) -> None:
    enter(studio, "clone")
    clone_from(studio, wav(3.0), "The words that are said in it.")
    blend = studio.locator("#vw-clone-blend")
    expect(blend).not_to_be_checked()
    await_recording(studio, "voice.wav")
    for is_given in (True, False):
        blend.set_checked(is_given)
        await_draft(studio, f'"blend":{str(is_given).lower()}')
        reload(studio)
        expect(studio.locator("#vw-clone-name")).to_have_text("voice.wav")
        expect(blend).to_be_checked(checked=is_given)
    blend.check()
    studio.locator(".vw-step-change").first.click()
    clone_from(studio, wav(4.0), "The words that are said in it.")
    expect(blend, "the next recording may be of another speaker").not_to_be_checked()


def test_reload_keeps_a_microphone_recording(open_studio: OpenStudio) -> None:
    page = open_studio(permissions=["microphone"])
    enter(page, "clone")
    page.click("#vw-clone-record")
    expect(page.locator("#vw-clone-status")).to_contain_text(re.compile(r"[1-9]\.\d"))
    page.click("#vw-clone-stop")
    expect(page.locator("#vw-clone-trim")).to_be_visible()
    span = page.locator("#vw-clone-span [data-edge=end]")
    end = span.input_value()
    words = page.input_value("#vw-clone-transcript")
    assert words
    await_recording(page, page.inner_text("#vw-clone-name"))
    reload(page)
    expect(span).to_have_value(end)
    expect(page.locator("#vw-clone-transcript")).to_have_value(words)


def test_reload_opens_the_current_script(studio: Page) -> None:
    enter_script(studio)
    new_script(studio, "The older one")
    text_of(studio, 1).fill("A first line.")
    expect(studio.locator("#vw-script-saved")).to_contain_text("aved")
    new_script(studio, "The newer one")
    text_of(studio, 1).fill("Another line.")
    expect(studio.locator("#vw-script-saved")).to_contain_text("aved")
    studio.click("#vw-script-shelf summary")
    studio.get_by_role("button", name="The older one").click()
    expect(text_of(studio, 1)).to_have_value("A first line.")
    reload(studio)
    expect(line(studio, 1)).to_be_visible()
    expect(studio.locator("#vw-script-name")).to_have_value("The older one")
    expect(text_of(studio, 1)).to_have_value("A first line.")


def test_script_not_stored_by_the_studio_is_kept_in_the_browser(studio: Page) -> None:
    def without(route: Route) -> None:
        route.fulfill(status=404, json={"detail": "Not Found"})

    studio.route("**/studio/scripts**", without)
    reload(studio)
    enter_script(studio)
    text_of(studio, 1).fill("Only in this browser.")
    reload(studio)
    expect(text_of(studio, 1)).to_have_value("Only in this browser.")


def test_idle_page_does_not_overwrite_a_newer_draft(open_studio: OpenStudio) -> None:
    page = open_studio()
    other = page.context.new_page()
    other.goto(page.url, wait_until="domcontentloaded")
    other.locator("#vw-speak:enabled").wait_for()
    page.fill("#vw-text", "Written in the first.")
    reload(page)
    other.close(run_before_unload=True)
    reload(page)
    expect(page.locator("#vw-text")).to_have_value("Written in the first.")


# --- Tests of stopped and deleted takes.


def test_stopped_take_is_kept_and_labelled_stopped(app: App, studio: Page) -> None:
    studio.fill("#vw-text", LONG)  # The text is so long that its audio is still being generated at the stop.
    with studio.expect_response(lambda reply: reply.url.endswith("/studio/takes")) as kept:
        studio.click("#vw-speak")
        await_sound(studio)
        studio.click("#vw-stop")
    record = kept.value.json()
    assert record["stop_reason"] == "cancelled"
    assert record["samples"] > 0
    expect(studio.locator("#vw-star")).to_be_visible()
    enter(studio, "library")
    row = studio.locator(f"[data-take='{record['id']}']")
    expect(row.locator("small").first).to_contain_text("stopped")
    row.locator(".vw-take-open").click()
    row.locator("[data-do=reproduce]").click()
    expect(row.locator(".vw-take-outcome")).to_contain_text("Identical up to where it stopped", timeout=150_000)
    again = studio.locator("#vw-takes-list .vw-take").first.get_attribute("data-take")
    assert again is not None
    stopped, whole = (np.frombuffer(sound_of(app, take_id), "<i2") for take_id in (record["id"], again))
    assert np.array_equal(whole[: stopped.size], stopped)


def test_take_deleted_during_generation_is_not_stored(studio: Page) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", LONG)
    studio.click("#vw-speak")
    expect_state(studio, LETTERS, "streaming")
    with studio.expect_response(lambda reply: reply.url.endswith("/studio/takes")):
        seed = menu(studio, "B", "drop").removeprefix("Seed ")
        studio.keyboard.press("Escape")
    enter(studio, "library")
    expect(history_row(studio, "· Take 1A")).to_be_visible()
    listed = studio.request.get(f"{studio.url.partition('#')[0]}studio/takes?limit=10").json()["takes"]
    assert seed not in {str(take["seed"]) for take in listed}


# --- Tests of suggested texts.

Undo = Callable[[Page], None]


def by_toast(page: Page) -> None:
    page.locator("#vw-toasts").get_by_role("button", name="Undo").click()


def by_key(page: Page) -> None:
    page.keyboard.press("Control+z")


@pytest.mark.parametrize("undo", [by_toast, by_key])
def test_style_suggestion_can_be_undone(studio: Page, undo: Undo) -> None:
    chips = studio.locator("#vw-speakers-chips button")
    chips.first.click()
    expect(studio.locator("#vw-toasts")).to_be_empty()  # The suggestion has not replaced text of the user.
    studio.fill("#vw-speakers-instruct", "As my aunt would.")
    chips.first.click()
    chips.nth(1).click()
    assert studio.input_value("#vw-speakers-instruct") not in {"", "As my aunt would."}
    undo(studio)
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("As my aunt would.")
    expect(studio.locator("#vw-toasts")).to_be_empty()


@pytest.mark.parametrize("undo", [by_toast, by_key])
def test_voice_suggestion_can_be_undone(studio: Page, undo: Undo) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", "")
    studio.fill("#vw-design-description", "A voice like rust.")
    studio.locator("#vw-design-chips button").first.click()
    assert studio.input_value("#vw-text")
    undo(studio)
    expect(studio.locator("#vw-design-description")).to_have_value("A voice like rust.")
    expect(studio.locator("#vw-text")).to_have_value("")
    expect(studio.locator("#vw-design-language")).to_have_value("auto")


def test_several_suggestions_are_undone_in_one_step(studio: Page) -> None:
    enter(studio, "design")
    description = studio.locator("#vw-design-description")
    before = description.input_value()
    chips = studio.locator("#vw-design-chips button")
    for number in (1, 2):
        chips.nth(number).click()
        expect(description).not_to_have_value(before)
    studio.keyboard.press("Control+z")
    expect(description).to_have_value(before)


def test_undo_after_typing_reverts_the_typing_and_not_the_suggestion(studio: Page) -> None:
    studio.fill("#vw-speakers-instruct", "As my aunt would.")
    studio.locator("#vw-speakers-chips button").first.click()
    chosen = studio.input_value("#vw-speakers-instruct")
    studio.focus("#vw-text")
    studio.keyboard.press("End")
    studio.keyboard.type("x")
    studio.keyboard.press("Control+z")
    expect(studio.locator("#vw-speakers-instruct")).to_have_value(chosen)


# --- Tests of links that contain settings.


def test_theme_can_be_set_in_the_link(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(url=f"{app.url}/?__theme=dark", color_scheme="light")
    expect(page.locator("body.dark")).to_have_count(1)
    page = open_studio(url=f"{app.url}/?__theme=light", color_scheme="dark")
    expect(page.locator("body.dark")).to_have_count(0)


def test_link_preview_has_title_and_description(app: App, studio: Page) -> None:
    shown = studio.request.get(app.url).text()
    head = shown.partition("<body")[0]
    tags = dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[a-z:_]+)" content="([^"]*)"', head))
    assert tags["og:title"] == tags["twitter:title"] == tags["og:site_name"] == "Voicewright"
    assert tags["og:url"] == f"{app.url}/"
    assert "Qwen3-TTS" in tags["og:description"]
    assert "og:image" not in tags
    assert head.count("og:title") == 1
    assert "<title>Voicewright</title>" in head
    assert not re.search(r'content="[^"]*([Gg]radio|\{)', head.partition("<script")[0])
