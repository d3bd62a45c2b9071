"""Tests for the page's processor use while it is idle and during playback."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import OpenStudio
from tests.browser.steps import await_end, await_sound
from tests.support.app import App

pytestmark = pytest.mark.browser

# Script that counts requests for animation frames and changes of the player bar. It runs before the page's own scripts.
COUNTED = """
window.frames_asked = window.dock_written = 0;
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (then) => {
  window.frames_asked += 1;
  return ask(then);
};
"""
# Script that returns four values after twenty ticks of 100 ms: the number of requested frames, the number of changes of
# the player bar, the elapsed seconds, and true if playback continues. On a busy machine, the ticks take longer.
COST = """() => new Promise((done) => {
  const begun = performance.now(), before = window.frames_asked;
  new MutationObserver(() => (window.dock_written += 1)).observe(document.querySelector('#vw-stage'), {
    subtree: true, childList: true, characterData: true, attributes: true,
  });
  let ticks = 0;
  const ticking = setInterval(() => {
    ticks += 1;
    if (ticks < 20) return;
    clearInterval(ticking);
    const seconds = (performance.now() - begun) / 1000;
    done([window.frames_asked - before, window.dock_written, seconds, !document.querySelector('#vw-stop').disabled]);
  }, 100);
})"""
TEXT = 12 * "The harbour was quiet. "


@pytest.fixture(scope="module")
def app(app_with_demo_voice: App) -> App:
    return app_with_demo_voice


def frames_in(page: Page, ms: int) -> int:
    before = page.evaluate("window.frames_asked")
    page.wait_for_timeout(ms)
    return int(page.evaluate("window.frames_asked")) - int(before)


def test_idle_page_requests_no_animation_frames_and_playback_rarely_updates_the_dom(open_studio: OpenStudio) -> None:
    page = open_studio(script=COUNTED)
    for _ in range(30):  # Gradio's own loop of animation frames ends about a second after the page has appeared.
        if frames_in(page, 500) == 0:
            break
    assert frames_in(page, 1000) == 0

    page.fill("#vw-text", TEXT)
    page.click("#vw-speak")
    await_sound(page)
    asked, written, seconds, still_sounds = page.evaluate(COST)
    assert still_sounds
    assert asked <= 2 * seconds + 1
    assert 3 <= written <= 20 * seconds
    page.click("#vw-stop")
    await_end(page)
