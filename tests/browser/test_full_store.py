"""Tests for rooms with many takes, voices and scripts: no element moves during loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, VOICES, OpenStudio
from tests.browser.design_steps import SAID, keep_take, origin
from tests.browser.steps import enter, wav
from tests.browser.test_frame import MAX_SHIFT, SHIFTS, WINDOWS

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

FILLED = {  # URL fragment of each room, and an element that is visible when all stored items have loaded.
    "speak": "#vw-speak:enabled",
    "design": "#vw-design-description",
    "clone": "#vw-clone-file",
    "script": "#vw-script-lines > li",
    "library": "#vw-takes-list .vw-take",
    "host": "#vw-host-settings summary",
}


def keep_voice(page: Page, name: str, **fields: str) -> str:
    form: dict[str, Any] = {"name": name, "consent": f"{name} agrees.", "ref_text": SAID, **fields}
    answer = page.request.post(f"{origin(page)}{VOICES}", multipart={**form, "audio_sample": wav(4.0)})
    assert answer.ok, answer.text()
    return str(answer.json()["id"])


def keep_script(page: Page, name: str, voices: list[str], lines: int = 8) -> str:
    script_id = f"{len(name):016x}"
    who = [{"mode": "base", "voice": voices[at % len(voices)]} for at in range(lines)]
    said = [{"id": f"{at:016x}", "text": SAID, "voice": one, "seed": 7} for at, one in enumerate(who)]
    fields = {"name": name, "gap_s": 0.4, "lines": said, "voices": who[: len(voices)], "seconds": 60.0}
    answer = page.request.put(f"{origin(page)}/studio/scripts/{script_id}", data=fields)
    assert answer.ok, answer.text()
    return script_id


@contextmanager
def full_store(page: Page) -> Iterator[None]:
    """Store many takes, voices and scripts until the block ends.

    The scripts are deleted at the end, because their voices are deleted too.
    """
    voices = [keep_voice(page, name) for name in ("Carla", "Peter", "Wilma")]
    for number in range(12):
        keep_take(page, number)
    scripts = [keep_script(page, name, voices) for name in ("The hat", "At the river")]
    yield
    for script in scripts:
        assert page.request.delete(f"{origin(page)}/studio/scripts/{script}").ok


# Script that delays callbacks of animation frames by 30 frames, as on a busy machine.
LATE_FRAMES = """
const frame = requestAnimationFrame;
const after = (frames, action) => frame(frames === 0 ? action : () => after(frames - 1, action));
window.requestAnimationFrame = (action) => after(30, action);
"""
FRAMES = [pytest.param(window, "", id=f"{window[0]}x{window[1]}") for window in WINDOWS]
FRAMES.append(pytest.param(WINDOWS[-1], LATE_FRAMES, id="late-frames"))


@pytest.mark.parametrize(("window", "frames"), FRAMES)
def test_room_opened_by_its_url_loads_without_layout_shift(
    open_studio: OpenStudio, window: tuple[int, int], frames: str
) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]})
    page.add_init_script(SHIFTS + frames)
    moved, address = {}, origin(page)
    with full_store(page):
        for room, filled in FILLED.items():
            page.goto("about:blank")
            page.goto(f"{address}/#/{room}", wait_until="domcontentloaded")
            expect(page.locator(filled).first).to_be_visible()
            page.locator("#vw-models:not(:empty)").wait_for(state="attached")
            page.wait_for_load_state("networkidle")
            page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
            page.screenshot(path=SCREENSHOTS / f"full-{room}-{window[0]}.png")
            moved[room] = page.evaluate("shifts")
    sums = {room: round(sum(shift["value"] for shift in shifts), 4) for room, shifts in moved.items()}
    assert {room: moved[room] for room, total in sums.items() if total >= MAX_SHIFT} == {}
    assert "vw-text-ways" not in str(moved), "the length of the text has its line before the room is seen"


def test_designed_takes_of_the_same_text_show_their_descriptions(studio: Page) -> None:
    described = {
        keep_take(studio, at, config={"instructions": said}): said for at, said in enumerate(("Low.", "High."))
    }
    enter(studio, "library")
    for take, said in described.items():
        expect(studio.locator(f"[data-take='{take}'] small")).to_contain_text(said)


def test_library_shows_no_seed_for_takes_that_were_stored_without_one(studio: Page) -> None:
    takes = [keep_take(studio, 2) for _ in range(2)]
    enter(studio, "library")
    for take in takes:
        small = studio.locator(f"[data-take='{take}'] small")
        expect(small).to_contain_text("Take 2B")
        expect(small).not_to_contain_text("Seed")
