"""Tests for blends of two voices in the Design room: playback of changes, and storage."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import PLAYED_MS, await_end, await_sound, enter, wav
from tests.support.app import App

pytestmark = pytest.mark.browser


def test_blend_is_played_while_the_slider_moves_and_can_be_saved(studio: Page, no_voices: None) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", "The heron waits for the evening, and the otter dives where the river is deep.")
    studio.click("#vw-blend summary")
    studio.select_option("#vw-blend-first", label="Angus")
    studio.select_option("#vw-blend-second", label="Clara")
    studio.locator("#vw-blend-share").fill("30")
    expect(studio.locator("#vw-blend-mix")).to_have_text("Angus 70 %, Clara 30 %")
    expect(studio.locator("#vw-caption")).to_contain_text(re.compile("Angus 70 %"))
    await_end(studio)
    studio.screenshot(path=SCREENSHOTS / "blend.png")
    studio.click("#vw-blend-keep")
    expect(studio.locator("#vw-blend-error")).not_to_be_empty()
    studio.fill("#vw-blend-name", "Between")
    studio.click("#vw-blend-keep")
    expect(studio.locator("#vw-toasts")).to_contain_text("Between is kept", timeout=PLAYED_MS)
    (voice,) = studio.request.get(f"{studio.url.partition('#')[0]}v1/audio/voices").json()["data"]
    assert voice["provenance"]["source"] == "blend"
    assert voice["provenance"]["blend"] == "angus:0.70+clara:0.30"
    assert voice["description"] == "Angus 70 %, Clara 30 %"
    entry = studio.locator("#vw-design-voices-list li", has_text="Between")
    expect(entry.locator(".vw-design-words")).to_have_text("Angus 70 %, Clara 30 %")
    expect(entry.get_by_role("button", name="Edit this description")).to_have_count(0)
    enter(studio, "speakers")
    expect(studio.locator("#vw-speakers-picker .vw-pick", has_text="Between")).to_contain_text("Angus 70 %, Clara 30 %")
    assert voice["consent"] == "angus: a speaker of the checkpoint. clara: a speaker of the checkpoint."
    enter(studio, "library")
    studio.locator("#vw-voices-list .vw-voice-open").click()
    facts = studio.locator("#vw-voices-list .vw-voice-facts")
    expect(facts.locator("dt", has_text="Language")).to_have_count(1)
    expect(facts.locator("dt", has_text="Blend").locator("+ dd")).to_have_text("Angus 70 %, Clara 30 %")
    assert "blend" not in facts.inner_text()


def test_single_voice_cannot_be_saved_as_a_blend(studio: Page, no_voices: None) -> None:
    enter(studio, "design")
    studio.click("#vw-blend summary")
    studio.locator("#vw-blend-share").fill("100")
    await_end(studio)
    studio.fill("#vw-blend-name", "Alone")
    studio.click("#vw-blend-keep")
    expect(studio.locator("#vw-blend-error")).to_have_text("This is one voice alone. Move the slider to blend both.")


def test_choice_of_blended_voices_does_not_interrupt_other_audio(studio: Page) -> None:
    studio.fill("#vw-text", "The heron waits for the evening, and the otter dives where the river is deep. " * 6)
    studio.click("#vw-speak")
    await_sound(studio)
    caption = studio.inner_text("#vw-caption")
    enter(studio, "design")
    studio.click("#vw-blend summary")
    studio.select_option("#vw-blend-first", label="Clara")
    studio.wait_for_timeout(1000)
    expect(studio.locator("#vw-blend-mix")).to_contain_text("Clara 50 %")
    expect(studio.locator("#vw-caption")).to_have_text(caption)
    expect(studio.locator("#vw-stop")).to_be_enabled()
    # The user can still play the blend, which then follows the slider.
    studio.click("#vw-blend-hear")
    expect(studio.locator("#vw-caption")).to_contain_text("Clara 50 %")
    for share in ("30", "20"):
        studio.locator("#vw-blend-share").fill(share)
    expect(studio.locator("#vw-caption")).to_contain_text("Clara 80 %")


def test_voice_without_consent_to_blends_is_marked_and_its_refusal_leaves_no_player(
    app: App, open_studio: OpenStudio, no_voices: None
) -> None:
    data = {"name": "Shy", "consent": "Yes.", "ref_text": "A few words."}
    files = {"audio_sample": wav(4.0)["buffer"]}
    voices = f"{app.url}/v1/audio/voices"
    shy = httpx.post(voices, data=data, files=files, trust_env=False).raise_for_status().json()
    page = open_studio(viewport={"width": 390, "height": 640}, has_touch=True, is_mobile=True)
    enter(page, "design")
    page.click("#vw-blend summary")
    page.route("**/studio/revision", lambda route: route.abort())  # The page does not notice the change of the consent.
    httpx.patch(f"{voices}/{shy['id']}", json={"allows_blends": False}, trust_env=False).raise_for_status()
    page.select_option("#vw-blend-first", label="Shy")
    error = page.locator("#vw-blend-error")
    expect(error).to_contain_text("has not consented")
    expect(error).to_be_in_viewport(ratio=1)
    expect(page.locator("#vw-play")).to_be_hidden()
    page.unroute("**/studio/revision")
    page.evaluate("dispatchEvent(new Event('focus'))")
    refused = page.locator("#vw-blend-second option", has_text="Shy (no consent to blends)")
    expect(refused).to_have_attribute("disabled", "")
    expect(page.locator("#vw-blend-first")).not_to_have_value(re.compile(shy["id"]))


def test_error_of_a_blend_that_cannot_be_saved_says_what_to_do(studio: Page, no_voices: None) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", "No.")
    studio.click("#vw-blend summary")
    studio.fill("#vw-blend-name", "Brief")
    studio.click("#vw-blend-keep")
    error = studio.locator("#vw-blend-error")
    expect(error).to_contain_text("Press “Hear it” first")
    studio.click("#vw-blend-hear")
    await_end(studio)
    studio.click("#vw-blend-keep")
    expect(error).to_have_text("Write a longer text: the sample must last at least 1 s.", timeout=PLAYED_MS)
