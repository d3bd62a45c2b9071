"""The page's frame in the windows that people have: nothing lies over a control, nothing moves by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import LETTERS, act, expect_state
from tests.browser.steps import enter, kept_take, wav

pytestmark = pytest.mark.browser

WINDOWS = [(1440, 900), (1366, 768), (1280, 720), (1024, 768), (360, 780)]
ROOMS = ("speakers", "design", "clone", "script", "library", "host")
SENTENCE = "The boat came back in the evening, and nobody on the quay had expected it so soon. "
LONG = SENTENCE * 10  # 160 words
MOST_SHIFT = 0.02  # Chrome calls 0.1 good

SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries()) {
    shifts.push({ value, what: sources.map(({ node }) => node?.id || node?.className || node?.nodeName) });
  }
}).observe({ type: 'layout-shift', buffered: true });
"""

# Each control is brought into view, as by focus; then whatever is seen at its middle must be itself or a part of it.
COVERED = """
(room) => {
  const all = ':is(button, input, select, textarea, a, summary, [role=slider])';
  const controls = document.querySelectorAll(`.vw-masthead ${all}, #vw-room-${room} ${all}, #vw-stage ${all}`);
  const covered = [];
  for (const control of controls) {
    if (!control.checkVisibility({ visibilityProperty: true })) continue;
    if (control.matches('.vw-offscreen, [aria-disabled=true]')) continue;
    control.scrollIntoView({ block: 'nearest' });
    const { left, top, width, height } = control.getBoundingClientRect();
    const seen = document.elementFromPoint(left + width / 2, top + height / 2);
    if (control.contains(seen)) continue;
    covered.push(`${control.id || control.className} under ${seen?.id || seen?.className}`);
  }
  return covered;
}
"""

# Rings of what has the focus, of what holds it, and of what stands for it.
RINGS = """
() => {
  const FIELDS = 'textarea, select, input:not([type=checkbox], [type=radio])'; // their line would be another ring
  const rings = (element) => {
    const { outlineStyle, outlineWidth, outlineOffset, borderTopWidth, boxShadow } = getComputedStyle(element);
    const outline = outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
    const halo = / 0px 0px 0px [1-9]/.test(boxShadow);
    const line = outline && parseFloat(borderTopWidth) > 0 && parseFloat(outlineOffset) > 0 && element.matches(FIELDS);
    return Number(outline) + Number(halo) + Number(line);
  };
  const focused = document.activeElement;
  const others = focused.nextElementSibling ? [focused.nextElementSibling] : [];
  for (let one = focused.parentElement; one && one.id !== 'vw'; one = one.parentElement) others.push(one);
  const own = focused.matches('.vw-offscreen') ? 0 : rings(focused);
  const name = focused.id || focused.className || focused.textContent;
  return { name, count: others.reduce((sum, one) => sum + rings(one), own) };
}
"""


def is_in_view(page: Page, selector: str) -> bool:
    """Whether its middle is seen without scrolling."""
    found: bool = page.evaluate(
        """(selector) => {
          const element = document.querySelector(selector);
          const { left, top, width, height } = element.getBoundingClientRect();
          return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
        }""",
        selector,
    )
    return found


@pytest.fixture(params=WINDOWS, ids=lambda size: f"{size[0]}x{size[1]}")
def window(request: pytest.FixtureRequest, open_studio: OpenStudio) -> Callable[..., Page]:
    """The page in a window of that size."""
    width, height = request.param

    def opened(**options: str) -> Page:
        return open_studio(viewport={"width": width, "height": height}, **options)

    return opened


def picture(page: Page, name: str) -> None:
    size = page.viewport_size
    assert size is not None
    page.screenshot(path=SCREENSHOTS / f"frame-{name}-{size['width']}.png")


def test_no_control_of_any_room_lies_under_another_element(window: Callable[..., Page]) -> None:
    page = window()
    kept_take(page, "Hi.")
    page.fill("#vw-text", LONG)
    page.fill("#vw-speakers-instruct", SENTENCE)
    found = {}
    for room in ROOMS:
        enter(page, room)
        if room == "design":
            page.fill("#vw-design-description", LONG)
        elif room == "clone":
            page.set_input_files("#vw-clone-file", wav(3.0))
            page.fill("#vw-clone-transcript", LONG)
            expect(page.locator("#vw-clone-keep")).to_be_visible()
        elif room == "script":
            page.locator(".vw-line-open").first.click()
            page.locator(".vw-line-text").first.fill(LONG)
        elif room == "library":
            page.locator(".vw-take-open").first.click()
        picture(page, room)
        found[room] = page.evaluate(COVERED, room)
    assert found == {room: [] for room in ROOMS}
    assert page.evaluate("document.documentElement.scrollHeight") <= page.evaluate("innerHeight")


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_the_first_button_is_in_sight_with_any_text(window: Callable[..., Page], room: str) -> None:
    page = window()
    enter(page, room)
    for words in (1, 100, 150, 400):
        page.fill("#vw-text", "evening " * words)
        assert is_in_view(page, "#vw-speak"), f"{words} words"


def test_the_form_that_keep_opens_is_seen(window: Callable[..., Page]) -> None:
    page = window()
    enter(page, "design")
    page.fill("#vw-text", "The kettle is on.")
    page.click("#vw-speak")
    expect_state(page, LETTERS, "done")
    page.keyboard.press("Escape")
    act(page, "B", "keep")
    expect(page.locator("#vw-design-name")).to_be_focused()
    for control in ("#vw-design-name", "#vw-design-keep", "#vw-design-keep-not"):
        assert is_in_view(page, control), control
    picture(page, "keep")
    assert page.evaluate(COVERED, "design") == []


def test_nothing_moves_while_the_page_loads_or_from_room_to_room(window: Callable[..., Page]) -> None:
    page = window(script=SHIFTS)
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < MOST_SHIFT, shifts
    tops = set()
    for room in ROOMS:
        enter(page, room)
        tops.add(page.evaluate("document.querySelector('#vw-stage').getBoundingClientRect().top"))
    assert len(tops) == 1, f"the player stands at {tops}"


def test_a_style_that_comes_late_moves_nothing(open_studio: OpenStudio) -> None:
    page = open_studio()

    def late(route: Route) -> None:
        time.sleep(0.7)  # a busy machine, a slow line
        route.continue_()

    page.route("**/studio/css/st*.css", late)
    page.add_init_script(SHIFTS)
    page.reload()
    page.locator("#vw-speak:enabled").wait_for()
    expect(page.locator("#vw-stage")).to_be_visible()
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < MOST_SHIFT, shifts


def test_a_window_too_low_for_three_rows_scrolls_as_a_whole(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 640, "height": 320})
    assert page.evaluate("document.documentElement.scrollHeight > innerHeight")
    for room in ROOMS:
        enter(page, room)
        assert page.evaluate(COVERED, room) == []


@pytest.mark.parametrize("room", ROOMS)
def test_what_has_the_focus_has_one_ring(studio: Page, room: str) -> None:
    enter(studio, room)
    studio.focus(".vw-tabs [tabindex='0']")
    seen: dict[str, int] = {}
    for _ in range(200):
        studio.keyboard.press("Tab")
        if studio.evaluate("document.activeElement === document.body"):
            break
        ring = studio.evaluate(RINGS)
        seen[ring["name"]] = ring["count"]
    assert len(seen) > 3
    assert {name: count for name, count in seen.items() if count > 1} == {}


def test_each_room_is_found_where_it_was_left(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 1280, "height": 600})
    rooms = page.locator(".vw-rooms")
    enter(page, "host")
    expect(page.locator("#vw-host-settings summary").first).to_be_visible()
    rooms.evaluate("(rooms) => { rooms.scrollTop = 200; }")
    enter(page, "speakers")
    assert rooms.evaluate("(rooms) => rooms.scrollTop") == 0
    enter(page, "host")
    assert rooms.evaluate("(rooms) => rooms.scrollTop") == 200
