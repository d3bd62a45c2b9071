"""Tests for PDF import: chapters, running titles, page numbers and scanned pages."""

from __future__ import annotations

import io
import time

import pytest
from pypdf import PdfReader, PdfWriter

from studio.documents.reading import read
from studio.documents.service import DocumentService
from studio.documents.values import DAMAGED, LOCKED, NO_TEXT, UnreadableError
from studio.errors import DocumentUnreadable
from tests.support.pdfs import Placed, drawn, pdf, pdf_of, stream

NOTES = ["1 See the map.", "2 In the log.", "3 Her letter.", "4 His answer."]
ROW = "All of the boats came back in the evening, before the storm began"


def book_page(number: int, rows: list[str], *, heading: str = "", note: str = "") -> list[Placed]:
    """Return a page with a running title, a page number and rows of text."""
    placed: list[Placed] = [(60, 770, 9, f"The Voyage {number}"), (300, 30, 9, str(number))]
    placed += [(60, 740, 18, heading)] if heading else []
    placed += [(60, 700 - 14 * at, 11, row) for at, row in enumerate(rows)]
    return placed + ([(60, 60, 8, note)] if note else [])


def paragraphs(data: bytes) -> list[list[str]]:
    return [chapter.paragraphs for chapter in read(data).chapters]


def test_running_titles_page_numbers_and_notes_are_not_text() -> None:
    days = ["Monday", "Tuesday", "Friday", "Sunday"]
    pages = [
        book_page(number, [f"On {day} all of the boats came back before the storm began,", "and went home."], note=note)
        for number, (day, note) in enumerate(zip(days, NOTES, strict=True), 1)
    ]
    document = read(pdf(pages, title="The Voyage", author="Ann Author"))
    assert (document.title, document.author) == ("The Voyage", "Ann Author")
    text, notes = document.chapters
    assert text.paragraphs == [
        f"On {day} all of the boats came back before the storm began, and went home." for day in days
    ]
    assert (notes.is_notes, notes.paragraphs) == (True, NOTES)
    assert {note.code: note.count for note in document.notes} == {"headers": 4, "page_numbers": 4}


def test_numbered_headings_at_the_top_of_pages_are_not_running_titles() -> None:
    rows = ["one", "two", "three", "four"]
    pages = [book_page(at, [f"{ROW} {row}."], heading=f"Chapter {at}") for at, row in enumerate(rows, 1)]
    document = read(pdf(pages))
    assert [chapter.title for chapter in document.chapters] == [f"Chapter {number}" for number in range(1, 5)]
    assert {note.code: note.count for note in document.notes} == {"headers": 4, "page_numbers": 4}


def test_pdf_rows_are_joined_to_paragraphs_across_pages() -> None:
    first = [f"{ROW} and the har-", "bour was full of light, as on every day.", f"{ROW} and they", "sang until"]
    last = ["midnight. It is over.", f"{ROW}."]
    indented = [(60.0, 700.0, 11.0, f"{ROW}."), (72.0, 686.0, 11.0, f"{ROW}."), (60.0, 650.0, 11.0, "After a gap.")]
    assert paragraphs(pdf([book_page(1, first), book_page(2, last), book_page(3, ["x."])]))[0] == [
        f"{ROW} and the harbour was full of light, as on every day.",
        f"{ROW} and they sang until midnight. It is over.",
        f"{ROW}.",
        "x.",
    ]
    assert paragraphs(pdf([indented])) == [[f"{ROW}.", f"{ROW}.", "After a gap."]]


def test_pdf_chapters_begin_at_outline_entries_or_headings() -> None:
    names = ("One", "", "Two", "")
    texts = [[f"{ROW} on a {day}.", f"{ROW}.", f"{day} was cold."] for day in ("Monday", "Tuesday", "Friday", "Sunday")]
    pages = [book_page(at, text, heading=name) for at, (name, text) in enumerate(zip(names, texts, strict=True), 1)]
    outlined = read(pdf(pages, outline=[("Chapter One", 0), ("Chapter Two", 2)]))
    assert [chapter.title for chapter in outlined.chapters] == ["Chapter One", "Chapter Two"]
    headed = read(pdf(pages))
    assert [chapter.title for chapter in headed.chapters] == ["One", "Two"]
    assert headed.chapters[1].paragraphs == [
        "Two",
        *(f"{ROW} on a {day}. {ROW}. {day} was cold." for day in ("Friday", "Sunday")),
    ]


def test_superscript_numbers_in_a_pdf_are_footnote_marks() -> None:
    row: list[Placed] = [(60, 700, 12, "They sang songs"), (150, 705, 7, "4"), (158, 700, 12, "for hours.")]
    document = read(pdf([row]))
    assert document.chapters[0].paragraphs == ["They sang songs for hours."]
    assert [note.code for note in document.notes] == ["note_marks"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf([[], []], picture=True), NO_TEXT),
        (pdf([[(60, 700, 11, "Hello.")]])[:200], DAMAGED),
        (b"%PDF-1.7\n" + bytes(1000), DAMAGED),
    ],
)
def test_scanned_and_damaged_pdfs_are_refused_with_a_message(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read(data)


def test_pdf_pages_without_text_are_counted() -> None:
    document = read(pdf([[(60, 700, 11, f"{ROW}.")], []], picture=True))
    assert [(note.code, note.examples) for note in document.notes] == [("pictures", ["page 2"])]


@pytest.mark.parametrize(
    ("names", "text", "read_as", "lost"),
    [
        ("/g21 /C0013", "one AB two", "one two", 2),
        ("/f_i /space", "of A and/or n/a", "of fi and/or n/a", 0),
        ("/a /b", "a/b", "a/b", 0),
        ("", "one \\001\\021 two", "one two", 2),
    ],
)
def test_pdf_glyphs_without_a_character_are_counted(names: str, text: str, read_as: str, lost: int) -> None:
    data = pdf([[(72, 700, 12, "Words.")]]).replace(b"(Words.)", b"(" + text.encode() + b")")
    encoding = f"<</Differences[65 {names}]>>" if names else "/WinAnsiEncoding"
    data = data.replace(b"/Encoding/WinAnsiEncoding", b"/Encoding" + encoding.encode())
    found = read(data)
    assert [chapter.paragraphs for chapter in found.chapters] == [[read_as]]
    assert {note.code: note.count for note in found.notes}.get("damaged", 0) == lost


@pytest.mark.parametrize(
    ("encoding", "codec", "text"),
    [
        ("GBKp-EUC-H", "gbk", "中文字符 test"),
        ("GBpc-EUC-V", "gbk", "中文镕 test"),
        ("UniGB-UTF8-H", "utf-8", "中文字符 test"),
        ("UniCNS-UTF32-H", "utf-32-be", "繁體中文字 test"),
        ("HKscs-B5-H", "big5hkscs", "繁體嘅 test"),
        ("B5pc-H", "big5", "繁體中文字 test"),
        ("KSC-EUC-H", "euc_kr", "한국어 글자 test"),
        ("KSCms-UHC-H", "cp949", "한국어 똠 test"),
        ("KSC-Johab-V", "johab", "한국어 글자 test"),
        ("90msp-RKSJ-H", "cp932", "日本語の文字 test"),
        ("EUC-H", "euc_jp", "日本語の文字 test"),
        ("H", "euc_jp", "日本語の文字"),
        ("V", "euc_jp", "縦書きの文章。"),
        ("UniKS-UTF16-H", "utf-16-be", "한국어 글자 test"),
    ],
)
def test_pdf_fonts_with_predefined_encodings_are_read(encoding: str, codec: str, text: str) -> None:
    font = f"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/{encoding}/DescendantFonts[4 0 R]>>"
    of_glyphs = "<</Type/Font/Subtype/CIDFontType0/BaseFont/X/DW 1000>>"
    data = text.encode(codec)
    if encoding in {"H", "V"}:
        data = bytes(byte & 0x7F for byte in data)
    document = read(drawn(f"BT /F 12 Tf 50 700 Td <{data.hex()}> Tj ET", font=font, more=[of_glyphs]))
    assert " ".join(document.chapters[0].paragraphs).split() == text.split()
    assert document.notes == []


def test_values_of_pdf_form_fields_are_read_where_they_are_shown() -> None:
    labels = [(60, 700, "Name"), (300, 700, "Town"), (60, 670, "Agreed"), (60, 600, "Thank you.")]
    content = "\n".join(f"BT /F 11 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in labels)
    fields = [
        "/FT/Tx/V(Bergen)/Rect[350 698 500 712]",
        "/FT/Tx/V(Ann Author)/Rect[100 702 290 716]",
        "/FT/Btn/V/Yes/AS/Yes/Rect[120 668 132 680]",
        "/FT/Btn/V/Off/AS/Off/Rect[140 668 152 680]",
        "/FT/Ch/V[(one)(two)]/Rect[60 640 200 654]",
        "/Parent<</FT/Tx/V(First line.\\nSecond line.)>>/Rect[60 612 200 636]",
        "/FT/Tx/V(secret)/Ff 8192/Rect[60 560 200 574]",
        "/FT/Tx/V(hidden)/F 2/Rect[60 540 200 554]",
        "/FT/Tx/V(no place)",
    ]
    annotations = "".join(f"<</Subtype/Widget{field}>>" for field in fields)
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 4 0 R>>>>/Contents 5 0 R"
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    catalog, pages = "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>"
    document = read(pdf_of([catalog, pages, f"{page}/Annots[{annotations}]>>", font, stream(content)]))
    (chapter,) = document.chapters
    assert " ".join(chapter.paragraphs) == (
        "Name Ann Author Town Bergen Agreed one, two First line. Second line. Thank you."
    )
    assert {note.code: note.count for note in document.notes} == {"symbols": 1, "damaged": 1}


def test_long_pdf_is_read_in_linear_time() -> None:
    began = time.process_time()
    found = paragraphs(pdf([book_page(number, [ROW] * 40) for number in range(300)]))
    assert sum(map(len, found[0])) > 700_000
    assert time.process_time() - began < 15


async def test_pdf_is_read_by_a_child_process() -> None:
    async def locked() -> list[bytes]:
        return [LOCKED_PDF]

    async def plain() -> list[bytes]:
        return [pdf([[(60, 700, 11, "Hello.")]])]

    assert b"Hello." in b"".join(await DocumentService().read(plain))
    with pytest.raises(DocumentUnreadable, match=LOCKED):
        await DocumentService().read(locked)


def locked_pdf() -> bytes:
    """Return a PDF that is protected by a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf([[(60, 700, 11, "Hello.")]]))))
    writer.encrypt("secret", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


LOCKED_PDF = locked_pdf()
