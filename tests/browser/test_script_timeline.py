"""Tests for a script's timeline: clips of lines, total duration and seeking."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.script_steps import (
    GAP_S,
    RATE,
    await_made,
    await_saved,
    await_silence,
    decoded,
    export,
    heard,
    joined,
    line,
    listen_anew,
    make_all,
    silence,
    stored_script,
    text_of,
    texts,
)
from tests.browser.steps import clock
from tests.support.app import App

pytestmark = pytest.mark.browser


def clip(page: Page, number: int) -> Locator:
    return page.locator(".vw-clip").nth(number - 1)


def places(page: Page) -> list[tuple[float, float]]:
    """Return the start and end of each clip as fractions of the timeline's width."""
    found: list[tuple[float, float]] = page.evaluate(
        """() => {
          const { left, width } = document.querySelector('.vw-timeline-in').getBoundingClientRect();
          return [...document.querySelectorAll('.vw-clip')].map((clip) => {
            const box = clip.getBoundingClientRect();
            return [(box.left - left) / width, (box.right - left) / width];
          });
        }"""
    )
    return found


def test_timeline_clip_is_as_long_as_the_audio_of_its_script_line(script: Page, app: App) -> None:
    expect(clip(script, 2)).to_have_attribute("data-state", "unmade")
    assert clip(script, 2).evaluate("(clip) => getComputedStyle(clip).borderTopStyle") == "dashed"
    expect(script.locator("#vw-script-total")).to_contain_text("3 not made yet")
    make_all(script)
    expect(clip(script, 2)).to_have_attribute("data-state", "made")
    assert clip(script, 2).locator("path").get_attribute("d"), "its sound is drawn"
    expected, lines = joined(script, app)
    ends = np.cumsum([len(sound) + GAP_S * RATE for sound in lines]) - GAP_S * RATE
    starts = ends - [len(sound) for sound in lines]
    whole = np.stack([starts, ends], axis=1) / len(expected)
    assert np.array(places(script)) == pytest.approx(whole, abs=0.005)
    script.reload(wait_until="domcontentloaded")
    expect(clip(script, 2)).to_have_attribute("data-state", "made")
    assert clip(script, 2).locator("path").get_attribute("d"), "also before anything was fetched"


def test_played_script_is_one_recording_in_the_player_bar(script: Page, app: App) -> None:
    make_all(script)
    expected, lines = joined(script, app)
    script.click("#vw-speak")
    await_silence(script)
    assert clock(script) == pytest.approx(len(expected) / RATE, abs=0.06), "at its end"
    length = float(script.get_attribute("#vw-seek", "aria-valuemax") or 0)
    assert length == pytest.approx(len(expected) / RATE, abs=0.06)
    expect(script.locator("#vw-caption")).to_have_text("At the river")

    script.focus("#vw-seek")
    script.keyboard.press("Home")
    script.keyboard.press("ArrowRight")
    assert clock(script) == 1.0
    listen_anew(script)
    script.click("#vw-play")
    await_silence(script)
    assert np.array_equal(heard(script), np.trim_zeros(expected[RATE:])), (
        "from there, over the line's end and all the rest"
    )

    # Position in the silence between two lines.
    at = round((len(lines[0]) / RATE + GAP_S / 2) * 10) / 10
    box = script.locator(".vw-timeline-in").bounding_box()
    assert box is not None
    listen_anew(script)
    script.mouse.click(box["x"] + box["width"] * at * RATE / len(expected), box["y"] + box["height"] - 2)
    assert clock(script) == pytest.approx(at, abs=0.06)
    script.click("#vw-play")
    expect(line(script, 2)).to_have_attribute("aria-current", "true")
    expect(script.locator("#vw-caption")).to_contain_text("Line 2 of 3, Angus: Yes.")
    await_silence(script)
    rest = np.concatenate([lines[1], np.zeros(round(GAP_S * RATE), np.int16), lines[2]])
    assert np.array_equal(heard(script), np.trim_zeros(rest))


def test_timeline_keys_work_during_playback_and_when_paused(script: Page) -> None:
    make_all(script)
    script.reload(wait_until="domcontentloaded")
    await_made(script, 1, 2, 3)
    timeline = script.locator("#vw-script-timeline")
    timeline.focus()
    script.keyboard.press("End")
    end = float(timeline.get_attribute("aria-valuenow") or 0)
    assert end == pytest.approx(float(timeline.get_attribute("aria-valuemax") or -1))
    script.keyboard.press("ArrowLeft")
    assert clock(script) == pytest.approx(end - 1, abs=0.11)
    expect(script.locator(".vw-timeline-head")).to_be_visible()
    expect(script.locator("#vw-stop")).to_be_disabled()
    script.keyboard.press("Home")
    script.click("#vw-play")
    expect(line(script, 1)).to_have_attribute("aria-current", "true")
    timeline.focus()
    script.keyboard.press("End")
    script.keyboard.press("ArrowLeft")
    expect(line(script, 3)).to_have_attribute("aria-current", "true")
    script.keyboard.press("Escape")
    assert clock(script) > 0, "Stop leaves the place"


def test_timeline_updates_immediately_when_a_line_changes(script: Page) -> None:
    before = places(script)
    text_of(script, 2).fill("Yes. " * 20)
    script.wait_for_function("(before) => document.querySelectorAll('.vw-clip')[1].clientWidth > before", arg=100)
    after = places(script)
    assert after[1][1] - after[1][0] > 2 * (before[1][1] - before[1][0])
    text_of(script, 3).fill("")
    expect(script.locator(".vw-clip")).to_have_count(2)


def test_timeline_stays_visible_and_never_covers_the_focused_line(script: Page) -> None:
    script.set_viewport_size({"width": 1024, "height": 640})
    text_of(script, 3).focus()
    for _ in range(12):
        script.keyboard.press("Enter")
    top = script.locator(".vw-script-top")
    box = top.bounding_box()
    assert box is not None
    assert box["y"] < 200, "it has not scrolled away"
    for _ in range(14):
        script.keyboard.press("ArrowUp")
        field = script.evaluate("document.activeElement.getBoundingClientRect().top")
        assert field >= box["y"] + box["height"] - 1
    await_made(script)


def middle(page: Page, place: Locator) -> tuple[float, float]:
    box = place.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_timeline_clip_is_moved_by_dragging(script: Page) -> None:
    first, second, third = texts(script)
    x, y = middle(script, clip(script, 1))
    right = script.locator(".vw-timeline-in").bounding_box()
    assert right is not None
    script.mouse.move(x, y)
    script.mouse.down()
    script.mouse.move(right["x"] + right["width"] - 3, y, steps=4)
    expect(script.locator(".vw-timeline-drop")).to_be_visible()
    # The preview is hidden during a drag, because it would show the previous position of the clip.
    expect(script.locator(".vw-timeline-hover")).to_be_hidden()
    script.mouse.up()
    assert texts(script) == [second, third, first]
    expect(script.locator("#vw-script-live")).to_have_text("Now line 3.")
    assert script.locator("[data-lifted]").count() == 0
    x, y = middle(script, clip(script, 2))
    to, _ = middle(script, clip(script, 1))
    script.mouse.move(x, y)
    script.mouse.down()
    script.mouse.move(to - 10, y, steps=4)
    script.mouse.up()
    assert texts(script) == [third, second, first]


def drag(page: Page, number: int, x: float) -> None:
    """Drag a clip to a horizontal position on the screen."""
    at, y = middle(page, clip(page, number))
    page.mouse.move(at, y)
    page.mouse.down()
    page.mouse.move(x, y, steps=4)
    page.mouse.up()


def test_dragging_a_timeline_clip_can_be_undone_without_losing_other_edits(script: Page) -> None:
    lines = first, second, third = texts(script)
    script.locator("#vw-script-name").fill("The hat")
    script.locator("#vw-script-name").blur()
    end = script.locator(".vw-timeline-in").bounding_box()
    assert end is not None
    drag(script, 1, end["x"] + end["width"] - 3)
    script.get_by_role("button", name="Undo").last.click()
    assert texts(script) == lines
    drag(script, 1, end["x"] + end["width"] - 3)
    drag(script, 1, end["x"] + end["width"] - 3)
    assert texts(script) == [third, first, second]
    x, y = middle(script, script.locator(".vw-timeline-gaps i").first)
    script.mouse.move(x, y)
    script.mouse.down()
    script.mouse.move(x + 40, y, steps=4)
    script.mouse.up()
    pause = line(script, 1).locator(".vw-line-gap")
    expect(pause).not_to_have_value("")
    script.keyboard.press("Control+z")
    expect(pause).to_have_value("")
    for expected in ([second, third, first], lines, lines):  # After these three steps, there is nothing left to undo.
        script.keyboard.press("Control+z")
        assert texts(script) == expected
    expect(script.locator("#vw-script-name")).to_have_value("The hat")


def test_browser_undo_in_a_pause_field_updates_the_timeline(script: Page) -> None:
    timeline = script.locator("#vw-script-timeline")
    before = float(timeline.get_attribute("aria-valuemax") or 0)
    line(script, 1).locator(".vw-line-open").click()
    pause = line(script, 1).locator(".vw-line-gap")
    pause.press("3")
    pause.press("Tab")
    expect(timeline).to_have_attribute("aria-valuemax", f"{before + 3 - GAP_S:.1f}")
    text_of(script, 1).focus()
    script.keyboard.press("Control+z")
    expect(pause).to_have_value("")
    expect(timeline).to_have_attribute("aria-valuemax", f"{before:.1f}")


def test_moving_or_removing_a_script_line_by_keyboard_can_be_undone(script: Page) -> None:
    lines = texts(script)
    text_of(script, 3).focus()
    script.keyboard.press("Alt+ArrowUp")
    script.keyboard.press("Alt+ArrowUp")
    line(script, 2).locator(".vw-line-open").click()
    line(script, 2).locator(".vw-line-remove").click()
    assert texts(script) == [lines[2], lines[1]]
    script.keyboard.press("Control+z")
    script.keyboard.press("Control+z")
    script.keyboard.press("Control+z")
    assert texts(script) == lines


def test_touch_drag_moves_a_clip_after_a_long_press_and_scrolls_otherwise(script: Page) -> None:
    first, second, third = texts(script)
    devtools = script.context.new_cdp_session(script)

    def touch(kind: str, x: float, y: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    x, y = middle(script, clip(script, 1))
    to, _ = middle(script, clip(script, 2))
    for hold, expected in ((0, [first, second, third]), (500, [second, first, third])):
        touch("touchStart", x, y)
        script.wait_for_timeout(hold)
        for step in range(1, 6):
            touch("touchMove", x + (to + 20 - x) * step / 5, y)
        touch("touchEnd", 0, 0)
        assert texts(script) == expected


def test_dragging_the_gap_after_a_timeline_clip_changes_playback_and_export(script: Page, app: App) -> None:
    make_all(script)
    scale = float(script.locator("#vw-script-timeline").get_attribute("aria-valuemax") or 0)
    box = script.locator(".vw-timeline-in").bounding_box()
    assert box is not None
    handle = script.locator(".vw-timeline-gaps i").first
    x, y = middle(script, handle)
    script.mouse.move(x, y)
    script.mouse.down()
    script.mouse.move(x + 0.6 * box["width"] / scale, y, steps=5)
    expect(script.locator(".vw-timeline-hover")).to_contain_text(" s")
    script.mouse.up()
    line(script, 1).locator(".vw-line-open").click()
    pause = float(line(script, 1).locator(".vw-line-gap").input_value())
    assert pause == pytest.approx(GAP_S + 0.6, abs=0.051)
    await_saved(script)
    kept = stored_script(script, app)["lines"]
    assert [each.get("gap") for each in kept] == [pause, None, None]

    line(script, 2).locator(".vw-line-open").click()
    line(script, 2).locator(".vw-line-gap").fill("0")
    line(script, 2).locator(".vw-line-gap").blur()
    await_saved(script)
    _, (one, two, three) = joined(script, app)
    expected = np.concatenate([one, silence(pause), two, three])
    _, data = export(script, "joined", format="wav", loudness="")
    assert np.array_equal(decoded(data), expected)
    listen_anew(script)
    line(script, 1).locator(".vw-line-play").click()
    await_silence(script)
    assert np.array_equal(heard(script), np.trim_zeros(expected))
    assert float(script.get_attribute("#vw-seek", "aria-valuemax") or 0) == pytest.approx(
        len(expected) / RATE, abs=0.06
    )
    handle.dblclick()
    expect(line(script, 1).locator(".vw-line-gap")).to_have_value("")  # The line has the default pause again.


def test_click_between_timeline_clips_seeks_without_changing_the_gap(script: Page) -> None:
    timeline = script.locator("#vw-script-timeline")
    handle = script.locator(".vw-timeline-gaps i").first
    box = handle.bounding_box()
    inner = script.locator(".vw-timeline-in").bounding_box()
    assert box is not None
    assert inner is not None
    x = box["x"] + box["width"] / 2
    script.mouse.click(x, box["y"] + box["height"] - 2)  # Click at the lower edge of the timeline.
    length = float(timeline.get_attribute("aria-valuemax") or 0)
    expected = length * (x - inner["x"]) / inner["width"]
    assert float(timeline.get_attribute("aria-valuenow") or 0) == pytest.approx(
        expected, abs=length / inner["width"] + 0.1
    )
    expect(line(script, 1).locator(".vw-line-gap")).to_have_value("")


def test_click_on_a_timeline_clip_selects_its_script_line(script: Page) -> None:
    x, y = middle(script, clip(script, 3))
    script.mouse.click(x, y)
    expect(line(script, 3).locator(".vw-line-grip")).to_be_focused()
    expect(clip(script, 3)).to_have_attribute("data-chosen", "")
    script.keyboard.press("Alt+ArrowUp")
    expect(clip(script, 2)).to_have_attribute("data-chosen", "")
