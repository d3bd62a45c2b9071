"""Tests for the PDF reader with files that Chromium printed, compared with pdftotext."""

from __future__ import annotations

import html
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.page import find_chromium
from studio.documents.reading import read
from studio.documents.values import ContentChoice, Document
from tests.support.pdfs import Placed, pdf

LATIN = "office efficient waffle well-known 1,000 5 % (aside)"
ALL = f"{LATIN} naïve café “quoted” — £3 it’s Straße Ångström élan coöperate Съешь этих булок Ποταμός Øre łódź señor"
STYLE = "body{{font:{size}pt {family};text-align:{align};line-height:{leading}}} h1{{font-size:200%}}"

pytestmark = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler's pdftotext is not installed")


def letters(text: str) -> str:
    """Return only the letters and digits of a text.

    PDF readers give different spaces, ligatures and hyphens at the ends of rows.
    """
    return "".join(filter(str.isalnum, text.replace("ﬁ", "fi").replace("ﬀ", "ff").replace("ﬃ", "ffi")))


def read_by_poppler(file: Path) -> str:
    return subprocess.run(["pdftotext", "-enc", "UTF-8", file, "-"], capture_output=True, check=True).stdout.decode()


def text_of(document: Document) -> str:
    return " ".join(text for chapter in document.chapters for text in chapter.paragraphs)


def sentences(choose: random.Random, count: int) -> str:
    return " ".join(" ".join(choose.choices(ALL.split(), k=choose.randint(4, 14))) + "." for _ in range(count))


@pytest.mark.parametrize("seed", range(2))
def test_printed_page_has_the_same_letters_as_with_poppler(tmp_path: Path, seed: int) -> None:
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("Chromium is not installed")
    choose = random.Random(seed)
    style = STYLE.format(
        size=choose.choice([9, 11, 14]),
        family=choose.choice(["serif", "sans-serif", "monospace"]),
        align=choose.choice(["left", "justify"]),
        leading=choose.choice([1.2, 1.6]),
    )
    parts = []
    for chapter in range(1, 5):
        parts.append(f"<h1>Chapter {chapter}</h1>")
        parts += [f"<p>{html.escape(sentences(choose, choose.randint(1, 6)))}</p>" for _ in range(choose.randint(3, 9))]
        parts.append("<ul><li>Tea<li>Milk</ul><table><tr><td>Year<td>Cups<tr><td>1900<td>12</table>")
    page, file = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>Printed</title><style>{style}</style>{''.join(parts)}")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    subprocess.run([*command, f"--print-to-pdf={file}", page.as_uri()], capture_output=True, check=True, timeout=300)
    document = read(file.read_bytes(), spoken=ContentChoice(page_numbers=True))
    assert letters(text_of(document)) == letters(read_by_poppler(file))
    assert [chapter.title for chapter in document.chapters if chapter.title] == [f"Chapter {n}" for n in range(1, 5)]
    assert document.title == "Printed"


@pytest.mark.parametrize("seed", range(8))
def test_book_has_the_same_letters_as_with_poppler_except_running_titles(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    pages: list[list[Placed]] = []
    for number in range(1, choose.randint(4, 9)):
        rows: list[Placed] = [(60, 770, 9, f"The Voyage {number}")]
        rows += [(60, 740, 18, f"Chapter {number}")] if choose.random() < 0.5 else []
        rows += [
            (60, 700 - 14.0 * at, 11, " ".join(choose.choices(LATIN.split(), k=choose.randint(3, 12))))
            for at in range(choose.randint(3, 40))
        ]
        pages.append([*rows, (300, 30, 9, str(number))])
    file = tmp_path / "book.pdf"
    file.write_bytes(pdf(pages))
    rows_of_poppler = read_by_poppler(file).splitlines()
    kept = [row for row in rows_of_poppler if not row.startswith("The Voyage") and not row.strip().isdecimal()]
    assert letters(text_of(read(file.read_bytes()))) == letters(" ".join(kept))
