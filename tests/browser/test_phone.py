"""Tests for the page on a phone: messages, landscape format and unusual names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import await_end, await_sound, enter, kept_take, to_words, wav
from tests.support.audio_files import audio_file
from tests.support.spoken import WORDS, generate

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

CANVAS = """
(toast) => {
  const probe = document.createElement('p');
  probe.style.background = 'Canvas';
  toast.append(probe);
  const canvas = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return getComputedStyle(toast).backgroundColor === canvas && getComputedStyle(toast).color !== canvas;
}
"""
# Script that returns the distance between the middle of a button and the middle of its text, in px.
OFF_CENTRE = """
(buttons) => buttons.map((button) => {
  const text = document.createRange();
  text.selectNodeContents(button.querySelector(':not(small)') ?? button.firstChild);
  const middle = ({ top, bottom }) => (top + bottom) / 2;
  return Math.abs(middle(text.getBoundingClientRect()) - middle(button.getBoundingClientRect()));
})
"""


def phone(open_studio: OpenStudio, width: int = 390, height: int = 844) -> Page:
    return open_studio(viewport={"width": width, "height": height}, has_touch=True, is_mobile=True)


def remove_recording(page: Page) -> Locator:
    """Upload a recording in the Clone room and remove it, and return the toast about it."""
    enter(page, "clone")
    page.set_input_files("#vw-clone-file", wav(4.0))
    page.click("#vw-clone-drop")
    toast = page.locator(".vw-toast").last
    expect(toast).to_be_visible()
    return toast


def to_keep(page: Page, words: str) -> None:
    """Continue in the Clone room up to the button that stores the voice."""
    enter(page, "clone")
    to_words(page, wav(4.0))
    page.fill("#vw-clone-transcript", words)
    page.click("#vw-clone-words-done")
    page.check("#vw-clone-consent")
    page.fill("#vw-clone-keep-name", "Me")


def test_toast_is_readable_with_forced_colours(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 390, "height": 844}, forced_colors="active")
    assert remove_recording(page).evaluate(CANVAS)


def test_room_gets_half_of_the_window_on_a_landscape_phone(open_studio: OpenStudio) -> None:
    page = phone(open_studio, 844, 390)
    kept_take(page, "Hi.")
    enter(page, "clone")
    heights = page.evaluate("[document.querySelector('.vw-rooms').clientHeight, innerHeight]")
    assert heights[0] >= 0.5 * heights[1]
    assert page.evaluate("document.documentElement.scrollWidth") == 844


def test_long_name_stays_inside_the_toast(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    toast = remove_recording(page)
    toast.locator("span").evaluate("(span) => { span.textContent = `Deleted: ${'W'.repeat(64)}.`; }")
    assert toast.evaluate("(toast) => toast.scrollWidth <= toast.clientWidth")


@pytest.mark.parametrize("height", [844, 664])
def test_button_for_a_new_recording_is_visible_above_toast_and_dock(open_studio: OpenStudio, height: int) -> None:
    page = phone(open_studio, 390, height)
    kept_take(page, "Hi.")
    enter(page, "clone")
    page.set_input_files("#vw-clone-file", {**wav(20.0), "buffer": audio_file(np.tile(generate(seed=1), 6))})
    expect(page.locator(".vw-toast")).to_be_visible()
    expect(page.locator("#vw-clone-clinic")).to_have_attribute("data-state", "said")
    page.screenshot(path=SCREENSHOTS / f"clone-use-{height}.png")
    assert page.locator("#vw-clone-use").evaluate(
        """(button) => {
          const { x, y, width, height } = button.getBoundingClientRect();
          return document.elementFromPoint(x + width / 2, y + height - 2) === button;
        }"""
    )


def tops(page: Page, *selectors: str) -> list[int]:
    """Return the distinct vertical centres of elements, one per row."""
    script = """(selectors) => selectors.map((selector) => {
      const { y, height } = document.querySelector(selector).getBoundingClientRect();
      return Math.round(y + height / 2);
    })"""
    return sorted(set(page.evaluate(script, selectors)))


def test_voice_filters_share_a_row_and_each_blended_voice_has_its_own_row(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 390, "height": 844})
    enter(page, "library")
    assert len(tops(page, "#vw-takes-room", "#vw-takes-day", "#vw-takes-select")) == 1
    enter(page, "design")
    page.locator("#vw-blend > summary").click()
    assert len(tops(page, "#vw-blend-first", "#vw-blend-share", "#vw-blend-second")) == 3


def test_player_bar_of_a_stored_take_has_one_row_of_buttons(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    label = "getComputedStyle(document.querySelector('#vw-typed')).fontSize"
    assert page.evaluate(label) != "0px", "the button has a visible label if there is no player"
    kept_take(page, "The ferry leaves at nine.")
    await_end(page)
    buttons = ("#vw-speak", "#vw-typed", "#vw-rate-button", "#vw-star", "#vw-save", "#vw-as-code")
    assert len(tops(page, *buttons)) == 1
    assert tops(page, "#vw-play")[0] < tops(page, *buttons)[0] - 40, "the button that plays is in the waveform's row"
    assert page.locator("#vw-stage").evaluate("(dock) => dock.offsetHeight") <= 110, "there are two rows"
    assert page.evaluate(label) == "0px"


def test_notice_of_the_embedded_voice_has_one_row_and_menus_are_aligned(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    ready = "getComputedStyle(document.querySelector('#vw-status'), '::before').backgroundColor"
    assert page.evaluate(ready) == "rgb(77, 138, 91)", "next to no text, the dot says that the studio is ready"
    kept_take(page, "The ferry leaves at nine.")
    assert page.locator("#vw-banner").evaluate("(banner) => banner.offsetHeight") < 70
    page.click("#vw-save")
    starts = page.locator("#vw-keep :is(a[data-format=mp3], label)").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().x + parseFloat(getComputedStyle(each).paddingLeft))"
    )
    assert max(starts) - min(starts) <= 1
    page.keyboard.press("Escape")
    enter(page, "script")
    expect(page.locator("#vw-script-name")).to_have_css("text-overflow", "ellipsis")


def test_names_of_example_texts_are_centred_in_their_buttons(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    expect(page.locator("#vw-starters button").first).to_be_visible()
    assert max(page.locator("#vw-starters button").evaluate_all(OFF_CENTRE)) < 2


def test_time_of_a_take_is_displayed_after_a_right_to_left_name(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    kept_take(page, "Hi.")
    enter(page, "library")
    who = page.locator("#vw-takes-list .vw-take-who").first
    who.evaluate("(who) => { who.textContent = 'שלום'; }")
    ends = who.evaluate("(who) => [who.getBoundingClientRect().right, who.nextElementSibling.getClientRects()[0].left]")
    assert ends[1] >= ends[0] - 1


def test_error_on_saving_a_clone_is_in_view_and_does_not_restart_cloning(open_studio: OpenStudio) -> None:
    page = phone(open_studio, 390, 640)
    asked: list[str] = []

    def hold(socket: WebSocketRoute) -> None:
        """Forward messages to the runtime, but withhold the response to a request."""
        server = socket.connect_to_server()
        server.on_message(lambda data: None if asked else socket.send(data))

        def note(data: str | bytes) -> None:
            if isinstance(data, str) and json.loads(data)["type"] == "session.config":
                asked.append(data)
            server.send(data)

        socket.on_message(note)

    page.route_web_socket("**/v1/audio/speech/stream", hold)
    page.reload(wait_until="domcontentloaded")
    to_keep(page, WORDS)
    for _ in range(2):
        page.click("#vw-clone-keep-button")
        said = page.locator("#vw-clone-keep [data-error-for=keep]")
        expect(said).to_contain_text("Listen to the clone first")
        expect(page.locator("#vw-clone-keep-button")).to_be_enabled()
        box, dock = said.bounding_box(), page.locator("#vw-stage").bounding_box()
        assert box
        assert dock
        assert box["y"] + box["height"] <= dock["y"] + 1
    assert len(asked) == 1


def test_refused_transcript_opens_the_transcript_step(open_studio: OpenStudio) -> None:
    page = phone(open_studio)

    def refuse(route: Route) -> None:
        if route.request.method != "POST":
            return route.fallback()
        error = {"message": "No.", "type": "invalid_request_error", "param": "ref_text", "code": "invalid_value"}
        route.fulfill(status=400, json={"error": error})

    page.route("**/v1/audio/voices", refuse)
    to_keep(page, WORDS)
    page.click("#vw-clone-play-clone")
    await_sound(page)
    page.click("#vw-clone-keep-button")
    expect(page.locator("#vw-clone-transcript")).to_be_visible()
    expect(page.locator("#vw-room-clone [data-error-for=ref_text]")).to_have_text("No.")


def test_wrong_transcript_gives_the_same_error_in_the_transcript_step_and_on_saving(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    enter(page, "clone")
    to_words(page, {**wav(4.0), "buffer": audio_file(generate(seed=1))})
    error = page.locator("#vw-room-clone [data-error-for=ref_text]")
    sentence = "The transcript does not match the recording. Write exactly what is said."
    page.fill("#vw-clone-transcript", "x" * 400)
    expect(error).to_have_text(sentence)
    expect(page.locator("#vw-clone-fit")).to_be_empty()
    page.screenshot(path=SCREENSHOTS / "clone-refused-390.png")
    page.click("#vw-clone-words-done")
    expect(page.locator(".vw-step-sum").nth(1)).to_have_text(sentence)
    expect(error).to_be_empty()
    page.check("#vw-clone-consent")
    page.fill("#vw-clone-keep-name", "Me")
    page.click("#vw-clone-play-clone")
    await_sound(page)
    page.click("#vw-clone-keep-button")
    expect(page.locator("#vw-clone-transcript")).to_be_visible()
    expect(error).to_have_text(sentence)
    page.fill("#vw-clone-transcript", WORDS)
    expect(error).to_be_empty()


def test_notice_is_centred_on_the_banner_that_it_hides(open_studio: OpenStudio) -> None:
    page = phone(open_studio)
    heights, distance = page.evaluate(
        """() => {
          const [status, banner] = ['#vw-status', '#vw-banner'].map((name) => document.querySelector(name));
          document.querySelector('#vw-banner-says').textContent = 'A small built-in voice. '.repeat(5);
          banner.hidden = false;
          const before = banner.offsetHeight;
          Object.assign(status, { textContent: 'You are offline.' }).dataset.state = 'waiting';
          const middle = (element) => element.offsetTop + element.offsetHeight / 2;
          return [[before, banner.offsetHeight], Math.abs(middle(status) - middle(banner))];
        }"""
    )
    assert heights[0] > 60
    assert heights == [heights[0]] * 2
    assert distance <= 1
    expect(page.locator("#vw-banner")).to_have_css("visibility", "visible")
    expect(page.locator("#vw-banner-says")).to_have_css("visibility", "hidden")


def test_masthead_is_complete_with_text_of_double_size(open_studio: OpenStudio) -> None:
    page = phone(open_studio, 195, 422)
    page.evaluate("document.querySelector('#vw-banner').hidden = false")
    page.evaluate("document.querySelector('#vw-banner-says').textContent = 'You are hearing the small built-in voice.'")
    cut = page.locator(".vw-masthead :is(button, select, p)").evaluate_all(
        "(all) => all.filter((one) => one.getBoundingClientRect().right > innerWidth).map(({ id }) => id)"
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") == 195


def test_note_about_a_take_is_not_squeezed_by_the_progress(open_studio: OpenStudio) -> None:
    page = phone(open_studio, 360, 640)
    widths = page.evaluate(
        """() => {
          const find = (name) => document.querySelector(`#vw-${name}`);
          const [stage, note, making] = ['stage', 'note', 'making'].map(find);
          stage.hidden = false;
          stage.classList.add('vw-loaded');
          find('caption').textContent = 'Clone of the recording';
          making.textContent = '6 % done, 2 min 42 s left';
          note.textContent = 'The transcript does not match the recording.';
          return [note.offsetWidth, making.offsetWidth];
        }"""
    )
    assert widths[0] > 100
    assert widths[1] == 0
