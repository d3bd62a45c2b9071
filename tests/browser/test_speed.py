"""Tests for the playback speed.

The pitch does not change, and saved files keep the original speed.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS
from tests.browser.steps import await_end, kept_take, reload_to_speak, save

pytestmark = pytest.mark.browser

TEXT = "The boat came back in the evening, and nobody had seen where it had been all day long. " * 2


def play_s(page: Page) -> tuple[float, float]:
    """Play the take in the player bar, and measure the duration of its playback.

    Returns:
        Seconds in which the browser ran the page, and total seconds.
    """
    page.evaluate("window.ticks = 0; window.ticking = setInterval(() => (window.ticks += 1), 100)")
    page.click("#vw-play")
    begun = time.monotonic()
    await_end(page)
    ticks = page.evaluate("clearInterval(window.ticking), window.ticks")
    return 0.1 * ticks, time.monotonic() - begun


def seconds(page: Page) -> float:
    minutes, rest = (page.text_content("#vw-length") or "").strip("/ ").split(":")
    return 60 * int(minutes) + float(rest)


def choose(page: Page, rate: str) -> None:
    page.click("#vw-rate-button")
    page.locator(f"#vw-rates input[value='{rate}']").check()
    page.keyboard.press("Escape")


def test_volume_icon_shows_muted_at_volume_zero(studio: Page) -> None:
    button = studio.locator("#vw-volume-button")
    for volume, sign in (("0", "muted"), ("0.4", "volume"), ("0", "muted")):
        studio.locator("#vw-volume").evaluate(
            "(field, volume) => { field.value = volume; field.dispatchEvent(new Event('input')); }", volume
        )
        assert button.get_attribute("data-icon") == sign
    studio.reload()
    studio.locator("#vw-speak:enabled").wait_for()
    assert button.get_attribute("data-icon") == "muted"


def test_playback_speed_does_not_change_the_saved_file(studio: Page) -> None:
    kept_take(studio, TEXT)
    await_end(studio)
    before = Path(save(studio).path()).read_bytes()
    studio.keyboard.press("Escape")
    button = studio.locator("#vw-rate-button")
    expect(button).to_have_text("1×")
    studio.click("#vw-rate-button")
    studio.screenshot(path=SCREENSHOTS / "speed.png")
    studio.keyboard.press("Escape")
    choose(studio, "2")
    expect(button).to_have_text("2×")
    # At double speed, playback takes half of the audio's duration. The rest is a margin for a busy machine.
    ran_s, passed_s = play_s(studio)
    assert seconds(studio) / 2 - 1 < passed_s
    assert ran_s < 0.85 * seconds(studio)
    expect(studio.locator("#vw-time")).to_have_text((studio.text_content("#vw-length") or "").strip("/ "))
    assert Path(save(studio).path()).read_bytes() == before
    studio.keyboard.press("Escape")
    reload_to_speak(studio)
    kept_take(studio, TEXT)
    expect(button).to_have_text("2×")
    await_end(studio)
