"""Tests that the played audio is equal to the served audio in each room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import (
    SHORT,
    await_end,
    await_sound,
    kept_take,
    play_through,
    prepare,
    reading,
    save,
    seed,
    speaker,
    vary,
)
from tests.browser.wire import active_slots, sound_of, speak
from tests.support.app import App
from tests.support.timeouts import until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app(app_with_demo_voice: App) -> App:
    return app_with_demo_voice


TAP = Path(__file__).with_name("tap.js").read_text("utf-8")
WHOLE_TAKES = Path(__file__).with_name("whole_takes.js").read_text("utf-8")
HEADER_BYTES = 16  # Size of the header of an audio frame.
LONG = 80 * "The boat came back in the evening. "  # Text for several minutes of speech.
FREED_S = 10.0  # Timeout in seconds on a busy machine. It is shorter than the duration of the complete text.


def accent_pixels(page: Page) -> int:
    """Return the number of waveform pixels in the colour of played audio."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector('#vw-wave');
              const probe = document.createElement('canvas').getContext('2d');
              probe.fillStyle = getComputedStyle(canvas).getPropertyValue('--vw-accent');
              probe.fillRect(0, 0, 1, 1);
              const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
              const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              let count = 0;
              for (let i = 0; i < data.length; i += 4) {
                if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) count++;
              }
              return count;
            }"""
        )
    )


@pytest.mark.quick("speakers")
@pytest.mark.parametrize("room", ["speakers", "design", "clone"])
def test_speech_can_be_generated_in_every_room(studio: Page, room: str) -> None:
    prepare(studio, room)
    studio.click("#vw-speak")
    await_sound(studio)
    for _ in range(100):  # Speech starts with some silence.
        if accent_pixels(studio) > 0:
            break
        studio.wait_for_timeout(100)
    assert accent_pixels(studio) > 0
    assert int(reading(studio, "frames")) > 0
    assert reading(studio, "ttfa").endswith("s")
    errors = [text for text in studio.locator("[data-error-for]").all_inner_texts() if text]
    assert errors == []
    studio.screenshot(path=SCREENSHOTS / f"{room}.png", full_page=True)


def off_by(one: NDArray[np.int16], other: NDArray[np.int16]) -> int:
    """Return the largest difference between samples of two recordings of equal length."""
    assert one.size == other.size
    return int(np.abs(one.astype(np.int32) - other).max())


def served_frames(page: Page) -> list[bytes]:
    """Return the audio messages that the runtime has served since the previous call."""
    return [bytes(message) for message in page.evaluate("served()")]


def tapped(page: Page, size: int) -> NDArray[np.float64]:
    """Return the audio that the page has played, without silence at both ends.

    Wait until `size` samples have been played, but at most 10 seconds.
    """
    for _ in range(200):
        samples = np.trim_zeros(np.array(page.evaluate("tap.samples()")))
        if samples.size >= size:
            break
        page.wait_for_timeout(50)
    return samples


@pytest.mark.quick
def test_playback_receives_the_served_samples_bit_for_bit(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(script=TAP + WHOLE_TAKES)
    page.fill("#vw-text", SHORT)
    voice = speaker(page)
    page.evaluate("tap.clear()")
    play_through(page, "#vw-speak")
    assert reading(page, "underruns") == "0"
    assert float(reading(page, "rtf")) > 0
    assert reading(page, "reason") in {"did not end", "end of speech"}
    served = np.frombuffer(b"".join(frame[HEADER_BYTES:] for frame in served_frames(page)), "<i2")
    assert served.size == int(reading(page, "frames")) * 1920
    spoken = np.trim_zeros(served)
    assert np.array_equal(tapped(page, spoken.size), spoken)
    file = save(page)
    assert file.suggested_filename.endswith(".wav")
    saved, rate = soundfile.read(file.path(), dtype="int16")
    assert rate == 24000
    assert np.array_equal(saved, served)
    # The second playback uses audio in memory. It must have the same samples and send no request.
    page.evaluate("tap.clear()")
    play_through(page, "#vw-play")
    assert np.array_equal(tapped(page, spoken.size), spoken)
    assert served_frames(page) == []
    # A native client receives the same codes, but decoded in chunks of other sizes, so the last bit may differ.
    other = speak(app, SHORT, task_type="custom_voice", voice=voice, language="auto", seed=seed(page))
    assert off_by(other, served) <= 1


@pytest.mark.quick
def test_stop_silences_the_audio_immediately_and_frees_the_slot(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(script=TAP)
    page.fill("#vw-text", LONG)
    page.click("#vw-speak")
    await_sound(page)
    assert active_slots(app) == 1
    clicked = page.evaluate(
        """() => {
          document.querySelector('#vw-stop').click();
          return tap.context.currentTime;
        }"""
    )
    until(lambda: active_slots(app) == 0, FREED_S)
    page.wait_for_timeout(300)
    # Audio continues briefly after Stop: the device first plays its buffered samples, and then the volume falls to
    # zero within 5 ms.
    assert page.evaluate("tap.lastLoud") - clicked < 0.1
    assert reading(page, "reason") == "stopped"
    expect(page.locator("#vw-stop")).to_be_disabled()
    expect(page.locator("#vw-play"), "what was heard can be heard again").to_be_enabled()


def test_speaking_again_replaces_the_current_take(app: App, studio: Page) -> None:
    studio.click("#vw-speak")
    await_sound(studio)
    first = seed(studio)
    studio.keyboard.press("Control+Enter")
    await_sound(studio)
    assert seed(studio) != first
    assert active_slots(app) <= 1
    studio.click("#vw-stop")


def test_leaving_the_page_frees_the_slot(app: App, studio: Page) -> None:
    studio.fill("#vw-text", LONG)
    studio.click("#vw-speak")
    await_sound(studio)
    assert active_slots(app) == 1
    studio.close()
    until(lambda: active_slots(app) == 0, FREED_S)


def test_locked_seed_repeats_the_take_and_unlocked_seed_changes_the_take(app: App, studio: Page) -> None:
    def take() -> tuple[int, NDArray[np.int16]]:
        record = kept_take(studio, SHORT)
        return seed(studio), np.frombuffer(sound_of(app, record), "<i2")

    first_seed, first = take()
    vary(studio)
    studio.check("#vw-lock")
    again_seed, again = take()
    assert again_seed == first_seed
    assert off_by(again, first) <= 1
    studio.uncheck("#vw-lock")
    other_seed, other = take()
    assert other_seed != first_seed
    assert other.size != first.size or off_by(other, first) > 1000
    studio.fill("#vw-seed", str(first_seed))
    expect(studio.locator("#vw-lock"), "a seed that was typed is meant").to_be_checked()
    typed_seed, typed = take()
    assert typed_seed == first_seed
    assert off_by(typed, first) <= 1


def test_ctrl_enter_speaks_and_escape_stops(app: App, studio: Page) -> None:
    studio.focus("#vw-text")
    studio.keyboard.press("Control+Enter")
    await_sound(studio)
    studio.keyboard.press("Escape")
    await_end(studio)
    assert reading(studio, "reason") == "stopped"
