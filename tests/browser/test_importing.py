"""Tests for file import: selection of chapters, and messages for unsupported files."""

from __future__ import annotations

import io
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import av
import pytest
from playwright.sync_api import FileChooser, FilePayload, Page, Route, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import origin
from tests.browser.script_steps import decoded, enter_script, export, line, new_script, paste, text_of, texts, voice_of
from tests.browser.steps import enter
from tests.support.app import running_app
from tests.support.documents import XHTML, epub, letter, paragraph, word
from tests.unit.shared.test_fetch import Trap, trap
from tests.unit.studio.test_web_pages import PAGE as ARTICLE

__all__ = ["trap"]
pytestmark = pytest.mark.browser
HAS_EXTRACTOR = find_spec("trafilatura") is not None

BOOK: FilePayload = {"name": "book.epub", "mimeType": "application/epub+zip", "buffer": epub()}
LETTER: FilePayload = {
    "name": "letter.docx",
    "mimeType": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "buffer": letter(("Normal", "Dear you."), ("Normal", "It rains.")),
}


def test_chapters_of_a_book_become_a_script_with_its_title(studio: Page) -> None:
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


def test_first_line_of_each_chapter_shows_the_title(studio: Page) -> None:
    enter_script(studio)
    studio.set_input_files("#vw-script-file", BOOK)
    studio.locator("#vw-chapters-go").click()
    titles = studio.locator(".vw-line-chapter:visible")
    expect(titles).to_have_text(["First", "Before.", "Last"])
    widths = titles.evaluate_all("(titles) => titles.map(({ offsetWidth }) => offsetWidth > 1)")
    assert widths == [True, False, True], "the line after the second title has the same text"
    studio.screenshot(path=SCREENSHOTS / "chapter-titles-wide.png")
    studio.set_viewport_size({"width": 390, "height": 844})
    title, words = (studio.locator(f".vw-line >> nth=0 >> {part}").bounding_box() for part in ("h3", ".vw-line-says"))
    assert title is not None
    assert words is not None
    assert title["y"] + title["height"] <= words["y"]
    studio.screenshot(path=SCREENSHOTS / "chapter-titles.png")


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=lambda size: str(size[0]))
def test_imported_headings_have_the_voice_of_the_narrator(studio: Page, size: tuple[int, int]) -> None:
    studio.set_viewport_size({"width": size[0], "height": size[1]})
    enter_script(studio)
    new_script(studio, "Tea")
    paste(studio, 1, "# One\n\nIt boils.\n\nTOM: Tea?\n\n# Two\n\nIt rains.")
    expect(studio.locator(".vw-toast").last).to_contain_text("The headings are read by Angus.")
    studio.screenshot(path=SCREENSHOTS / f"headings-{size[0]}.png")
    names = [voice_of(studio, number) for number in range(1, 6)]
    assert names[0] == names[1] == names[3] == names[4] != names[2]


@pytest.mark.parametrize("room", ["text", "script"])
def test_script_from_a_markdown_file_keeps_its_chapters(studio: Page, room: str) -> None:
    enter_script(studio)
    if room == "text":
        studio.click("#vw-tab-speakers")
    text = ("# One\n\nIt boils.\n\n# Two\n\n" + "It rains. " * 600).encode()
    studio.set_input_files(f"#vw-{room}-file", {"name": "Tea.md", "mimeType": "text/markdown", "buffer": text})
    studio.locator("#vw-chapters-go").click()
    expect(studio.locator(".vw-line-chapter:visible")).to_have_text(["One", "Two"])
    line(studio, 1).locator(".vw-line-open").click()
    line(studio, 1).locator(".vw-line-copy").click()
    assert texts(studio)[:3] == ["One.", "One.", "It boils."]
    expect(studio.locator(".vw-line-chapter:visible")).to_have_text(["One", "Two"])


def test_subtitle_file_opened_twice_while_it_is_read_is_imported_once(studio: Page) -> None:
    srt = b"1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:04,400 --> 00:00:05,000\nTwo.\n"
    film: FilePayload = {"name": "film.srt", "mimeType": "text/plain", "buffer": srt}
    held: list[Route] = []
    studio.route("**/studio/documents?*", lambda route: held.append(route))
    choosers: list[FileChooser] = []
    studio.on("filechooser", lambda chooser: choosers.append(chooser))
    enter_script(studio)
    new_script(studio, "Film")
    studio.set_input_files("#vw-script-file", film)
    notice = studio.locator(".vw-toast", has_text="Reading film.srt")
    expect(notice).to_be_visible()
    studio.locator("label[for=vw-script-file]").click()
    studio.set_input_files("#vw-script-file", film)
    expect(notice).to_have_count(1)
    assert choosers == []
    held[0].continue_()
    expect(notice).to_have_count(0)
    expect(text_of(studio, 2)).to_have_value("Two.")
    assert len(held) == 1
    assert texts(studio) == ["One. [pause 2s]", "Two."]
    with studio.expect_file_chooser():
        studio.locator("label[for=vw-script-file]").click()


def test_a_new_script_is_shown_from_its_first_line(studio: Page) -> None:
    enter_script(studio)
    paste(studio, 1, "\n\n".join(f"Line {n}." for n in range(30)))
    studio.locator("#vw-script-add").scroll_into_view_if_needed()
    many = [("Normal", f"Sentence {n}.") for n in range(30)]
    studio.set_input_files("#vw-script-file", {**LETTER, "buffer": letter(*many)})
    expect(text_of(studio, 30)).to_have_value("Sentence 29.")
    expect(text_of(studio, 1)).to_be_in_viewport()


def test_an_imported_book_is_exported_with_its_chapters(studio: Page) -> None:
    two = f"{XHTML}<body><h2 id='b'>Two</h2><p>It ends.</p></body></html>"
    enter_script(studio)
    new_script(studio, "Without chapters")
    files = studio.locator("#vw-script-shape option[value=chapters]")
    studio.click("#vw-script-files")
    expect(files).to_be_disabled()
    studio.keyboard.press("Escape")
    studio.set_input_files("#vw-script-file", {**BOOK, "buffer": epub(**{"two a": two})})
    studio.locator("#vw-chapters-go").click()
    expect(studio.locator("#vw-script-lines > li")).to_have_count(5)
    assert texts(studio) == ["Chapter One", "It was a dark night.", "Wind & rain came. On.", "Two", "It ends."]
    studio.click("#vw-script-files")
    expect(files).to_be_enabled()
    studio.keyboard.press("Escape")
    name, data = export(studio, "joined", format="m4b")
    assert name == "A Book.m4b"
    with av.open(io.BytesIO(data), "r") as book:
        chapters = book.chapters()
        assert [chapter["metadata"]["title"] for chapter in chapters] == ["First", "Last"]
        assert chapters[0]["start"] == 0 < chapters[1]["start"]
        assert book.metadata["genre"] == "Audiobook"


def test_subtitles_are_exported_at_their_times(studio: Page) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:04,400 --> 00:00:05,000\nTwo.\n"
    studio.set_input_files("#vw-text-file", {"name": "a.srt", "mimeType": "text/plain", "buffer": srt.encode()})
    expect(studio.locator("#vw-script-lines > li")).to_have_count(2)
    studio.click("#vw-script-files")
    expect(studio.locator("#vw-script-film")).to_be_hidden()
    studio.check("#vw-script-timed")
    studio.fill("#vw-script-film", "20")
    studio.keyboard.press("Escape")
    _, data = export(studio, "joined", loudness="")
    samples = decoded(data)
    assert len(samples) == 20 * 24_000
    assert not samples[:24_000].any()
    assert samples[24_000:48_000].any()
    assert not samples[round(4.3 * 24_000) : round(4.4 * 24_000)].any()
    assert samples[round(4.4 * 24_000) :].any()


def test_subtitles_replace_only_an_unchanged_sample_script(studio: Page) -> None:
    srt = b"1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:04,400 --> 00:00:05,000\nTwo.\n"
    film: FilePayload = {"name": "film.srt", "mimeType": "text/plain", "buffer": srt}
    enter_script(studio)
    studio.click("#vw-script-shelf > summary")
    studio.locator("#vw-script-samples button").first.click()
    expect(text_of(studio, 1)).not_to_have_value(re.compile("^(One|Two)"))
    studio.set_input_files("#vw-script-file", film)
    expect(studio.locator("#vw-script-name")).to_have_value("film")
    assert texts(studio) == ["One. [pause 2s]", "Two."]
    studio.click("#vw-script-files")
    expect(studio.locator("#vw-script-timed")).to_be_visible()
    studio.keyboard.press("Escape")
    studio.set_input_files("#vw-script-file", film)
    expect(studio.locator("#vw-script-lines > li")).to_have_count(4)


def test_export_with_one_file_per_chapter_ignores_subtitle_times(studio: Page) -> None:
    line = {"id": "0" * 16, "text": "One.", "voice": None, "starts": 1.0, "chapter": "Morning"}
    address = f"{origin(studio)}/studio/scripts/{'c' * 16}"
    assert studio.request.put(address, data={"name": "Film", "gap_s": 0.4, "lines": [line], "seconds": 1.0}).ok
    studio.goto(f"{origin(studio)}/#/script/{'c' * 16}")
    expect(text_of(studio, 1)).to_have_value("One.")
    files = studio.locator("#vw-script-shape option[value=chapters]")
    studio.click("#vw-script-files")
    studio.select_option("#vw-script-shape", "chapters")
    studio.check("#vw-script-timed")
    expect(files).to_be_disabled()
    expect(studio.locator("#vw-script-shape")).to_have_value("joined")
    studio.uncheck("#vw-script-timed")
    expect(files).to_be_enabled()
    assert studio.request.delete(address).ok


def test_footnotes_of_a_document_are_an_optional_chapter(studio: Page) -> None:
    body = paragraph("It rains.", '<w:r><w:footnoteReference w:id="1"/></w:r>')
    notes = f'<w:footnote w:id="1">{paragraph("Not often.")}</w:footnote>'
    enter_script(studio)
    studio.set_input_files("#vw-script-file", {**LETTER, "buffer": word(body, footnotes=notes)})
    sheet = studio.locator("#vw-chapters")
    expect(sheet.locator("li")).to_have_text(["It rains.1 s", "Footnotes and endnotes1 s"])
    expect(sheet.locator("#vw-chapters-sum")).to_contain_text("1 of 2 chapters")
    expect(studio.locator(".vw-toast").last).to_contain_text("1 mark of a footnote or endnote is not read")
    sheet.locator("#vw-chapters-go").click()
    assert texts(studio) == ["It rains."]


@pytest.mark.parametrize("room", ["speakers", "clone"])
def test_file_import_replaces_the_text_of_the_room_and_can_be_undone(studio: Page, room: str) -> None:
    studio.fill("#vw-text", "My own words.")
    enter(studio, room)
    studio.set_input_files("#vw-text-file", LETTER)
    expect(studio.locator("#vw-text")).to_have_value("Dear you.\n\nIt rains.")
    studio.locator(".vw-toast button").click()
    expect(studio.locator("#vw-text")).to_have_value("My own words.")


def test_file_too_long_for_one_take_becomes_a_script_named_after_the_file(studio: Page) -> None:
    long = "\n\n".join(["The boat came back in the evening."] * 200).encode()
    studio.set_input_files("#vw-text-file", {"name": "Boats.txt", "mimeType": "text/plain", "buffer": long})
    expect(studio.locator("#vw-room-script")).to_be_visible()
    expect(studio.locator("#vw-script-name")).to_have_value("Boats")
    expect(studio.locator("#vw-script-lines > li")).to_have_count(200)


def test_imported_subtitles_keep_their_times(studio: Page) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:04,400 --> 00:00:05,000\nTwo.\n"
    studio.set_input_files("#vw-text-file", {"name": "a.srt", "mimeType": "text/plain", "buffer": srt.encode()})
    expect(studio.locator("#vw-script-lines > li")).to_have_count(2)
    assert texts(studio) == ["One. [pause 2s]", "Two."], "a script's own 0.4 s come after it"
    offered = {studio.get_attribute(f"#vw-{room}-file", "accept") for room in ("text", "script")}
    assert len(offered) == 1
    assert ".ass,.ssa,.ttml,.smi,.sami,.sub,.sbv,.tmp,.mpl,.mpl2,.dfxp" in str(offered)


def test_markdown_import_keeps_only_the_readable_text(studio: Page) -> None:
    text = b"The **kettle**[^1] is on.\n\n[^1]: Of copper.\n"
    studio.set_input_files("#vw-text-file", {"name": "Tea.md", "mimeType": "text/markdown", "buffer": text})
    expect(studio.locator("#vw-text")).to_have_value("The kettle is on.")
    expect(studio.locator(".vw-toast").last).to_contain_text("1 footnote is not read. For example: [^1]: Of copper.")


def test_unnamed_script_is_named_after_its_file(studio: Page) -> None:
    enter_script(studio)
    name = studio.locator("#vw-script-name")
    studio.click("#vw-script-shelf > summary")
    studio.click("#vw-script-new")
    expect(name).to_have_value("")
    chat = b"[31.12.25, 22:30:15] Mary: Hello\n[31.12.25, 22:31:02] Tom: Good evening\n"
    files: list[tuple[FilePayload, str]] = [
        ({"name": "tea.md", "mimeType": "text/markdown", "buffer": b"---\ntitle: Tea\n---\nIt boils."}, "Tea"),
        ({"name": "A.plain.txt", "mimeType": "text/plain", "buffer": b"It boils."}, "A.plain"),
        ({"name": "Chat with Mary.txt", "mimeType": "text/plain", "buffer": chat}, "Chat with Mary"),
    ]
    for file, title in files:
        studio.set_input_files("#vw-script-file", file)
        expect(name).to_have_value(title)
        studio.locator(".vw-toast button").last.click()
        expect(name).to_have_value("")
    name.fill("My own")
    studio.set_input_files("#vw-script-file", files[0][0])
    expect(text_of(studio, 1)).to_have_value("It boils.")
    expect(name).to_have_value("My own")


def test_sound_descriptions_in_subtitles_are_left_out_by_default(studio: Page) -> None:
    enter_script(studio)
    rows = ("[door slams] Where?", "- Here.\n- There. (laughs)", "\u266a la la \u266a")
    srt = "\n\n".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{row}" for n, row in enumerate(rows, 1)).encode()
    for wanted in (False, True):
        studio.set_input_files("#vw-script-file", {"name": "film.srt", "mimeType": "text/plain", "buffer": srt})
        sheet = studio.locator("#vw-import")
        expect(sheet.locator("#vw-import-notes")).to_contain_text("For example: door slams · laughs · la la.")
        expect(sheet.locator("#vw-import-encoding")).to_be_hidden()
        expect(sheet.locator("#vw-import-preview li")).to_have_text(["Where?", "Speaker 1: Here.", "Speaker 2: There."])
        if wanted:
            sheet.get_by_label("Also read sounds").check()
            expect(sheet.locator("#vw-import-preview li").first).to_have_text("door slams")
        sheet.locator("#vw-import-go").click()
        expect(sheet).to_be_hidden()
        added = texts(studio)[-6 if wanted else -3 :]
        assert added == (
            ["door slams", "Where?", "Here.", "There.", "laughs", "la la"] if wanted else ["Where?", "Here.", "There."]
        )


def test_uncertain_encoding_can_be_chosen_from_a_text_preview(studio: Page) -> None:
    enter_script(studio)
    data = "Съешь ещё этих мягких французских булок.".encode("mac_cyrillic")
    studio.set_input_files("#vw-script-file", {"name": "bread.txt", "mimeType": "text/plain", "buffer": data})
    sheet = studio.locator("#vw-import")
    select = sheet.locator("select")
    expect(sheet.locator("#vw-import-sounds")).to_be_hidden()
    select.select_option("MacCyrillic")
    expect(sheet.locator("#vw-import-preview li")).to_have_text(["Съешь ещё этих мягких французских булок."])
    studio.screenshot(path=SCREENSHOTS / "encoding.png")
    sheet.locator("#vw-import-go").click()
    assert texts(studio)[-1] == "Съешь ещё этих мягких французских булок."


def test_omitted_parts_of_an_import_are_reported_and_can_be_read(studio: Page) -> None:
    text = "It was the end of\n\n12\n\na page.".encode("cp1252")
    sheet = studio.locator("#vw-import")
    for wanted in (False, True):
        studio.set_input_files("#vw-text-file", {"name": "a.txt", "mimeType": "text/plain", "buffer": text})
        expect(sheet).to_contain_text("1 page number is not read. For example: 12.")
        if wanted:
            sheet.get_by_label("Page numbers (1)").check()
            expect(sheet.locator("#vw-import-notes")).to_be_empty()
        sheet.locator("#vw-import-go").click()
        expect(studio.locator("#vw-text")).to_have_value(
            "It was the end of\n\n12\n\na page." if wanted else "It was the end of a page."
        )


MIXED = """# One

Water boils.[^1]

1. Fill it.
2. Light it.

```
x = 1
```

# Two

| Year | Cups |
|------|------|
| 1900 | 12   |

[^1]: At sea level.
"""


def test_content_options_are_chosen_with_the_chapters(studio: Page, tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(MIXED)
    subprocess.run(["pandoc", "tea.md", "-o", "tea.docx"], cwd=tmp_path, check=True)
    enter_script(studio)
    sheet = studio.locator("#vw-chapters")
    for wanted in (False, True):
        studio.set_input_files("#vw-script-file", tmp_path / "tea.docx")
        expect(sheet).to_be_visible()
        expect(sheet.locator("#vw-chapters-kinds label")).to_have_text(
            ["Marks of notes (1)", "Code (1 block)", "Tables (2 rows)", "Numbers of lists (2)"]
        )
        places = sheet.locator("#vw-chapters-kinds, #vw-chapters-all, #vw-chapters-list")
        ids = places.evaluate_all("(all) => all.map(({ id }) => id)")
        assert ids == ["vw-chapters-kinds", "vw-chapters-all", "vw-chapters-list"]
        sheet.get_by_label("Two", exact=False).first.uncheck()
        if wanted:
            sheet.get_by_label("Code").check()
            expect(sheet.locator("#vw-chapters-sum")).to_contain_text("1 of 3 chapters · 5 lines")
            sheet.get_by_label("Numbers of lists").uncheck()
        studio.screenshot(path=SCREENSHOTS / "kinds.png")
        sheet.locator("#vw-chapters-go").click()
        expect(sheet).to_be_hidden()
        expect(text_of(studio, 1)).to_have_value("One")
        assert texts(studio) == (
            ["One", "Water boils.", "Fill it.", "Light it.", "x = 1"]
            if wanted
            else ["One", "Water boils.", "1. Fill it.", "2. Light it."]
        )


def test_content_options_of_an_import_have_chinese_names(open_studio: OpenStudio) -> None:
    studio = open_studio(locale="zh-CN")
    text = b"One\n===\n\n- [x] Tea\n\n1. Fill it.\n\n    x = 1\n"
    studio.set_input_files("#vw-text-file", {"name": "Tea.md", "mimeType": "text/markdown", "buffer": text})
    sheet = studio.locator("#vw-import")
    expect(sheet.locator("legend")).to_have_text("朗读")
    expect(sheet.get_by_label("列表编号（1 个）")).to_be_checked()
    sheet.locator("#vw-import-close").click()
    studio.click("#vw-text-web")
    expect(studio.locator("#vw-web")).to_contain_text("网页地址")
    studio.fill("#vw-web-address", "127.0.0.1/x")
    studio.click("#vw-web-go")
    expect(studio.locator("#vw-web-error")).to_contain_text(
        "不会打开该地址。它必须是公开的 https 地址"
        if HAS_EXTRACTOR
        else "此处无法读取网页；主机可安装 voicewright[web]"
    )


@pytest.mark.skipif(HAS_EXTRACTOR, reason="trafilatura is installed")
def test_web_page_import_without_its_optional_package_shows_an_error(studio: Page) -> None:
    studio.click("#vw-text-web")
    studio.fill("#vw-web-address", "voices.example/rivers")
    studio.click("#vw-web-go")
    expect(studio.locator("#vw-web-error")).to_contain_text("the host can install voicewright[web]")
    studio.locator("#vw-web-close").click()
    expect(studio.locator("#vw-web")).to_be_hidden()


@pytest.mark.skipif(not HAS_EXTRACTOR, reason="trafilatura is not installed (voicewright[web])")
def test_the_article_of_a_web_page_becomes_a_text_or_a_script(open_studio: OpenStudio, trap: Trap) -> None:
    trap.body = ARTICLE
    with running_app([], instant=True, INSTANT_WEB_PORT=str(trap.port)) as app:
        page = open_studio(url=app.url, has_own_window=True)
        page.click("#vw-text-web")
        page.fill("#vw-web-address", "http://127.0.0.1/rivers")
        page.click("#vw-web-go")
        expect(page.locator("#vw-web-error")).to_contain_text("It must be a public https address")
        page.fill("#vw-web-address", "voices.example/rivers#bend")
        page.screenshot(path=SCREENSHOTS / "web_page.png")
        page.click("#vw-web-go")
        sheet = page.locator("#vw-chapters")
        expect(sheet.locator("h2")).to_have_text("How rivers move")
        expect(page.locator("#vw-web")).to_be_hidden()
        sheet.get_by_label("Tables").uncheck()
        expect(sheet.locator("#vw-chapters-error")).to_be_empty()
        page.screenshot(path=SCREENSHOTS / "web_page_chapters.png")
        sheet.locator("#vw-chapters-go").click()
        expect(page.locator("#vw-text")).to_have_value(re.compile("Rivers move slowly"))
        assert "1900" not in page.input_value("#vw-text")
        enter_script(page)
        page.click("#vw-script-web")
        expect(page.locator("#vw-web-address")).to_have_value("voices.example/rivers#bend")
        page.click("#vw-web-go")
        sheet.locator("#vw-chapters-go").click()
        expect(page.locator("#vw-script-name")).to_have_value("How rivers move")
        assert "1900, 12" in texts(page)
        assert {path for path, _ in trap.asked} == {"/rivers"}


def test_dropped_file_is_imported_or_its_error_is_shown(studio: Page) -> None:
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
        ("picture.png", b"\x89PNG\r\n\0\0", "it is neither text nor subtitles, HTML, EPUB, DOCX or PDF"),
        ("blank.txt", b"  \n", "there is no text in it"),
    ):
        studio.evaluate(drop, [name, list(data)])
        expect(toast).to_contain_text(words)
        expect(toast).to_contain_text(name)
    expect(studio.locator("#vw-text")).to_have_value("A note.")


def test_lines_of_a_long_script_create_their_fields_when_scrolled_into_view(studio: Page) -> None:
    enter_script(studio)
    novel = "\n\n".join(f"Paragraph {number} is short." for number in range(6000)).encode()
    studio.set_input_files("#vw-script-file", {"name": "novel.txt", "mimeType": "text/plain", "buffer": novel})
    lines = studio.locator("#vw-script-lines > li")
    expect(lines.last.locator(".vw-line-text")).to_have_value("Paragraph 5999 is short.")
    assert studio.locator(".vw-line-text").count() < 200
    assert lines.count() >= 6000
    studio.evaluate("document.querySelector('#vw-script-lines').children[3000].scrollIntoView()")
    middle = lines.nth(3000).locator(".vw-line-text")
    before = middle.input_value()
    middle.fill(f"{before} Indeed.")
    middle.press("End")
    middle.press("Enter")
    studio.keyboard.type("A new line.")
    assert lines.count() >= 6001
    with studio.expect_response(lambda answer: answer.request.method == "PUT") as put:
        pass
    kept = put.value.request.post_data_json
    assert put.value.ok
    assert [line["text"] for line in kept["lines"]][3000:3002] == [f"{before} Indeed.", "A new line."]
    assert studio.locator(".vw-line-text").count() < 200


def test_import_over_the_line_limit_is_refused_before_adding_lines(studio: Page) -> None:
    enter_script(studio)
    before = texts(studio)
    rows = "\n".join(["A row."] * 10_001).encode()
    studio.set_input_files("#vw-script-file", {"name": "rows.txt", "mimeType": "text/plain", "buffer": rows})
    expect(studio.locator(".vw-toast").last).to_contain_text("A script can have 10000 lines")
    assert texts(studio) == before


def test_chat_export_becomes_a_script_and_omitted_messages_are_listed(studio: Page) -> None:
    rows = (
        "[31.12.25, 22:30:15] Family: \u200eMessages and calls are end-to-end encrypted.",
        "[31.12.25, 22:30:20] Mary: Hello.",
        "\u200e[31.12.25, 22:31:02] +49 170 1234567: \u200eimage omitted",
        "[31.12.25, 22:31:05] +49 170 1234567: Hi.",
    )
    chat: FilePayload = {"name": "chat.txt", "mimeType": "text/plain", "buffer": "\n".join(rows).encode()}
    studio.set_input_files("#vw-text-file", chat)
    expect(studio.locator("#vw-script-lines > li")).to_have_count(2)
    assert texts(studio) == ["Hello.", "Hi."]
    expect(studio.locator(".vw-line-role")).to_have_text(["Mary", "+49 170 1234567"])
    expect(studio.locator(".vw-toast").last).to_have_text(
        "Turned into a script of 2 lines. Not read: 2 system messages or missing attachments of the chat."
    )
    expect(studio.locator("#vw-script-total")).to_contain_text("2 lines")
