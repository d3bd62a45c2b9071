"""Tests for the layout in common window sizes: no element covers or moves another."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, Route, TimeoutError, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import LETTERS, act, card, expect_state, make_three
from tests.browser.steps import await_sound, clone_from, enter, kept_take, prepare, recall_a_take, wav
from tests.support.app import App

pytestmark = pytest.mark.browser

WINDOWS = [(1440, 900), (1366, 768), (1280, 720), (1024, 768), (360, 780)]
ROOMS = ("speakers", "design", "clone", "script", "library", "host")
SENTENCE = "The boat came back in the evening, and nobody on the quay had expected it so soon. "
LONG = SENTENCE * 10  # Text with 160 words.
MAX_SHIFT = 0.02  # Maximum layout shift. Chrome rates shifts up to 0.1 as good.

# Script that measures layout shifts. The page waits 1.2 s for fonts (studio/page/template.py), and the layout shifts a
# little if they arrive later. A machine with tests on every core can be this slow, so the page waits for a minute here.
SHIFTS = """
const later = setTimeout;
window.setTimeout = (callback, wait, ...values) => later(callback, wait === 1200 ? 60000 : wait, ...values);
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput, sources } of list.getEntries()) {
    const what = sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    shifts.push({ value, hadRecentInput, what });
  }
}).observe({ type: 'layout-shift', buffered: true });
"""

# Script that logs key presses and their effects, for the error message of a test that waits for an effect.
KEY_PRESSES = """
() => {
  window.presses = [];
  const note = ({ type, key = '', target }) => presses.push(`${type} ${key} ${target.id || target.nodeName}`);
  const types = ['keydown', 'keypress', 'submit', 'click', 'focusin', 'focusout'];
  for (const type of types) addEventListener(type, note, true);
}
"""
FORM = """
() => {
  const places = [...document.querySelectorAll('#vw-design-keep-form .vw-error, #vw-toasts')];
  const said = places.map(({ textContent }) => textContent);
  const { disabled } = document.querySelector('#vw-design-keep');
  const { hidden } = document.querySelector('#vw-design-keep-form');
  const name = document.querySelector('#vw-design-name').value;
  const focus = document.activeElement.id || document.activeElement.nodeName;
  const sent = performance.getEntriesByType('resource').slice(-5).map((entry) => entry.name);
  return JSON.stringify({ presses, focus, name, disabled, hidden, said, sent, hasFocus: document.hasFocus() });
}
"""

# Script that scrolls each control into view and checks that the element at its centre is the control or its child.
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

# Script that returns the outlines of the focused element, of its container and of the element that represents it.
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

CLIPPED = """
() => {
  const { scrollWidth, clientWidth } = document.querySelector('.vw-masthead');
  return scrollWidth - clientWidth;
}
"""


def is_in_view(page: Page, selector: str) -> bool:
    """Return True if the centre of the element is visible without scrolling."""
    found: bool = page.evaluate(
        """(selector) => {
          const element = document.querySelector(selector);
          const { left, top, width, height } = element.getBoundingClientRect();
          return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
        }""",
        selector,
    )
    return found


def in_each_window(page: Page) -> Iterator[str]:
    """Resize the page to each window size, and yield the size as text."""
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        yield f"{width}x{height}"


def expect_no_shift(page: Page, limit: float = MAX_SHIFT) -> None:
    """Check the sum of the layout shifts, including those of the next frame."""
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < limit, shifts


def picture(page: Page, name: str) -> None:
    size = page.viewport_size
    assert size is not None
    page.screenshot(path=SCREENSHOTS / f"frame-{name}-{size['width']}.png")


def fill_in(page: Page, room: str) -> None:
    """Fill a room with as much content as real users have."""
    if room == "design":
        page.fill("#vw-design-description", LONG)
    elif room == "clone":
        clone_from(page, wav(3.0), LONG)
        expect(page.locator("#vw-clone-keep")).to_be_visible()
    elif room == "script":
        page.locator(".vw-line-open").first.click()
        page.locator(".vw-line-text").first.fill(LONG)
    elif room == "library":
        page.locator(".vw-take-open").first.click()


def test_no_control_is_covered_by_another_element(studio: Page) -> None:
    kept_take(studio, "Hi.")
    studio.fill("#vw-text", LONG)
    studio.fill("#vw-speakers-instruct", SENTENCE)
    found, scrolls, clipped = {}, {}, {}
    for room in ROOMS:
        enter(studio, room)
        fill_in(studio, room)
        for window in in_each_window(studio):
            picture(studio, room)
            found[room, window] = studio.evaluate(COVERED, room)
            scrolls[room, window] = studio.evaluate("document.documentElement.scrollHeight > innerHeight")
            clipped[room, window] = studio.evaluate(CLIPPED)
    assert {place: covered for place, covered in found.items() if covered} == {}
    assert not any(scrolls.values()), scrolls
    assert not any(clipped.values()), clipped


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_primary_button_is_in_view_for_any_text_length(studio: Page, room: str) -> None:
    prepare(studio, room)
    for window in in_each_window(studio):
        for words in (1, 100, 150, 400):
            studio.fill("#vw-text", "evening " * words)
            assert is_in_view(studio, "#vw-speak"), f"{words} words in {window}"


def test_save_form_is_scrolled_into_view(studio: Page) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", "The kettle is on.")
    studio.click("#vw-speak")
    expect_state(studio, LETTERS, "done")
    studio.keyboard.press("Escape")
    for window in in_each_window(studio):
        act(studio, "B", "keep")
        expect(studio.locator("#vw-design-name")).to_be_focused()
        for control in ("#vw-design-name", "#vw-design-keep", "#vw-design-keep-not"):
            assert is_in_view(studio, control), f"{control} in {window}"
        picture(studio, "keep")
        assert studio.evaluate(COVERED, "design") == [], window
        studio.click("#vw-design-keep-not")


@pytest.mark.parametrize("window", WINDOWS, ids=lambda size: f"{size[0]}x{size[1]}")
def test_page_load_and_room_changes_cause_no_layout_shift(open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]}, script=SHIFTS)
    expect_no_shift(page)
    tops = set()
    for room in ROOMS:
        enter(page, room)
        dock = page.locator("#vw-stage")
        if dock.is_visible():  # The player bar is hidden in a room that has nothing to start or to play.
            tops.add(dock.evaluate("(dock) => dock.getBoundingClientRect().top"))
    assert len(tops) == 1, f"the dock stands at {tops}"


@pytest.mark.parametrize("window", WINDOWS, ids=lambda size: f"{size[0]}x{size[1]}")
def test_choosing_a_recording_barely_shifts_the_steps_below(open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]}, script=SHIFTS)
    enter(page, "clone")
    page.wait_for_timeout(600)  # Layout shifts within half a second of a click are attributed to the click.
    page.evaluate("shifts.length = 0")
    page.set_input_files("#vw-clone-file", wav(12.0))
    expect(page.locator("#vw-clone-clinic")).to_have_attribute("data-state", "said")
    picture(page, "recording")
    expect_no_shift(page)


@pytest.mark.usefixtures("no_voices")
@pytest.mark.parametrize("window", WINDOWS, ids=lambda size: f"{size[0]}x{size[1]}")
def test_saving_a_take_does_not_shift_older_sets_of_takes(open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]}, script=SHIFTS)
    enter(page, "design")
    # The text is too short for reference audio, so the form shows a hint.
    page.fill("#vw-text", "Good evening. The last ferry leaves at nine.")
    make_three(page)
    make_three(page)
    page.keyboard.press("Escape")
    act(page, "B", "keep")
    expect(page.locator("#vw-design-short")).to_be_visible()
    expect(page.locator("#vw-design-name")).to_be_focused()  # Without the focus, the key would have no effect.
    expect(page.locator("#vw-design-name")).not_to_have_value("")  # A voice without a name cannot be saved.
    held: list[Route] = []
    page.route("**/voice", lambda route: held.append(route))
    page.evaluate(KEY_PRESSES)
    try:
        with page.expect_event("request", lambda request: request.url.endswith("/voice")):
            page.keyboard.press("Enter")
    except TimeoutError as error:
        raise AssertionError(f"no request of {len(held)} that are held: {page.evaluate(FORM)}") from error
    page.wait_for_timeout(600)  # Layout shifts within half a second of a key press are attributed to the key.
    page.evaluate("shifts.length = 0")
    held.pop().continue_()
    expect_state(page, "B", "kept")
    expect_no_shift(page, 0.005)
    # The card has the same height after the room is opened again.
    asked = card(page, "B").evaluate("(card) => card.offsetHeight")
    enter(page, "speakers")
    enter(page, "design")
    assert card(page, "B").evaluate("(card) => card.offsetHeight") < asked


def test_takes_restored_after_reload_cause_no_layout_shift(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 1366, "height": 768}, script=SHIFTS)
    enter(page, "design")
    make_three(page)
    make_three(page)
    page.keyboard.press("Escape")
    page.reload(wait_until="domcontentloaded")
    expect(page.locator(".vw-design-set")).to_have_count(2)
    expect(page.locator("#vw-room-design .vw-design-keys")).to_be_visible()
    expect_no_shift(page)


@pytest.mark.parametrize("window", WINDOWS[:-1], ids=lambda size: f"{size[0]}x{size[1]}")
def test_voice_picker_does_not_cover_the_player_bar(open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]})
    enter(page, "script")
    lines = page.locator("#vw-script-lines > li .vw-line-voice")
    for button in (lines.first, lines.last):
        button.click()
        sheet = page.locator("#vw-voice-sheet").bounding_box()
        dock = page.locator("#vw-stage").bounding_box()
        assert sheet
        assert dock
        assert sheet["y"] >= 0
        assert sheet["y"] + sheet["height"] <= dock["y"]
        page.keyboard.press("Escape")


@pytest.mark.parametrize("window", [(1280, 720), (1024, 768), (360, 780)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_notification_does_not_overlap_the_page_content(open_studio: OpenStudio, window: tuple[int, int]) -> None:
    page = open_studio(viewport={"width": window[0], "height": window[1]}, script=SHIFTS)
    enter(page, "design")
    page.fill("#vw-text", "Good evening. The last ferry leaves at nine.")
    make_three(page)
    page.keyboard.press("Escape")
    act(page, "B", "keep")
    expect(page.locator("#vw-design-name")).to_be_focused()
    page.keyboard.press("Enter")
    toast = page.locator(".vw-toast")
    expect(toast).to_have_count(1)
    # In a wide window, the footer does not cover the row with the rooms. On a phone, the room becomes smaller.
    above, notice, dock = (page.locator(place).bounding_box() for place in (".vw-rooms", ".vw-toast", "#vw-stage"))
    assert above
    assert notice
    assert dock
    if window[0] > 768:
        footer = page.locator(".vw-footer").bounding_box()
        assert footer
        assert footer["y"] <= notice["y"]
        assert is_in_view(page, ".vw-footer a")
    else:
        assert above["y"] + above["height"] <= notice["y"]
    assert notice["y"] + notice["height"] <= dock["y"]
    assert page.evaluate(COVERED, "design") == []
    toast.get_by_role("button").click()
    expect(toast).to_have_count(0)


def test_late_javascript_shows_the_title_first_and_causes_no_layout_shift(open_studio: OpenStudio) -> None:
    """Fonts are requested after the JavaScript, because both would share a slow connection."""
    page = open_studio()
    held: list[Route] = []
    fonts: list[str] = []
    is_held = True

    def hold(route: Route) -> None:
        if is_held:
            held.append(route)
        else:
            route.continue_()

    recall_a_take(page)
    page.route("**/studio/bundle/page.js", hold)
    page.add_init_script(SHIFTS.replace("60000", "0"))
    page.on("request", lambda request: fonts.append(request.url) if request.resource_type == "font" else None)
    page.reload(wait_until="commit")
    expect(page.locator("#vw-arriving")).to_be_visible()
    expect(page.locator("#vw-voice-sheet")).to_have_css("position", "fixed")
    assert fonts == []
    for later in ("#vw-tab-speakers", ".vw-rooms", "#vw-banner-says"):
        expect(page.locator(later)).to_have_css("visibility", "hidden")
    is_held = False
    while held:
        held.pop().continue_()
    page.locator("#vw-speak:enabled").wait_for()
    expect(page.locator("#vw-banner")).to_be_visible()
    assert len(fonts) == 2
    expect_no_shift(page)


def test_masthead_fits_a_window_of_320_px(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 320, "height": 640})
    for last in ("#vw-tab-library", "#vw-tab-host"):
        box = page.locator(last).bounding_box()
        assert box
        assert box["x"] + box["width"] <= 320, last


def test_stop_buttons_on_a_phone_are_next_to_the_visible_takes(open_studio: OpenStudio) -> None:
    """On a phone, the form with the main button is not visible next to the takes."""
    page = open_studio(viewport={"width": 390, "height": 844})
    halt = page.locator("#vw-halt")
    page.fill("#vw-text", LONG)
    page.click("#vw-speak")
    expect(page.locator("#vw-stop")).to_be_in_viewport()
    expect(halt).to_be_hidden()
    page.click("#vw-stop")

    enter(page, "design")
    page.click("#vw-speak")
    expect(page.locator("#vw-stop")).not_to_be_in_viewport()
    page.get_by_role("button", name="Stop").and_(halt).click()
    expect(page.locator("#vw-stop")).to_be_disabled()
    expect(halt).to_be_hidden()


def test_late_stylesheet_causes_no_layout_shift(open_studio: OpenStudio) -> None:
    page = open_studio()

    def late(route: Route) -> None:
        time.sleep(0.7)  # Simulate a busy machine or a slow network.
        route.continue_()

    page.route("**/studio/css/*o*.css", late)
    page.add_init_script(SHIFTS)
    page.reload()
    page.locator("#vw-speak:enabled").wait_for()
    expect(page.locator("#vw-stage")).to_be_visible()
    expect_no_shift(page)


def test_late_fonts_neither_block_the_page_nor_shift_its_layout(open_studio: OpenStudio) -> None:
    page = open_studio()
    held: list[Route] = []
    page.route("**/*.woff2", lambda route: held.append(route))
    page.add_init_script(SHIFTS.replace("60000", "wait"))
    page.reload(wait_until="commit")
    page.locator("#vw-speak:enabled").wait_for(state="attached")
    expect(page.locator("#vw-speak")).to_be_visible(timeout=4_000)
    assert len(held) == 2
    for route in held:
        route.continue_()
    page.evaluate("document.fonts.ready.then(() => {})")
    expect_no_shift(page)


def test_page_scrolls_as_a_whole_in_a_very_low_window(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 640, "height": 320})
    assert page.evaluate("document.documentElement.scrollHeight > innerHeight")
    for room in ROOMS:
        enter(page, room)
        assert page.evaluate(COVERED, room) == []


def test_focused_element_has_exactly_one_focus_ring(studio: Page) -> None:
    for room in ROOMS:
        enter(studio, room)
        if room == "host":
            expect(studio.locator("#vw-host-settings summary").first).to_be_visible()
        studio.focus(".vw-tabs [tabindex='0']")
        seen: dict[str, int] = {}
        for _ in range(200):
            studio.keyboard.press("Tab")
            if studio.evaluate("document.activeElement === document.body"):
                break
            ring = studio.evaluate(RINGS)
            seen[ring["name"]] = ring["count"]
        assert len(seen) > 3, room
        assert {name: count for name, count in seen.items() if count > 1} == {}, room


def test_each_room_keeps_its_scroll_position(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 1280, "height": 600})
    rooms = page.locator(".vw-rooms")
    enter(page, "host")
    expect(page.locator("#vw-host-settings summary").first).to_be_visible()
    rooms.evaluate("(rooms) => { rooms.scrollTop = 200; }")
    enter(page, "speakers")
    assert rooms.evaluate("(rooms) => rooms.scrollTop") == 0
    enter(page, "host")
    assert rooms.evaluate("(rooms) => rooms.scrollTop") == 200


@pytest.mark.parametrize(
    ("locale", "title"),
    [("en-GB", "Voicewright Open text-to-speech studio"), ("zh-CN", "Voicewright 开放的语音合成工作室"), ("fr", None)],
)
def test_product_name_is_visible_before_the_page_has_loaded(
    open_studio: OpenStudio, app: App, locale: str, title: str | None
) -> None:
    page = open_studio(locale=locale, has_own_window=True)
    held: list[Route] = []  # Requests that get no response, as on a very slow connection.
    page.route("**/studio/bundle/page.js", lambda route: held.append(route))
    page.goto(f"{app.url}/?slow", wait_until="commit")
    arriving = page.locator("#vw-arriving")
    expect(arriving).to_have_text(title or "Voicewright Open text-to-speech studio")
    assert arriving.get_attribute("lang") == (locale[:2] if title else "en")
    for route in held:
        route.abort()


def test_page_works_before_gradio_has_loaded_and_does_not_change_afterwards(open_studio: OpenStudio, app: App) -> None:
    page = open_studio(url="about:blank", await_ready=False, has_own_window=True)
    held: list[Route] = []
    page.route("**/assets/index-*", lambda route: held.append(route))
    page.add_init_script(SHIFTS)
    page.goto(f"{app.url}", wait_until="commit")
    page.locator("#vw-speak:enabled").click()
    await_sound(page)
    page.click("#vw-stop")
    assert held, "Gradio has begun after the page"
    assert page.locator(".gradio-container").count() == 0
    before = page.evaluate("shifts.length")
    for route in held:
        route.continue_()
    page.locator(".gradio-container").wait_for(state="attached")
    page.wait_for_timeout(500)
    assert sum(shift["value"] for shift in page.evaluate("shifts")[before:]) < MAX_SHIFT / 10


def test_html_document_is_compressed(app: App) -> None:
    with httpx.Client(base_url=app.url, trust_env=False) as client:
        response = client.get("/", headers={"accept-encoding": "gzip"})
        assert response.headers["content-encoding"] == "gzip"
        assert int(response.headers["content-length"]) < 30_000
        plain = client.get("/", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert len(plain.content) > 100_000
