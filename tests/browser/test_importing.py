"""Files become text and scripts: chapters of books are chosen first, and what is no text says so."""

from __future__ import annotations

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import SCREENSHOTS
from tests.browser.script_steps import enter_script, texts
from tests.browser.steps import enter
from tests.support.documents import epub, letter

pytestmark = pytest.mark.browser

BOOK: FilePayload = {"name": "book.epub", "mimeType": "application/epub+zip", "buffer": epub()}
LETTER: FilePayload = {
    "name": "letter.docx",
    "mimeType": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "buffer": letter(("Normal", "Dear you."), ("Normal", "It rains.")),
}


def test_chapters_of_a_book_become_a_script_of_its_title(studio: Page) -> None:
    enter_script(studio)
    studio.set_input_files("#vw-script-file", BOOK)
    sheet = studio.locator("#vw-chapters")
    expect(sheet).to_contain_text("A Book")
    expect(sheet.locator("li")).to_have_text(["First4 s", "Before.1 s", "Last1 s"])
    expect(sheet.locator("#vw-chapters-sum")).to_contain_text("3 of 3 chapters · 6 lines")
    sheet.get_by_text("Before.").click()
    expect(sheet.locator("#vw-chapters-sum")).to_contain_text("2 of 3 chapters · 5 lines")
    studio.screenshot(path=SCREENSHOTS / "chapters.png")
    sheet.locator("#vw-chapters-go").click()
    expect(sheet).to_be_hidden()
    expect(studio.locator("#vw-script-name")).to_have_value("A Book")
    assert texts(studio) == ["Chapter One", "It was a dark night.", "Wind & rain came. On.", 'The "end"', "重庆漢"]


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_a_letter_is_spoken_as_the_room_speaks_and_replacing_can_be_undone(studio: Page, room: str) -> None:
    studio.fill("#vw-text", "My own words.")
    enter(studio, room)
    studio.set_input_files("#vw-text-file", LETTER)
    expect(studio.locator("#vw-text")).to_have_value("Dear you.\n\nIt rains.")
    studio.locator(".vw-toast button").click()
    expect(studio.locator("#vw-text")).to_have_value("My own words.")


def test_what_is_longer_than_a_take_becomes_a_script_of_the_files_name(studio: Page) -> None:
    long = "\n\n".join(["The boat came back in the evening."] * 200).encode()
    studio.set_input_files("#vw-text-file", {"name": "Boats.txt", "mimeType": "text/plain", "buffer": long})
    expect(studio.locator("#vw-room-script")).to_be_visible()
    expect(studio.locator("#vw-script-name")).to_have_value("Boats")
    expect(studio.locator("#vw-script-lines > li")).to_have_count(200)


def test_subtitles_become_a_script_that_keeps_their_times(studio: Page) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:04,400 --> 00:00:05,000\nTwo.\n"
    studio.set_input_files("#vw-text-file", {"name": "a.srt", "mimeType": "text/plain", "buffer": srt.encode()})
    expect(studio.locator("#vw-script-lines > li")).to_have_count(2)
    assert texts(studio) == ["One. [pause 2s]", "Two."], "a script's own 0.4 s come after it"


def test_a_file_that_is_dropped_is_read_and_one_that_cannot_be_says_why(studio: Page) -> None:
    drop = """([name, bytes]) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
      const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });
      document.querySelector('#vw-text').dispatchEvent(drop);
    }"""
    studio.evaluate(drop, ["note.txt", list(b"A note.")])
    expect(studio.locator("#vw-text")).to_have_value("A note.")
    toast = studio.locator(".vw-toast").last
    for name, data, words in (
        ("torn.epub", b"PK\x03\x04 torn", "it is damaged"),
        ("picture.png", b"\x89PNG\r\n\0\0", "no text that can be read here"),
        ("blank.txt", b"  \n", "There is no text in blank.txt"),
    ):
        studio.evaluate(drop, [name, list(data)])
        expect(toast).to_contain_text(words)
        expect(toast).to_contain_text(name)
    expect(studio.locator("#vw-text")).to_have_value("A note.")
