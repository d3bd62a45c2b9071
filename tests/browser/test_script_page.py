"""Tests for the Script room: editing, voices, files, several scripts and two tabs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.script_steps import (
    MADE_MS,
    await_kept,
    await_made,
    await_saved,
    await_silence,
    cast,
    enter_script,
    line,
    make_all,
    new_script,
    paste,
    stored_script,
    text_of,
    texts,
    voice_of,
)
from tests.support.app import App

pytestmark = pytest.mark.browser

# Script that counts the changes of each line's element.
WATCH_LINES = """
window.changedLines = {};
new MutationObserver((changes) => {
  for (const { target } of changes) {
    const id = (target instanceof Element ? target : target.parentElement)?.closest('[data-line]')?.dataset.line;
    if (id) changedLines[id] = (changedLines[id] ?? 0) + 1;
  }
}).observe(document.querySelector('#vw-script-lines'), {
  subtree: true, childList: true, characterData: true, attributes: true,
});
"""


@pytest.mark.quick
def test_speaker_names_in_a_script_choose_voices_and_pause_tags_are_recognised(script: Page) -> None:
    voices = [voice_of(script, number) for number in (1, 2, 3)]
    assert voices == ["custom_voice:clara", "custom_voice:angus", "custom_voice:clara"]
    assert texts(script)[1:] == ["Yes. [pause 0.5s] Quite.", "[pause 300ms] Go on."]
    assert line(script, 2).locator("mark").all_inner_texts() == ["[pause 0.5s]"]


def test_two_tabs_with_the_same_script_notify_each_other(script: Page, open_studio: OpenStudio, app: App) -> None:
    await_saved(script)
    second = script.context.new_page()
    second.goto(app.url, wait_until="domcontentloaded")
    second.locator("#vw-speak:enabled").wait_for()
    enter_script(second)
    text_of(second, 1).fill("From the other tab.")
    await_saved(second)
    text_of(script, 2).fill("From this tab.")
    conflict = script.locator("#vw-script-conflict")
    expect(conflict).to_contain_text("Another tab changed this script")
    expect(conflict).to_contain_text("2 lines differ.")
    script.screenshot(path=SCREENSHOTS / "script-conflict.png")
    assert stored_script(script, app)["lines"][0]["text"] == "From the other tab.", "nothing is overwritten"
    conflict.get_by_role("button", name="Keep this version").click()
    await_saved(script)
    assert stored_script(script, app)["lines"][1]["text"] == "From this tab."
    # The browser sends this event when the user returns to the tab.
    second.evaluate("dispatchEvent(new Event('focus'))")
    expect(second.locator("#vw-script-conflict")).to_contain_text("the other version drops what you changed here")
    expect(second.locator("#vw-script-saved")).to_be_empty()
    text_of(second, 3).fill("Once more.")
    expect(second.locator("#vw-script-conflict")).to_be_visible()
    second.locator("#vw-script-conflict").get_by_role("button", name="Use the other version").click()
    expect(text_of(second, 2)).to_have_value("From this tab.")
    assert texts(second)[2] == "[pause 300ms] Go on."


def test_script_name_with_a_trailing_space_causes_no_conflict_when_the_user_returns(script: Page, app: App) -> None:
    """The studio stores the name without the space."""
    script.fill("#vw-script-name", "My story ")
    await_saved(script)
    requests: list[str] = []
    script.on("request", lambda request: requests.append(request.url))
    with script.expect_response(lambda response: response.url.endswith("/studio/scripts")):
        script.evaluate("dispatchEvent(new Event('focus'))")
    script.wait_for_timeout(200)
    assert not any("/studio/scripts/" in url for url in requests), "an unchanged script is not loaded"
    text_of(script, 2).fill("After the return.")
    await_saved(script)
    assert stored_script(script, app)["lines"][1]["text"] == "After the return."


def test_text_edits_and_takes_of_two_tabs_are_merged(script: Page, app: App) -> None:
    await_saved(script)
    second = script.context.new_page()
    second.goto(app.url, wait_until="domcontentloaded")
    second.locator("#vw-speak:enabled").wait_for()
    enter_script(second)
    make_all(script)
    spoken = stored_script(script, app)["lines"]
    text_of(second, 2).fill("From this tab.")
    await_saved(second)
    await_made(second, 1, 3)
    kept = stored_script(second, app)["lines"]
    assert kept[1]["text"] == "From this tab."
    assert [kept[at]["takes"] for at in (0, 2)] == [spoken[at]["takes"] for at in (0, 2)]
    # The first tab has no changes of its own. It asks before it loads the changes of the other tab, because it may be
    # playing.
    line(script, 1).locator(".vw-line-remake").click()
    conflict = script.locator("#vw-script-conflict")
    expect(conflict).to_contain_text("Another tab changed this script")
    conflict.get_by_role("button", name="Use the other version").click()
    expect(text_of(script, 2)).to_have_value("From this tab.")
    await_made(script, 1, 3)


def test_two_tabs_that_start_the_same_new_script_notify_each_other(
    studio: Page, open_studio: OpenStudio, app: App
) -> None:
    enter_script(studio)
    studio.click("#vw-script-shelf summary")
    studio.click("#vw-script-new")
    expect(text_of(studio, 1)).to_have_value("")
    name = studio.url.rpartition("/")[2]
    studio.wait_for_function("(id) => localStorage.getItem('voicewright.draft.script')?.includes(id)", arg=name)
    second = studio.context.new_page()
    second.goto(app.url, wait_until="domcontentloaded")
    second.locator("#vw-speak:enabled").wait_for()
    enter_script(second)
    assert second.url.rpartition("/")[2] == name, "it takes up what the first began"
    text_of(studio, 1).fill("From this tab.")
    await_saved(studio)
    text_of(second, 1).fill("From the other tab.")
    expect(second.locator("#vw-script-conflict")).to_contain_text("Another tab changed this script")
    assert stored_script(studio, app)["lines"][0]["text"] == "From this tab.", "nothing is overwritten"
    second.locator("#vw-script-conflict").get_by_role("button", name="Keep this version").click()
    await_saved(second)
    assert stored_script(second, app)["lines"][0]["text"] == "From the other tab."


def test_scripts_can_be_created_switched_and_deleted(script: Page, app: App) -> None:
    await_saved(script)
    new_script(script, "Another one")
    text_of(script, 1).fill("Hello.")
    await_saved(script)
    script.click("#vw-script-shelf summary")
    shelf = script.locator("#vw-script-list button")
    assert shelf.all_inner_texts()[:2] == ["Another one", "At the river"]
    shelf.nth(1).click()
    expect(script.locator("#vw-script-name")).to_have_value("At the river")
    assert len(texts(script)) == 3
    script.click("#vw-script-shelf summary")
    script.click("#vw-script-delete")
    expect(script.locator("#vw-script-name")).to_have_value("Another one")
    script.get_by_text("At the river was deleted").locator("..").get_by_role("button", name="Undo").click()
    expect(script.locator("#vw-script-name")).to_have_value("At the river")
    assert len(texts(script)) == 3
    script.click("#vw-script-shelf summary")
    script.locator("#vw-script-samples button").first.click()
    expect(script.locator("#vw-script-lines > li")).to_have_count(5)


def test_script_lines_can_be_edited_moved_copied_and_removed_by_keyboard(script: Page) -> None:
    first, second, third = texts(script)
    text_of(script, 2).focus()
    script.keyboard.press("Alt+ArrowUp")
    assert texts(script) == [second, first, third]
    assert script.evaluate("document.activeElement.value") == second, "the focus goes with it"
    expect(script.locator("#vw-script-live")).to_have_text("Now line 1.")
    script.keyboard.press("End")
    script.keyboard.press("Enter")
    script.keyboard.type("A new one.")
    assert texts(script) == [second, "A new one.", first, third]
    for _ in range(len("one.")):
        script.keyboard.press("ArrowLeft")
    script.keyboard.press("Enter")
    assert texts(script)[1:3] == ["A new", "one."], "a line is cut at the cursor"
    script.keyboard.press("Control+A")
    script.keyboard.press("Backspace")
    script.keyboard.press("Backspace")
    assert texts(script) == [second, "A new", first, third]
    line(script, 2).locator(".vw-line-open").press("Enter")
    line(script, 2).locator(".vw-line-copy").press("Enter")
    assert texts(script)[:3] == [second, "A new", "A new"]
    line(script, 2).locator(".vw-line-remove").press("Enter")
    assert texts(script) == [second, "A new", first, third]
    script.get_by_role("button", name="Undo").last.press("Enter")
    assert texts(script) == [second, "A new", "A new", first, third]


def tab_to(page: Page, selector: str, key: str = "Tab") -> None:
    """Press a key until the element has the focus, like a user without a mouse."""
    for _ in range(80):
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached by {key}")


def test_script_can_be_written_and_exported_by_keyboard_alone(studio: Page) -> None:
    studio.keyboard.press("g")
    studio.keyboard.press("t")
    expect(line(studio, 1)).to_be_visible()
    tab_to(studio, "#vw-script-shelf summary")
    studio.keyboard.press("Enter")
    tab_to(studio, "#vw-script-new")
    studio.keyboard.press("Enter")
    expect(studio.locator("#vw-script-lines > li")).to_have_count(1)
    tab_to(studio, ".vw-line-text")
    studio.keyboard.type("Good morning.")
    studio.keyboard.press("Enter")
    studio.keyboard.type("The kettle is on.")
    assert texts(studio) == ["Good morning.", "The kettle is on."]
    tab_to(studio, ".vw-line-voice", "Shift+Tab")
    studio.keyboard.press("Enter")
    expect(studio.locator("#vw-voice-sheet .vw-picked > .vw-pick-choose")).to_be_focused()
    studio.keyboard.press("ArrowDown")
    studio.keyboard.press("Enter")
    expect(studio.locator("#vw-voice-sheet")).to_be_hidden()
    assert voice_of(studio, 1) != voice_of(studio, 2)
    studio.keyboard.press("Control+Enter")
    await_made(studio, 2)
    studio.keyboard.press("Escape")
    tab_to(studio, "#vw-script-files", "Shift+Tab")
    studio.keyboard.press("Enter")
    tab_to(studio, "#vw-script-go")
    with studio.expect_download(timeout=MADE_MS) as waiting:
        studio.keyboard.press("Enter")
    assert waiting.value.suggested_filename.endswith(".wav")
    await_made(studio, 1, 2)


def test_script_line_is_moved_by_dragging_its_number(script: Page) -> None:
    first, second, third = texts(script)
    line(script, 1).locator(".vw-line-grip").drag_to(line(script, 3), target_position={"x": 200, "y": 40})
    assert texts(script) == [second, third, first]


def test_voice_can_be_assigned_to_every_script_line_of_a_role(script: Page) -> None:
    paste(script, 3, "KING: One.\n\nQUEEN: Two.\n\nKING: Three.")
    expect(script.locator("#vw-script-lines > li")).to_have_count(6)
    king, queen, king_again = (voice_of(script, number) for number in (4, 5, 6))
    assert king == king_again != queen
    cast(script, 4, "custom_voice:nora")
    assert [voice_of(script, number) for number in (4, 5, 6)] == ["custom_voice:nora", queen, "custom_voice:nora"]
    chip = line(script, 4).locator(".vw-line-voice")
    expect(chip).to_have_accessible_name("Voice of line 4: Nora")
    expect(chip).to_be_focused()


def test_undo_key_works_with_caps_lock_and_without_shift(script: Page) -> None:
    new_script(script, "The river")
    paste(script, 1, "One.\n\nTwo.")
    second = text_of(script, 2)
    second.press("Alt+ArrowUp")
    expect(second).to_have_value("One.")
    script.keyboard.press("Control+Shift+z")  # Redo with Caps Lock.
    expect(second).to_have_value("One.")
    script.keyboard.press("Control+Z")  # With Caps Lock, the key is a capital letter without Shift.
    expect(second).to_have_value("Two.")


def test_line_outside_the_window_is_complete_after_undo_of_a_long_paste(script: Page) -> None:
    new_script(script, "The river")
    text_of(script, 1).fill("Good evening.")
    paste(script, 1, "\n\n".join(f"ANNA: This is line {number}." for number in range(300)))
    lines = script.locator("#vw-script-lines > li")
    expect(lines).to_have_count(301)
    lines.last.scroll_into_view_if_needed()
    expect(lines.first.locator("textarea")).to_have_count(0)
    script.keyboard.press("Control+z")
    expect(lines).to_have_count(1)
    expect(text_of(script, 1)).to_have_value("Good evening.")


def test_undo_of_a_typed_speaker_keeps_text_that_was_typed_later(script: Page) -> None:
    text_of(script, 1).fill("")
    text_of(script, 1).press_sequentially("HTTP: is a protocol.")
    expect(text_of(script, 1)).to_have_value("is a protocol.")
    script.locator(".vw-toast").get_by_role("button", name="Undo").click()
    expect(text_of(script, 1)).to_have_value("HTTP: is a protocol.")


def test_speaker_name_typed_before_a_line_chooses_its_speaker(script: Page) -> None:
    new_script(script, "Hosts")
    paste(script, 1, "ANNA: Good morning.\n\nTOM: Is it?")
    anna, tom = voice_of(script, 1), voice_of(script, 2)
    assert anna != tom
    roles = script.locator("#vw-script-lines .vw-line-role")
    script.keyboard.press("Enter")
    expect(roles).to_have_text(["ANNA", "TOM", "TOM"])
    script.keyboard.type("Anna: It is: late.")
    expect(roles).to_have_text(["ANNA", "TOM", "ANNA"])
    assert texts(script) == ["Good morning.", "Is it?", "It is: late."]
    assert voice_of(script, 3) == anna
    text_of(script, 3).press("Home")
    script.keyboard.type("NORA W: ")
    expect(roles).to_have_text(["ANNA", "TOM", "NORA W"])
    assert voice_of(script, 3) not in {anna, tom}
    script.locator("#vw-toasts").get_by_role("button", name="Undo").last.click()
    expect(roles).to_have_text(["ANNA", "TOM", "ANNA"])
    assert texts(script)[2] == "NORA W: It is: late."
    assert voice_of(script, 3) == anna


def test_script_line_can_be_assigned_to_another_speaker(script: Page) -> None:
    new_script(script, "Hosts")
    paste(script, 1, "ANNA: Good morning.\n\nTOM: Is it?\n\nTOM: Yes.")
    anna, tom = voice_of(script, 1), voice_of(script, 2)
    roles = script.locator("#vw-script-lines .vw-line-role")
    roles.nth(2).click()
    sheet = script.locator("#vw-voice-sheet")
    expect(sheet.locator("h3").first).to_have_text("Speakers in this script")
    speakers = sheet.locator("ul").first.locator(".vw-pick-choose")
    expect(speakers).to_have_count(1)
    expect(speakers.first).to_contain_text("ANNA")
    speakers.first.click()
    expect(roles).to_have_text(["ANNA", "TOM", "ANNA"])
    assert [voice_of(script, number) for number in (1, 2, 3)] == [anna, tom, anna]
    script.keyboard.press("Control+z")
    expect(roles).to_have_text(["ANNA", "TOM", "TOM"])


def test_blocks_of_a_pasted_web_page_become_lines(script: Page) -> None:
    new_script(script, "Show notes")
    html = """<h1>Show <b>notes</b></h1><p>Nora met\nBen.</p><p>At the pier.</p>
        <ul><li><a href="#a">One link</a></li><li>Another<br>row</li></ul><table><tr><td>A1</td><td>B1</td></tr></table>
        <div>The end.</div>"""
    plain = "Show notes\nNora met Ben.\n\nAt the pier.\n\n    One link\n    Another\nrow\n\nA1\tB1\nThe end."
    paste(script, 1, plain, html)
    spoken = ["Show notes", "Nora met Ben.", "At the pier.", "One link", "Another row", "A1 B1", "The end."]
    expect(script.locator("#vw-script-lines > li")).to_have_count(len(spoken))
    assert texts(script) == spoken


def test_chosen_pace_is_sent_as_part_of_the_style(script: Page) -> None:
    line(script, 1).locator(".vw-line-instruct").fill("Softly.")
    line(script, 1).locator(".vw-line-open").click()
    slower, faster = (line(script, 1).get_by_role("button", name=name) for name in ("Slower", "Faster"))
    for button, style in ((slower, "Softly. Speak slowly."), (faster, "Softly. Speak quickly."), (faster, "Softly.")):
        button.click()
        expect(line(script, 1).locator(".vw-line-instruct")).to_have_value(style)
        is_asked = str("Speak" in style).lower()
        expect(button).to_have_attribute("aria-pressed", is_asked)


def test_unknown_bracket_tag_is_reported_at_its_script_line(script: Page) -> None:
    text_of(script, 2).fill("One [pause 5 minutes] two.")
    expect(line(script, 2).locator(".vw-line-error")).to_contain_text("[pause 5 minutes] is not a pause.")
    script.click("#vw-speak")
    expect(script.locator("#vw-stage [data-error-for=request]")).to_contain_text("Fix line 2 first")
    expect(script.locator("#vw-stop"), "nothing was begun").to_be_disabled()


def test_open_export_sheet_has_the_only_primary_button(script: Page) -> None:
    primary = """() => [...document.querySelectorAll('.vw-primary')].filter((button) => button.checkVisibility()
      && getComputedStyle(button).backgroundColor !== 'rgba(0, 0, 0, 0)').map(({ id }) => id)"""
    assert script.evaluate(primary) == ["vw-speak"]
    script.click("#vw-script-files")
    expect(script.locator("#vw-script-go")).to_be_visible()
    assert script.evaluate(primary) == ["vw-script-go"]


def test_subtitle_and_text_files_can_be_opened(script: Page) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nCLARA: One.\n\n2\n00:00:04,400 --> 00:00:05,000\nANGUS: Two.\n"
    script.set_input_files("#vw-script-file", {"name": "a.srt", "mimeType": "text/plain", "buffer": srt.encode()})
    expect(script.locator("#vw-script-lines > li")).to_have_count(5)
    assert texts(script)[3:] == ["One. [pause 2s]", "Two."]
    script.get_by_role("button", name="Undo").last.click()
    expect(script.locator("#vw-script-lines > li")).to_have_count(3)


@pytest.mark.parametrize(
    ("name", "scheme", "width"), [("", "light", 1200), ("-dark", "dark", 1200), ("-phone", "light", 360)]
)
def test_script_room_needs_no_horizontal_scrolling(
    open_studio: OpenStudio, app: App, name: str, scheme: str, width: int
) -> None:
    viewport = {"width": width, "height": 860}
    page = open_studio(viewport=viewport, color_scheme=scheme)
    enter_script(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"script{name}.png", full_page=True)


def test_generated_script_line_updates_no_other_line_on_the_page(script: Page) -> None:
    watched = line(script, 2).get_attribute("data-line")
    script.evaluate(WATCH_LINES)
    line(script, 2).locator(".vw-line-remake").click()
    await_kept(script, 2)
    await_silence(script)
    assert set(script.evaluate("changedLines")) == {watched}
