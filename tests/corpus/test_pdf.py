"""Tests for PDF import with files as programs produce them, and with damaged files.

The text is compared with that of poppler's pdftotext.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from studio.documents.reading import read
from studio.documents.service import DocumentService
from studio.documents.values import DAMAGED, NO_TEXT, PROTECTED, UnreadableError
from studio.errors import DocumentUnreadable
from tests.support.pdfs import drawn, stream

TEXT = "BT /F 12 Tf 60 700 Td (All boats came back.) Tj ET"
GLYPHS = (
    "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType2"
    "/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW 1000/W[1[500 500 500 500]32[900]]"
    "/FontDescriptor<</Type/FontDescriptor/FontName/X/Flags 4>>>>]{}>>"
)
CHARACTERS = stream(
    "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange 4 beginbfchar <0001> <0054> <0002> <0065> "
    "<0003> <0061> <0004> <0073> endbfchar endcmap"
)
# Page on which a word spacing of 10 points moves the second string, which completes the word "words".
SPACED = "BT /F 10 Tf 60 700 Td 10 Tw (all of the wo) Tj 83.36 0 Td (rds) Tj ET"
BOLD = (
    "BT /F 12 Tf 1 0 0 1 60 700 Tm (All boats) Tj 0.2 -0.2 Td (All boats) Tj -0.2 0 Td [(All bo) -5 (ats)] TJ "
    "0.2 0.2 Td (All boats came back.) Tj ET BT 60 680 Td (They sang: la) Tj ( ) Tj (la) Tj (la) Tj ET"
)
SAME = {
    "font without a space": (
        drawn(
            "BT /F 12 Tf 60 700 Td [<000100020003> -330 <000400020003>] TJ ET",
            font=GLYPHS.format("/ToUnicode 4 0 R"),
            more=[CHARACTERS],
        ),
        ["Tea sea"],
    ),
    "spaced words": (drawn(SPACED), ["all of the words"]),
    "overprint": (drawn(BOLD), ["All boats came back. They sang: la lala"]),
}


def paragraphs(data: bytes) -> list[str]:
    return [text for chapter in read(data).chapters for text in chapter.paragraphs]


def notes(data: bytes) -> dict[str, int]:
    return {note.code: note.count for note in read(data).notes}


@pytest.mark.parametrize("kind", SAME)
def test_words_of_a_pdf_are_neither_joined_nor_split_nor_doubled(kind: str, tmp_path: Path) -> None:
    data, expected = SAME[kind]
    assert paragraphs(data) == expected
    if shutil.which("pdftotext"):
        (file := tmp_path / "x.pdf").write_bytes(data)
        text = subprocess.run(["pdftotext", file, "-"], capture_output=True, check=True).stdout.decode()
        assert " ".join(text.split()) == " ".join(expected)


def test_pdf_glyphs_without_characters_are_counted_and_not_spoken() -> None:
    data = drawn("BT /F 12 Tf 60 700 Td <005700480050> Tj ET", font=GLYPHS.format(""))
    with pytest.raises(UnreadableError, match=NO_TEXT):
        read(data)
    two = drawn("BT /F 12 Tf 60 700 Td <00570048> Tj /G 12 Tf ( tea) Tj ET", font=GLYPHS.format(""))
    two = two.replace(b"/F 3 0 R>>", b"/F 3 0 R/G<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>")
    assert (paragraphs(two), notes(two)) == (["tea"], {"damaged": 2})


@pytest.mark.parametrize("bad", ["BT /F 12 Tf (unclosed", "BT /F 12 Tf [ ( a ] ) TJ <zz> Tj << /x >> ET"])
def test_damaged_pdf_page_does_not_hide_the_other_pages(bad: str) -> None:
    data = drawn(TEXT, bad)
    assert paragraphs(data)[0] == "All boats came back."
    assert notes(data)["damaged_pages"] == 1


@pytest.mark.parametrize("filter_name", ["FooDecode", "JBIG2Decode"])
def test_unknown_pdf_filters_are_reported_as_damage(filter_name: str) -> None:
    for contents in ([TEXT, TEXT], [TEXT]):
        data = drawn(*contents)
        end = data.rindex(b"/Length")
        data = data[:end] + f"/Filter/{filter_name}".encode() + data[end:]
        if len(contents) == 2:
            assert (paragraphs(data), notes(data)) == (["All boats came back."], {"damaged_pages": 1})
        else:
            with pytest.raises(UnreadableError, match=DAMAGED):
                read(data)


@pytest.mark.parametrize("trailer", ["/Info 12", "/Info[1 2]"])
def test_damaged_pdf_metadata_does_not_hide_the_text(trailer: str) -> None:
    data = drawn(TEXT).replace(b"/Root 1 0 R", f"/Root 1 0 R{trailer}".encode())
    assert paragraphs(data) == ["All boats came back."]


def test_damaged_pdf_outline_does_not_hide_the_text() -> None:
    entries = [f"<</Title(x)/Dest[2 0 R/Fit]/First {number} 0 R>>" for number in range(6, 300)]
    data = drawn(TEXT, more=["<</First 5 0 R>>", *entries, "<<>>"])
    assert paragraphs(data.replace(b"/Catalog", b"/Catalog/Outlines 4 0 R")) == ["All boats came back."]


def test_similar_pdf_rows_are_text_if_their_pages_have_no_other_rows() -> None:
    data = drawn(*(f"BT /F 12 Tf 60 700 Td (Step {number} of the way) Tj ET" for number in range(1, 5)))
    assert paragraphs(data)[0].startswith("Step 1 of the way")


@pytest.mark.parametrize("handler", ["/Filter/FOPN_fLock/V 1/R 2", "/Filter/Adobe.PubSec/V 4", ""])
async def test_pdf_encrypted_without_a_password_is_reported_as_protected(handler: str) -> None:
    data = drawn(TEXT).replace(b"/Root 1 0 R", f"/Root 1 0 R/Encrypt<<{handler}>>/ID[(a)(b)]".encode())

    async def receive() -> list[bytes]:
        return [data]

    with pytest.raises(DocumentUnreadable) as refused:
        await DocumentService().read(receive)
    assert str(refused.value) == f"This document cannot be read: {PROTECTED}."
