"""Tests for the player bar: seek, pause, order of takes and start of playback."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.steps import SHORT, await_end, await_sound, clock, play_through, speak_whole

pytestmark = pytest.mark.browser


# Script that records every time in seconds that the player bar shows.
TOLD = """() => {
  const time = document.querySelector('#vw-time');
  window.shownTimes = [];
  const note = () => shownTimes.push(parseFloat(time.textContent.split(':')[1]));
  new MutationObserver(note).observe(time, { childList: true, characterData: true, subtree: true });
}"""


# Script that counts the utterances that the page requests.
COUNT_TAKES = """() => {
  window.asked = 0;
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (message) {
    if (typeof message === 'string' && JSON.parse(message).type === 'input.done') asked++;
    return send.call(this, message);
  };
}"""


def module(page: Page, body: str, **values: Any) -> Any:
    """Run a script that may import the page's JavaScript modules, and return its result."""
    return page.evaluate(f"async (given) => {{ {body} }}", values)


def test_waveform_is_a_slider_for_mouse_and_keyboard(studio: Page) -> None:
    speak_whole(studio, "A sentence that is long enough to be walked through from here to there, and on to its end.")
    length = float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0)
    assert length > 1
    assert clock(studio) == pytest.approx(length, abs=0.11), "it was played to its end"
    studio.focus("#vw-seek")
    studio.keyboard.press("Home")
    assert clock(studio) == 0
    studio.keyboard.press("ArrowRight")
    assert clock(studio) == 1.0
    studio.keyboard.press("ArrowLeft")
    assert clock(studio) == 0
    studio.keyboard.press("End")
    assert clock(studio) == pytest.approx(length, abs=0.11)
    box = studio.locator("#vw-wave").bounding_box()
    assert box is not None
    studio.evaluate(TOLD)
    studio.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(studio.locator("#vw-stop")).to_be_enabled()
    studio.wait_for_function("shownTimes.length > 0")
    shown = max(length, 4.0)  # Duration in seconds that the width of the waveform represents, which is at least 4 s.
    begun = studio.evaluate("shownTimes[0]")
    assert begun == pytest.approx(shown / 2, abs=0.6), "it plays on from where it was clicked"
    await_end(studio)


def test_space_pauses_and_resumes_playback(studio: Page) -> None:
    # The text is so long that the pause comes before its end on every machine.
    speak_whole(studio, 3 * "One more sentence that takes its time. ")
    length = float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0)
    studio.evaluate("document.activeElement.blur()")
    studio.keyboard.press("Space")
    studio.wait_for_function("parseFloat(document.querySelector('#vw-time').textContent.slice(2)) > 0.3")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Play")
    paused = clock(studio)
    assert 0.2 < paused < length
    expect(studio.locator("#vw-stop")).to_be_disabled()
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Pause")
    assert clock(studio) >= paused
    await_end(studio)
    assert clock(studio) == pytest.approx(length, abs=0.11)


def test_space_toggles_playback_after_the_speak_button_was_clicked(studio: Page) -> None:
    studio.evaluate(COUNT_TAKES)
    studio.fill("#vw-text", 3 * "One more sentence that takes its time. ")
    studio.click("#vw-speak")
    await_sound(studio)
    studio.wait_for_function("parseFloat(document.querySelector('#vw-time').textContent.slice(2)) > 0.3")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Play")
    studio.wait_for_function("document.querySelector('#vw-speak').checkVisibility()")
    assert clock(studio) > 0, "it is paused, and not stopped"
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Pause")
    studio.click("#vw-stop")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Pause")
    await_end(studio)
    assert studio.evaluate("asked") == 1, "no take was made but the first"


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_space_presses_the_speak_button_if_keyboard_focused(studio: Page, key: str) -> None:
    studio.evaluate(COUNT_TAKES)
    studio.fill("#vw-text", 3 * "One more sentence that takes its time. ")
    studio.focus("#vw-speak")
    studio.keyboard.press(key)
    await_sound(studio)
    expect(studio.locator("#vw-stop")).to_be_focused()
    studio.keyboard.press(key)
    expect(studio.locator("#vw-speak")).to_be_focused()
    assert clock(studio) == 0, "it is stopped"
    studio.keyboard.press(key)
    expect(studio.locator("#vw-stop")).to_be_focused()
    studio.click("#vw-stop")
    assert studio.evaluate("asked") == 2


def test_space_in_a_field_types_a_space(studio: Page) -> None:
    studio.fill("#vw-text", "one")
    studio.focus("#vw-text")
    studio.keyboard.press("End")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-text")).to_have_value("one ")
    expect(studio.locator("#vw-stop")).to_be_disabled()


def test_streaming_continues_while_playback_is_paused(studio: Page) -> None:
    studio.fill("#vw-text", "A sentence that is still being made when it is paused, so that there is more to come.")
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-play")
    paused = clock(studio)
    studio.locator("#vw-download[href]").wait_for(state="attached")
    assert clock(studio) == paused
    assert float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0) > paused
    play_through(studio, "#vw-play")


def test_short_take_replays_from_the_start(studio: Page) -> None:
    speak_whole(studio, SHORT)
    studio.click("#vw-play")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    assert clock(studio) < 1
    await_end(studio)
