"""Test that takes screenshots of every room for the README.

Only `make tour` takes the screenshots and writes them to docs/images.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.design_steps import LETTERS, enter_design, expect_state, make_three, state
from tests.browser.script_steps import enter_script, line
from tests.browser.steps import await_end, enter, kept_take, play_through, reading
from tests.support.app import ROOT, App

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif("VOICEWRIGHT_TOUR" not in os.environ, reason="pictures for the README: make tour"),
]

PICTURES = Path(os.environ.get("VOICEWRIGHT_TOUR", ""))
TEXT = "The kettle has just boiled. Sit down for a minute, and I will tell you what the sea looked like this morning."
RECORDING = ROOT / "assets" / "demo-voice" / "samples" / "clara.wav"


def photograph(page: Page, name: str) -> None:
    """Take a screenshot of the page.

    The waveform must be visible, and playback must not have had an underrun.
    """
    page.mouse.move(0, 0)
    assert reading(page, "underruns") in {"0", "–"}, f"the sound of {name} ran dry: the machine does other things too"
    picture = Image.open(io.BytesIO(page.locator("#vw-wave").screenshot()))
    assert max(ImageStat.Stat(picture.convert("L")).stddev) > 5, f"nothing is to be seen on the stage of {name}"
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


@pytest.fixture(scope="module")
def app(app_with_demo_voice: App) -> App:
    return app_with_demo_voice


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots_show_every_room_in_use(open_studio: OpenStudio, scheme: str) -> None:
    page = open_studio(color_scheme=scheme, viewport={"width": 1280, "height": 960})
    kept_take(page, TEXT)
    await_end(page)
    # If the first playback had an underrun, play the audio again from memory.
    if reading(page, "underruns") != "0":
        play_through(page, "#vw-play")
    photograph(page, f"speakers-{scheme}")

    enter_design(page, "Good evening. The last ferry leaves at nine, and the sea is calm tonight.")
    make_three(page)
    assert [state(page, letter) for letter in LETTERS] == ["done"] * 3
    expect_state(page, LETTERS, "done")
    page.keyboard.press("2")
    expect(page.locator("#vw-stop")).to_be_enabled()
    photograph(page, f"design-{scheme}")
    page.keyboard.press("Escape")

    enter(page, "clone")
    page.set_input_files("#vw-clone-file", RECORDING)
    expect(page.locator("#vw-clone-trim")).to_be_visible()
    expect(page.locator("#vw-clone-clinic")).to_have_attribute("data-state", "said")
    photograph(page, f"clone-{scheme}")

    enter_script(page)
    expect(line(page, 1)).to_be_visible()
    photograph(page, f"script-{scheme}")

    enter(page, "library")
    expect(page.locator("#vw-takes-list .vw-take").first).to_be_visible()
    photograph(page, f"library-{scheme}")
