"""Tests for the pronunciation dialog, whose entries apply in every room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import SCREENSHOTS
from tests.browser.script_steps import await_made, enter_script, new_script, text_of
from tests.browser.steps import copy_code, enter, kept_take
from tests.browser.test_history import unfold
from tests.browser.wire import sound_of, speak
from tests.support.app import App
from tests.support.timeouts import until

pytestmark = pytest.mark.browser

ROUTE = "/studio/pronunciation"


@pytest.fixture(autouse=True)
def empty(app: App) -> Iterator[None]:
    yield
    httpx.put(f"{app.url}{ROUTE}", json={"words": []}, trust_env=False).raise_for_status()


def words(app: App) -> dict[str, str]:
    kept = httpx.get(f"{app.url}{ROUTE}", trust_env=False).json()["words"]
    return {entry["word"]: entry["said"] for entry in kept}


def await_words(app: App, awaited: dict[str, str]) -> None:
    """Wait until the server has stored exactly these pronunciations.

    The status "Saved." is not sufficient, because it may refer to an earlier change.
    """
    until(lambda: words(app) == awaited)


def write(page: Page, word: str, said: str, status: str = "Saved.") -> None:
    """Add the pronunciation `said` of `word` in an empty row, and wait for a status message."""
    row = page.locator("#vw-pronunciation-list li").last
    if row.count() == 0 or row.locator("input").first.input_value():
        page.click("#vw-pronunciation-add")
    page.keyboard.type(word)
    page.keyboard.press("Enter")
    page.keyboard.type(said)
    page.keyboard.press("Tab")
    expect(page.locator("#vw-pronunciation-told")).to_have_text(status)


def test_adding_a_pronunciation_focuses_the_empty_row(studio: Page) -> None:
    studio.click("#vw-text-said")
    rows = studio.locator("#vw-pronunciation-list li")
    expect(rows).to_have_count(1)
    studio.click("#vw-pronunciation-add")
    expect(rows).to_have_count(1)
    expect(rows.locator("input").first).to_be_focused()


def test_script_shows_its_number_of_pronunciation_rules(studio: Page) -> None:
    enter_script(studio)
    new_script(studio, "Names")
    text_of(studio, 1).fill("Ask Nguyen, or ask Nguyen.")
    said = studio.locator("#vw-script-words")
    expect(said).to_have_text("Pronunciation")
    text_of(studio, 1).evaluate("(field) => field.setSelectionRange(4, 10)")
    said.click()
    expect(studio.locator("#vw-pronunciation-list input").first).to_have_value("Nguyen")
    studio.keyboard.type("Win")
    studio.keyboard.press("Tab")
    expect(studio.locator("#vw-pronunciation-told")).to_have_text("Saved.")
    studio.keyboard.press("Escape")
    expect(said).to_have_text("Pronunciation (2 here)")


def test_pronunciation_rule_changes_speech_and_is_stored_with_the_take(app: App, studio: Page) -> None:
    said = studio.locator("#vw-text-said")
    studio.fill("#vw-text", "Ask Nguyen. NGUYEN knows.")
    expect(said).to_have_text("Pronunciation")
    said.click()
    write(studio, "Nguyen", "Win")
    write(studio, "Qwen", "Kwen")
    studio.screenshot(path=SCREENSHOTS / "pronunciation.png")
    studio.keyboard.press("Escape")
    await_words(app, {"Nguyen": "Win", "Qwen": "Kwen"})
    expect(said).to_have_text("Pronunciation (2 here)")

    take = kept_take(studio, "Ask Nguyen.")
    expect(said).to_have_text("Pronunciation (1 here)")
    record = httpx.get(f"{app.url}/studio/takes/{take}", trust_env=False).json()
    assert (record["text"], record["spoken"]) == ("Ask Nguyen.", "Ask Win.")
    config = {"task_type": record["mode"], **record["config"], "seed": record["seed"]}
    assert np.array_equal(np.frombuffer(sound_of(app, take), "<i2"), speak(app, "Ask Win.", **config))
    copy_code(studio)
    expect(studio.locator("#vw-code-text")).to_contain_text("Ask Win.")
    studio.click("#vw-code-close")

    # Later changes of pronunciations do not change the labels of existing takes.
    httpx.put(f"{app.url}{ROUTE}", json={"words": [{"word": "Nguyen", "said": "Noo yen"}]}, trust_env=False)
    enter(studio, "library")
    row = studio.locator(f"[data-take='{take}']")
    unfold(row)
    expect(row).to_contain_text("Ask Win.")
    row.locator("[data-do=reproduce]").click()
    expect(row.locator(".vw-take-outcome")).to_contain_text("Identical", timeout=60_000)


def test_pronunciation_sheet_starts_with_the_selected_word_and_removal_can_be_undone(app: App, studio: Page) -> None:
    studio.fill("#vw-text", "The GUI of Qwen.")
    studio.evaluate("document.querySelector('#vw-text').setSelectionRange(4, 7)")
    studio.click("#vw-text-said")
    rows = studio.locator("#vw-pronunciation-list li")
    expect(rows.first.locator("input").first).to_have_value("GUI")
    expect(rows.first.locator("input").last).to_be_focused()
    studio.keyboard.type("gooey")
    studio.keyboard.press("Tab")
    expect(studio.locator("#vw-pronunciation-told")).to_have_text("Saved.")
    rows.first.locator(".vw-word-remove").click()
    expect(rows).to_have_count(0)
    studio.click("#vw-pronunciation-undo")
    expect(studio.locator("#vw-pronunciation-told")).to_have_text("Saved.")
    await_words(app, {"GUI": "gooey"})


def test_pronunciation_list_can_be_imported_and_exported(app: App, studio: Page) -> None:
    enter(studio, "library")
    studio.click("#vw-library-pronunciation")
    write(studio, "Qwen", "Quen")
    file: FilePayload = {
        "name": "words.csv",
        "mimeType": "text/csv",
        "buffer": "word,said as\nQwen,Kwen\nGIF,jif\nMüller,Müla\n".encode("cp1252"),
    }
    studio.set_input_files("#vw-pronunciation-file", file)
    expect(studio.locator("#vw-pronunciation-list li")).to_have_count(3)
    expect(studio.locator("#vw-pronunciation-told")).to_have_text("3 words imported.")
    await_words(app, {"Qwen": "Kwen", "GIF": "jif", "Müller": "Müla"})
    with studio.expect_download() as download:
        studio.click("#vw-pronunciation-save")
    assert (
        Path(download.value.path()).read_bytes().decode() == "word,said as\r\nQwen,Kwen\r\nGIF,jif\r\nMüller,Müla\r\n"
    )
    nothing: FilePayload = {"name": "no.csv", "mimeType": "text/csv", "buffer": b"nothing here"}
    studio.set_input_files("#vw-pronunciation-file", nothing)
    expect(studio.locator("#vw-pronunciation-error")).to_contain_text("no.csv has no words")


def test_duplicate_pronunciation_does_not_block_saving_other_entries(app: App, studio: Page) -> None:
    enter(studio, "library")
    studio.click("#vw-library-pronunciation")
    write(studio, "GIF", "jif")
    studio.click("#vw-pronunciation-add")
    for keys in ("GIF", "Enter", "giff", "Tab"):
        (studio.keyboard.press if keys in {"Enter", "Tab"} else studio.keyboard.type)(keys)
    error = studio.locator("#vw-pronunciation-error")
    expect(error).to_have_text("“GIF” is listed twice; the first one applies.")
    write(studio, "Worcester", "Wooster")
    expect(studio.locator("#vw-pronunciation-list [aria-invalid=true]")).to_have_count(1)
    await_words(app, {"GIF": "jif", "Worcester": "Wooster"})


def test_pronunciation_edits_of_two_windows_are_merged(app: App, studio: Page) -> None:
    enter(studio, "library")
    studio.click("#vw-library-pronunciation")
    write(studio, "Alpha", "Al")
    elsewhere = [{"word": "Alpha", "said": "Al"}, {"word": "Beta", "said": "Be"}]
    httpx.put(f"{app.url}{ROUTE}", json={"words": elsewhere}, trust_env=False).raise_for_status()
    studio.click("#vw-pronunciation-add")
    for keys in ("Gamma", "Enter", "Gam", "Tab"):
        (studio.keyboard.press if keys in {"Enter", "Tab"} else studio.keyboard.type)(keys)
    status = studio.locator("#vw-pronunciation-told")
    expect(status).to_have_text("Saved and merged with the changes of another window.")
    expect(studio.locator("#vw-pronunciation-list li")).to_have_count(3)
    await_words(app, {"Alpha": "Al", "Beta": "Be", "Gamma": "Gam"})


def test_pronunciation_rules_of_two_windows_with_an_empty_dictionary_are_merged(app: App, studio: Page) -> None:
    enter(studio, "library")
    with studio.expect_response(f"**{ROUTE}"):  # The sheet loads the dictionary when it is opened.
        studio.click("#vw-library-pronunciation")
    elsewhere = [{"word": "Beta", "said": "Be"}]
    httpx.put(f"{app.url}{ROUTE}", json={"words": elsewhere}, trust_env=False).raise_for_status()
    write(studio, "Alpha", "Al", status="Saved and merged with the changes of another window.")
    await_words(app, {"Alpha": "Al", "Beta": "Be"})


def test_script_line_is_marked_outdated_after_a_pronunciation_change(app: App, studio: Page) -> None:
    enter_script(studio)
    new_script(studio, "Names")
    text_of(studio, 1).fill("Ask Nguyen. [pause 0.5s] Nguyen knows.")
    studio.click("#vw-speak")
    await_made(studio, 1)
    studio.click("#vw-stop")
    enter(studio, "library")
    studio.click("#vw-library-pronunciation")
    write(studio, "Nguyen", "Win")
    studio.keyboard.press("Escape")
    enter(studio, "script")
    expect(studio.locator("#vw-script-lines > li").first).to_have_attribute("data-state", "unmade")
