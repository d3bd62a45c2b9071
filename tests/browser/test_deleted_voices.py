"""Tests for scripts with a deleted voice: takes are kept, and a new voice is offered."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, VOICES, OpenStudio
from tests.browser.design_steps import card, enter_design, expect_state, fix_seed, keep_as, make_three, origin
from tests.browser.script_steps import (
    await_kept,
    await_made,
    await_saved,
    await_silence,
    decoded,
    enter_script,
    export,
    line,
    new_script,
    text_of,
)
from tests.browser.steps import (
    await_end,
    await_sound,
    choose,
    clone_from,
    enter,
    expect_speaker,
    hear_clone,
    kept_take,
    picker,
    reload,
    reload_to_speak,
    wav,
)
from tests.browser.test_full_store import keep_voice

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]


def speak_line(page: Page, number: int) -> None:
    line(page, number).locator(".vw-line-play").click()
    await_made(page, number)
    page.keyboard.press("Escape")
    await_silence(page)


def chip(page: Page, number: int) -> str:
    return line(page, number).locator(".vw-line-voice").inner_text()


@pytest.fixture
def spoken(studio: Page) -> Page:
    """Return the script of two lines whose voice is the stored voice "Peter".

    Only the first line has a take.
    """
    peter = keep_voice(studio, "Peter")
    enter_script(studio)
    new_script(studio, "The hat")
    enter(studio, "library")
    row = studio.locator(f"#vw-voices-list [data-voice='{peter}']")
    row.locator(".vw-voice-open").click()
    row.locator("[data-do=script]").click()
    text_of(studio, 1).fill("Good evening.")
    line(studio, 1).locator(".vw-line-voice").click()
    studio.click(f"#vw-voice-sheet .vw-pick[data-voice='base:{peter}'] > .vw-pick-choose")
    speak_line(studio, 1)
    await_kept(studio, 1)
    return studio


def delete(page: Page, name: str) -> None:
    enter(page, "library")
    row = page.locator("#vw-voices-list > li", has=page.locator(".vw-voice-name").get_by_text(name, exact=True))
    if not row.locator("[data-do=remove]").is_visible():
        row.locator(".vw-voice-open").click()
    row.locator("[data-do=remove]").click()
    expect(row).to_have_count(0)


def confirm_deletion(page: Page, answer: str) -> None:
    page.locator(".vw-toast").get_by_role("button", name="Delete now, with 1 take").click()
    asked = page.get_by_role("dialog", name="Delete Peter and 1 take for good?")
    asked.get_by_role("button", name=answer).click()
    expect(asked).to_be_hidden()


def test_voice_used_in_a_script_can_be_deleted_and_restored(spoken: Page) -> None:
    delete(spoken, "Peter")
    toast = spoken.locator(".vw-toast", has_text="Deleted: Peter")
    expect(toast).to_contain_text("Used by 1 script")
    enter(spoken, "script")
    assert chip(spoken, 1) == "Peter (deleted)"
    expect(spoken.locator(".vw-clip span").first).to_have_text("Peter (deleted)")
    expect(line(spoken, 1).locator(".vw-line-error")).to_contain_text("This voice was deleted.")
    spoken.screenshot(path=SCREENSHOTS / "script-deleted-voice.png")
    await_saved(spoken)
    spoken.reload()
    expect(line(spoken, 1).locator(".vw-line-voice")).to_have_text("Peter (deleted)")


def test_undo_button_for_a_deleted_voice_stays_longer_than_for_a_take(open_studio: OpenStudio) -> None:
    page = open_studio(has_own_window=True)
    page.clock.install()
    keep_voice(page, "Peter")
    delete(page, "Peter")
    page.mouse.move(0, 0)
    page.clock.run_for(25_000)
    page.locator(".vw-toast").get_by_role("button", name="Undo").click()
    expect(page.locator("#vw-voices-list > li", has_text="Peter")).to_have_count(1)


def test_script_line_keeps_its_audio_after_its_voice_is_deleted(spoken: Page) -> None:
    delete(spoken, "Peter")
    enter(spoken, "script")
    line(spoken, 1).locator(".vw-line-remake").click()
    said = spoken.locator("#vw-dock-actions [data-error-for=request]")
    expect(said).to_have_text("The voice of line 1 (Peter) was deleted. Choose another voice for it.")
    expect(line(spoken, 1)).to_have_attribute("data-state", "made")
    expect(spoken.locator(".vw-toast", has_text="made again")).to_have_count(0)
    # The second line has no take. The error of the export contains the line number and the next step.
    text_of(spoken, 2).fill("And a good night.")
    spoken.click("#vw-script-files")
    spoken.click("#vw-script-go")
    expect(spoken.locator("#vw-script-export-error")).to_contain_text("The voice of line 2 (Peter) was deleted.")
    spoken.keyboard.press("Escape")
    text_of(spoken, 2).fill("")
    name, data = export(spoken, "joined", loudness="")
    assert name == "The hat.wav"
    assert len(decoded(data)) > 0
    line(spoken, 1).locator(".vw-line-recast").click()
    spoken.locator("#vw-voice-sheet .vw-pick[data-voice^='custom_voice:'] > .vw-pick-choose").first.click()
    expect(line(spoken, 1).locator(".vw-line-recast")).to_be_hidden()
    expect(line(spoken, 1)).to_have_attribute("data-state", "unmade")
    toast = spoken.locator(".vw-toast", has_text="1 line has another voice now; 1 line must be made again.")
    toast.get_by_role("button", name="Undo").click()
    expect(line(spoken, 1)).to_have_attribute("data-state", "made")
    assert chip(spoken, 1) == "Peter (deleted)"


def test_playback_of_a_deleted_voice_stops_at_a_line_without_audio(spoken: Page) -> None:
    text_of(spoken, 2).fill("And a good night.")
    delete(spoken, "Peter")
    enter(spoken, "script")
    line(spoken, 1).locator(".vw-line-play").click()
    expect(spoken.locator("#vw-time")).not_to_have_text("0:00.0")
    said = spoken.locator("#vw-dock-actions [data-error-for=request]")
    expect(said).to_have_text("The voice of line 2 (Peter) was deleted. Choose another voice for it.")
    await_end(spoken)
    expect(line(spoken, 2)).to_have_attribute("data-state", "unmade")
    line(spoken, 2).locator(".vw-line-play").click()
    expect(said).to_contain_text("The voice of line 2 (Peter) was deleted.")


def test_script_line_keeps_its_old_audio_if_new_audio_cannot_be_generated(spoken: Page) -> None:
    stored = spoken.request.get(f"{origin(spoken)}{VOICES}").json()["data"]
    seed = line(spoken, 1).locator(".vw-line-seed").input_value()
    for voice in stored:  # Another client deletes the voices, so this window has an outdated list of voices.
        spoken.request.delete(f"{origin(spoken)}{VOICES}/{voice['id']}")
    line(spoken, 1).locator(".vw-line-remake").click()
    expect(spoken.get_by_text("It keeps its audio.")).to_be_visible()
    expect(line(spoken, 1)).to_have_attribute("data-state", "made")
    assert line(spoken, 1).locator(".vw-line-seed").input_value() == seed
    expect(spoken.get_by_text("is being made again")).to_have_count(0)
    await_kept(spoken, 1)


def test_voice_deleted_in_another_window_is_reported_and_no_longer_offered(studio: Page) -> None:
    peter = keep_voice(studio, "Peter")
    enter(studio, "library")  # Opening the Library loads the voices again.
    expect(studio.locator("#vw-voices-list > li", has_text="Peter")).to_be_visible()
    enter(studio, "speakers")
    choose(studio, "Peter")
    expect_speaker(studio, peter)
    studio.request.delete(f"{origin(studio)}{VOICES}/{peter}")
    studio.click("#vw-speak")
    said = studio.locator("#vw-dock-actions [data-error-for=voice]")
    expect(said).to_have_text("The voice Peter was deleted. Choose another voice, then speak again.")
    expect(picker(studio).get_by_text("Peter", exact=True)).to_have_count(0)
    expect(studio.locator("#vw-speakers-voice")).not_to_contain_text("Peter")
    expect(picker(studio).locator(".vw-picked")).to_have_count(1)
    studio.click("#vw-speak")
    await_sound(studio)
    expect(said).to_be_empty()


def test_speak_room_names_the_voice_that_replaces_a_deleted_voice(studio: Page) -> None:
    keep_voice(studio, "Peter")
    studio.evaluate("dispatchEvent(new Event('focus'))")
    choose(studio, "Peter")
    deleted = studio.locator("#vw-speakers-deleted")
    expect(deleted).to_be_empty()
    delete(studio, "Peter")
    enter(studio, "speakers")
    now = studio.locator("#vw-speakers-voice").inner_text()
    expect(deleted).to_have_text(f"The voice Peter was deleted, so {now} speaks now.")
    studio.screenshot(path=SCREENSHOTS / "speak-deleted-voice.png")
    reload(studio)
    expect(deleted).to_contain_text("The voice Peter was deleted")
    choose(studio, now)
    expect(deleted).to_be_empty()


def test_script_line_shows_that_its_voice_was_deleted_in_another_window(spoken: Page) -> None:
    stored = spoken.request.get(f"{origin(spoken)}{VOICES}").json()["data"]
    for voice in stored:
        spoken.request.delete(f"{origin(spoken)}{VOICES}/{voice['id']}")
    text_of(spoken, 1).fill("Good morning.")
    line(spoken, 1).locator(".vw-line-play").click()
    expect(line(spoken, 1).locator(".vw-line-voice")).to_have_text("Peter (deleted)")


def test_script_line_keeps_its_old_audio_if_generation_is_stopped(spoken: Page) -> None:
    text_of(spoken, 1).fill("The boat came back in the evening, and nobody had expected it so soon. " * 6)
    line(spoken, 1).locator(".vw-line-play").click()
    await_made(spoken, 1)
    spoken.keyboard.press("Escape")
    await_silence(spoken)
    seed = line(spoken, 1).locator(".vw-line-seed").input_value()
    line(spoken, 1).locator(".vw-line-remake").click()
    expect(line(spoken, 1)).to_have_attribute("data-state", "coming")
    spoken.keyboard.press("Escape")
    expect(line(spoken, 1)).to_have_attribute("data-state", "made")
    assert line(spoken, 1).locator(".vw-line-seed").input_value() == seed


def test_script_opened_by_its_address_shows_voice_names(spoken: Page, open_studio: OpenStudio) -> None:
    await_saved(spoken)
    address = spoken.url
    spoken.goto("about:blank")
    spoken.goto(address)
    expect(spoken.locator(".vw-clip span").first).to_have_text("Peter")


def test_clone_room_is_updated_if_its_voice_is_deleted_or_restored(studio: Page) -> None:
    enter(studio, "clone")
    clone_from(studio, wav(4.0), "The boat came back in the evening, and nobody had expected it.")
    hear_clone(studio)
    studio.check("#vw-clone-consent")
    studio.fill("#vw-clone-keep-name", "Peter")
    studio.click("#vw-clone-keep-button")
    done = studio.locator("#vw-clone-done")
    expect(done).to_contain_text("Saved: Peter.")
    voice = studio.request.get(f"{origin(studio)}/studio/voices/Peter").json()["id"]
    delete(studio, "Peter")
    enter(studio, "clone")
    expect(done).to_be_hidden()
    expect(studio.locator("#vw-clone-keep-name")).to_have_value("Peter")
    expect(studio.locator("#vw-clone-keep-button")).to_be_visible()
    assert studio.request.post(f"{origin(studio)}/studio/voices/{voice}/restore").ok
    enter(studio, "library")
    expect(studio.locator("#vw-voices-list > li", has_text="Peter")).to_have_count(1)
    enter(studio, "clone")
    expect(done).to_be_visible()


def test_design_room_offers_to_save_a_take_whose_voice_was_deleted(studio: Page) -> None:
    enter_design(studio, "The boat came back in the evening, and nobody had expected it so soon.")
    fix_seed(studio, 7)
    make_three(studio)
    keep_as(studio, "A", "Wilma")
    delete(studio, "Wilma")
    enter(studio, "design")
    expect_state(studio, "A", "done")
    expect(card(studio, "A").locator("[data-act=keep]")).to_be_visible()


def test_message_about_a_deleted_voice_names_the_remaining_blends(studio: Page) -> None:
    peter = keep_voice(studio, "Peter")
    made_of = json.dumps({"source": "blend", "blend": f"{peter}:0.50+clara:0.50"})
    keep_voice(studio, "Between", provenance=made_of)
    delete(studio, "Peter")
    toast = studio.locator(".vw-toast", has_text="Deleted: Peter.")
    expect(toast).to_contain_text("Blends made with it stay: Between.")


@pytest.mark.parametrize("width", [1280, 390])
def test_voice_can_be_permanently_deleted_with_its_takes(open_studio: OpenStudio, width: int) -> None:
    page = open_studio()
    keep_voice(page, "Peter")
    reload_to_speak(page)
    choose(page, "Peter")
    take = kept_take(page, "Nobody keeps this for ever.")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": width, "height": 844})
    enter(page, "library")
    if width < 1000:
        page.click(".vw-library-turn [data-half=voices]")
    row = page.locator("#vw-voices-list > li", has_text="Peter")
    row.locator(".vw-voice-open").click()
    row.locator("[data-do=remove]").click()
    toast = page.locator(".vw-toast", has_text="Deleted: Peter. Its file is erased after 24 h; 1 take stays saved.")
    page.screenshot(path=SCREENSHOTS / f"voice-deleted-{width}.png")
    confirm_deletion(page, "Cancel")
    expect(toast.get_by_role("button", name="Undo")).to_be_visible()
    assert page.request.get(f"{origin(page)}/studio/takes/{take}").ok
    confirm_deletion(page, "Delete for good")
    expect(page.locator(".vw-toast", has_text="Peter and 1 take were deleted for good.")).to_be_visible()
    expect(page.locator("#vw-caption")).to_be_empty()
    expect(page.locator("#vw-star")).to_be_hidden()
    assert page.request.get(f"{origin(page)}/studio/takes/{take}").status == 404
    assert page.request.get(f"{origin(page)}/studio/voices/Peter").status == 404


def test_script_line_has_no_audio_after_its_takes_are_deleted_with_the_voice(spoken: Page) -> None:
    await_saved(spoken)
    deleted = line(spoken, 1).locator(".vw-line-error")
    delete(spoken, "Peter")
    expect(deleted).to_contain_text("The existing audio stays")
    confirm_deletion(spoken, "Delete for good")
    for _ in range(2):
        expect(line(spoken, 1)).to_have_attribute("data-state", "unmade")
        expect(deleted).to_have_text("This voice was deleted, and this line has no audio. Choose another voice.")
        enter(spoken, "script")
        await_saved(spoken)
        reload(spoken)


def test_script_line_has_no_audio_if_its_takes_were_deleted_elsewhere(spoken: Page) -> None:
    await_saved(spoken)
    (peter,) = spoken.request.get(f"{origin(spoken)}{VOICES}").json()["data"]
    assert spoken.request.delete(f"{origin(spoken)}/studio/voices/{peter['id']}?now=1&takes=1").ok
    spoken.evaluate("dispatchEvent(new Event('focus'))")
    expect(line(spoken, 1)).to_have_attribute("data-state", "unmade")


def test_script_line_of_a_deleted_voice_has_audio_again_after_its_take_is_restored(spoken: Page) -> None:
    await_saved(spoken)
    delete(spoken, "Peter")
    script = spoken.request.get(f"{origin(spoken)}/studio/scripts").json()["scripts"][0]["id"]
    (take,) = spoken.request.get(f"{origin(spoken)}/studio/scripts/{script}").json()["lines"][0]["takes"]
    path = f"{origin(spoken)}/studio/takes/{take['take']}"
    assert spoken.request.delete(path).ok
    enter(spoken, "script")
    spoken.evaluate("dispatchEvent(new Event('focus'))")
    expect(line(spoken, 1)).to_have_attribute("data-state", "unmade")
    assert spoken.request.post(f"{path}/restore").ok
    reload(spoken)
    expect(line(spoken, 1)).to_have_attribute("data-state", "made")
