"""Tests for the voice picker in the Speak room: search, preview, selection and reload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import (
    await_end,
    change_model_cards,
    choose,
    enter,
    expect_speaker,
    history_row,
    kept_take,
    picker,
    reading,
    wav,
)
from tests.support.app import App

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

VOICES = "/v1/audio/voices"


@pytest.fixture
def keep(app: App) -> Callable[..., str]:
    """Return a function that stores a voice and returns the voice's ID."""

    def keep(name: str, **fields: str) -> str:
        data = {"name": name, "consent": "Yes.", "ref_text": "A few words that could be said here.", **fields}
        files = {"audio_sample": wav(4.0)["buffer"]}
        return str(httpx.post(f"{app.url}{VOICES}", data=data, files=files, trust_env=False).json()["id"])

    return keep


def reload(page: Page) -> None:
    page.reload(wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for(state="attached")


def rows(page: Page) -> Locator:
    """Return the elements with the names of the listed voices."""
    return page.locator("#vw-speakers-picker .vw-pick-name > span:first-child")


def test_selected_voice_stays_visible_when_recent_voices_are_listed(studio: Page, keep: Callable[..., str]) -> None:
    keep("Zora")
    reload(studio)
    kept_take(studio, "Hi.")
    choose(studio, "Zora")
    studio.evaluate("document.querySelector('#vw-speakers-picker .vw-picked').scrollIntoView({ block: 'nearest' })")
    seen = """() => {
      const list = document.querySelector('#vw-speakers-picker .vw-picker-list').getBoundingClientRect();
      const row = document.querySelector('#vw-speakers-picker .vw-picked').getBoundingClientRect();
      return row.top >= list.top - 1 && row.bottom <= list.bottom + 1;
    }"""
    assert studio.evaluate(seen)
    kept_take(studio, "Hi.")
    expect(studio.locator("#vw-speakers-picker .vw-recents")).to_be_attached()
    assert studio.evaluate(seen)


def test_deleting_the_selected_voice_selects_the_previous_voice(
    app: App, studio: Page, keep: Callable[..., str]
) -> None:
    marta = keep("Marta")
    reload(studio)
    choose(studio, "Clara")
    choose(studio, "Marta")
    expect_speaker(studio, marta)
    httpx.delete(f"{app.url}{VOICES}/{marta}", trust_env=False).raise_for_status()
    enter(studio, "library")  # The Library loads the voices again.
    expect(studio.locator("#vw-voices-empty")).to_be_visible()
    enter(studio, "speakers")
    expect_speaker(studio, "clara")


def test_cross_checkpoint_embeddings_are_sent_only_if_enabled(studio: Page, keep: Callable[..., str]) -> None:
    keep("Marta")
    box = studio.get_by_label("Closer to its own manner (graft, experimental)")
    reload(studio)
    choose(studio, "Marta")
    expect(box).to_be_hidden()
    change_model_cards(studio, grafts_voices=True)  # The embedded voice records requests with such embeddings.
    reload(studio)
    choose(studio, "Clara")
    expect(box).to_be_hidden()
    choose(studio, "Marta")
    box.check()
    assert "graft" not in config_of(studio, kept_take(studio, "The kettle is cold."))
    await_end(studio)
    studio.fill("#vw-speakers-instruct", "Slowly.")
    assert config_of(studio, kept_take(studio, "The kettle is on."))["graft"] is True
    await_end(studio)
    box.uncheck()
    enter(studio, "library")
    row = history_row(studio, "The kettle is on.")
    row.locator(".vw-take-open").click()
    row.locator("[data-do=restore]").click()
    expect(box).to_be_checked()


def config_of(page: Page, take: str) -> dict[str, Any]:
    record: dict[str, Any] = page.evaluate("async (id) => (await fetch(`studio/takes/${id}`)).json()", take)
    return record["config"]  # type: ignore[no-any-return]


def test_stored_voice_accepts_a_style_if_a_checkpoint_supports_it(studio: Page, keep: Callable[..., str]) -> None:
    marta = keep("Marta")
    reload(studio)
    choose(studio, "Marta")
    expect(studio.locator("#vw-speakers-hint")).to_have_text(
        "With a style, Marta keeps its sound and not its own manner, so it may be less like itself. Experimental."
    )
    studio.fill("#vw-speakers-instruct", "Slowly.")
    take = kept_take(studio, "The kettle is on.")
    record = studio.evaluate("async (id) => (await fetch(`studio/takes/${id}`)).json()", take)
    spoken = (record["mode"], record["config"]["voice"], record["config"]["instructions"])
    assert spoken == ("custom_voice", marta, "Slowly.")
    assert reading(studio, "caption") == "Marta"
    await_end(studio)
    studio.fill("#vw-speakers-instruct", "")
    plain = kept_take(studio, "The kettle is off.")
    record = studio.evaluate("async (id) => (await fetch(`studio/takes/${id}`)).json()", plain)
    assert (record["mode"], record["config"]["voice"]) == ("base", marta)
    await_end(studio)
    choose(studio, "Clara")
    enter(studio, "library")
    row = history_row(studio, "The kettle is on.")
    row.locator(".vw-take-open").click()
    row.locator("[data-do=restore]").click()
    expect_speaker(studio, marta)
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("Slowly.")


def test_stored_voice_speaks_in_the_speak_room_and_stays_selected(studio: Page, keep: Callable[..., str]) -> None:
    marta = keep("Marta", tags="warm,narrator", provenance='{"source": "design"}')
    change_model_cards(studio, styles_voices=False)
    reload(studio)
    expect(picker(studio).locator(f"[data-voice='base:{marta}'] .vw-mark[data-kind=designed]")).to_have_count(1)
    studio.fill("#vw-speakers-instruct", "Slowly.")
    choose(studio, "Marta")
    expect_speaker(studio, marta)
    expect(studio.locator("#vw-dock-line")).to_contain_text("Marta, about")
    expect(studio.locator("#vw-speakers-instruct")).to_be_hidden()
    expect(studio.locator("#vw-speakers-hint")).to_contain_text("Marta keeps the manner of its recording")
    take = kept_take(studio, "The kettle is on.")
    record = studio.evaluate("async (id) => (await fetch(`studio/takes/${id}`)).json()", take)
    assert (record["room"], record["mode"], record["config"]["voice"]) == ("speakers", "base", marta)
    assert "instructions" not in record["config"]
    assert reading(studio, "caption") == "Marta"
    await_end(studio)
    choose(studio, "Clara")
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("Slowly.")
    kept_take(studio, "And now the cups.")
    recent = picker(studio).locator(".vw-recents button")
    expect(recent).to_have_text(["Clara", "Marta"])
    recent.nth(1).click()
    picker(studio).locator("[data-kind=mine]").click()
    expect(rows(studio)).to_have_text(["Marta"])
    reload(studio)
    expect_speaker(studio, marta)
    expect(rows(studio)).to_have_text(["Marta"])
    expect(picker(studio).locator("[data-kind=mine]")).to_have_attribute("aria-pressed", "true")
    picker(studio).locator("[data-kind=all]").click()
    expect(recent).to_have_text(["Clara", "Marta"])
    enter(studio, "library")
    kettle = history_row(studio, "The kettle is on.")
    kettle.locator(".vw-take-open").click()
    expect(kettle.locator(".vw-take-settings")).to_contain_text("Marta")
    row = history_row(studio, "And now the cups.")
    row.locator(".vw-take-open").click()
    row.locator("[data-do=restore]").click()
    expect_speaker(studio, "clara")


def test_voices_can_be_searched_previewed_and_chosen_by_keyboard(studio: Page, keep: Callable[..., str]) -> None:
    keep("Marta", tags="warm", speaker_description="In her fifties")
    reload(studio)
    search = picker(studio).locator("input")
    expect(rows(studio)).to_have_count(9)
    for words, found in [("fifties WARM", ["Marta"]), ("CALM deep", ["Angus"]), ("x y", [])]:
        search.fill(words)
        expect(rows(studio)).to_have_text(found)
    search.fill("")
    expect(rows(studio)).to_have_count(9)
    search.fill("nobody here")
    expect(picker(studio).locator(".vw-picker-none")).to_contain_text("No voice matches “nobody here”.")
    search.fill("")
    picker(studio).locator("[aria-label='Hear Marta']").click()
    expect(studio.locator("#vw-caption")).to_have_text("Marta")
    expect(picker(studio).locator("[data-icon=pause]")).to_have_count(1)
    studio.keyboard.press("Escape")
    expect(picker(studio).locator("[data-icon=pause]")).to_have_count(0)
    expect_speaker(studio, "angus")
    search.focus()
    for key in ("ArrowDown", "End", "ArrowUp", "Home", "Enter"):  # Stored voices are listed first.
        studio.keyboard.press(key)
    expect(picker(studio).locator(".vw-picked")).to_contain_text("Marta")
    studio.keyboard.press("Tab")
    expect(studio.locator(":focus")).to_have_attribute("aria-label", "Hear Marta")
    studio.keyboard.press("Tab")
    expect(studio.locator(":focus")).to_have_text("+ Design a voice")
    studio.keyboard.press("Enter")
    expect(studio.locator("#vw-room-design")).to_be_visible()


def test_voice_picker_opens_as_a_sheet_on_a_phone(open_studio: OpenStudio, keep: Callable[..., str]) -> None:
    marta = keep("Marta")
    page = open_studio(viewport={"width": 360, "height": 780})
    sheet, chip = page.locator("#vw-voice-sheet"), page.locator("#vw-speakers-voice")
    expect(picker(page)).to_be_hidden()
    expect(chip).to_have_text("Angus")
    chip.click()
    expect(sheet.locator(".vw-picked .vw-pick-choose")).to_be_focused()
    box = sheet.bounding_box()
    assert box is not None
    assert (box["x"], box["width"], round(box["y"] + box["height"])) == (0, 360, 780)
    assert Axe().run(page, context="#vw-voice-sheet").response["violations"] == []
    page.screenshot(path=SCREENSHOTS / "picker-sheet.png")
    sheet.locator(f"[data-voice='base:{marta}'] .vw-pick-choose").click()
    expect(sheet).to_be_hidden()
    expect(chip).to_have_text("Marta")
    chip.click()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(chip).to_be_focused()


@pytest.mark.parametrize("without", ["custom_voice", "base"])
def test_unavailable_voice_shows_the_reason(studio: Page, keep: Callable[..., str], without: str) -> None:
    marta = keep("Marta")

    def fewer(route: Route) -> None:
        listing: dict[str, Any] = route.fetch().json()
        modes = [mode for mode in listing["data"][0]["modes"] if mode != without]
        route.fulfill(json={**listing, "data": [{**listing["data"][0], "modes": modes}]})

    studio.route("**/v1/models", fewer)
    reload(studio)
    row = picker(studio).locator(f"[data-voice='base:{marta}']")
    expect(row).to_be_visible()
    if without == "custom_voice":
        expect(rows(studio)).to_have_text(["Marta"])
        expect_speaker(studio, marta)
        expect(studio.locator("#vw-tab-speakers")).not_to_have_attribute("aria-disabled", "true")
        kept_take(studio, "I am the one who is here.")
        return
    expect(row).to_contain_text("Saved voices need a Base checkpoint")
    row.locator(".vw-pick-choose").click(force=True)
    expect_speaker(studio, "angus")
    enter(studio, "library")
    studio.locator(f"#vw-voices-list [data-voice='{marta}'] .vw-voice-open").click()
    studio.locator(f"#vw-voices-list [data-voice='{marta}'] [data-do=speak]").click()
    expect(studio.locator(".vw-toast")).to_contain_text("none is loaded")


def test_voice_descriptions_are_not_cut_off_on_a_small_laptop(studio: Page) -> None:
    studio.set_viewport_size({"width": 1366, "height": 768})
    about = studio.locator("#vw-speakers-picker .vw-pick-about")
    expect(about.first).to_be_visible()
    clipped = """(all) => all
      .filter((one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth)
      .map((one) => one.textContent)"""
    assert about.evaluate_all(clipped) == []


@pytest.mark.parametrize("size", [(1280, 960), (390, 844)])
def test_voice_list_fades_at_its_end_and_shows_its_last_row(studio: Page, size: tuple[int, int]) -> None:
    studio.set_viewport_size({"width": size[0], "height": size[1]})
    if size[0] < 768:
        studio.locator("#vw-speakers-voice .vw-voice-chip, .vw-voice-chip").first.click()
    box = studio.locator(".vw-picker-list:visible").first
    expect(box).to_be_visible()
    studio.wait_for_timeout(300)
    studio.screenshot(path=SCREENSHOTS / f"voice_list_{size[0]}.png")
    assert "linear-gradient" in box.evaluate("(list) => getComputedStyle(list).maskImage")
    gap = """(list) => {
      list.scrollTop = list.scrollHeight;
      const last = [...list.querySelectorAll('.vw-pick')].at(-1);
      return list.getBoundingClientRect().bottom - last.getBoundingClientRect().bottom;
    }"""
    assert box.evaluate(gap) >= 20


def test_typing_in_the_list_searches_and_enter_chooses_the_first_result(studio: Page) -> None:
    enter(studio, "script")
    chip = studio.locator("#vw-script-lines .vw-line-voice").first
    chip.click()
    expect(studio.locator("#vw-voice-sheet .vw-pick-choose:focus")).to_have_count(1)
    studio.keyboard.type("Iri")
    expect(studio.locator("#vw-voice-sheet input")).to_have_value("Iri")
    studio.keyboard.press("Enter")
    expect(chip).to_have_text("Iris")
    expect(studio.locator("#vw-voice-sheet")).to_be_hidden()
