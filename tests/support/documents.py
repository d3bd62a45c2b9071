"""Books and letters as people bring them, made here, and some that are made to break their reader."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import docx

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
XHTML = (
    '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" '
    'xmlns:epub="http://www.idpf.org/2007/ops">'
)
ONE = (
    f"{XHTML}<head><title/></head><body><h1>Chapter&nbsp;One</h1><p>It was a <em>dark</em>\n night.<a "
    "epub:type='noteref' href='#n'>1</a></p><p>Wind &amp; rain<br/>came.<!-- no --> On.</p></body></html>"
)
TWO = (
    f"{XHTML}<head><title>x</title></head><body><div><p>Before.</p><h2 id='b'>The &quot;end&quot;</h2>"
    "<p>重庆<ruby>漢<rt>かん</rt></ruby></p></div></body></html>"
)
NAV = (
    f"{XHTML}<body><nav epub:type='toc'><ol><li><a href='one.xhtml'>First</a></li>"
    "<li><a href='two%20a.xhtml#b'>Last</a></li></ol></nav></body></html>"
)
OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<dc:title>A  Book</dc:title></metadata><manifest>"
    '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    '<item id="one" href="one.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="two" href="two%20a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="gone"/></spine></package>'
)
BOOK: dict[str, str | bytes] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": OPF,
    "OPS/nav.xhtml": NAV,
    "OPS/one.xhtml": ONE,
    "OPS/two a.xhtml": TWO,
}


def archive(files: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return file.getvalue()


def epub(**changed: str | bytes) -> bytes:
    """A book of two files; entries by their last name without its suffix take the place of its own."""
    names = {name.rpartition("/")[2].partition(".")[0]: name for name in BOOK}
    return archive(BOOK | {names.get(name, f"META-INF/{name}.xml"): content for name, content in changed.items()})


def letter(*paragraphs: tuple[str, str], title: str = "", table: list[list[str]] | None = None) -> bytes:
    """A DOCX of paragraphs with their styles, and a table behind them."""
    opened: Any = docx.Document()
    opened.core_properties.title = title
    for style, text in paragraphs:
        opened.add_paragraph(text, style=style)
    if table:
        made = opened.add_table(rows=0, cols=len(table[0]))
        for row in table:
            for cell, text in zip(made.add_row().cells, row, strict=True):
                cell.text = text
    file = io.BytesIO()
    opened.save(file)
    return file.getvalue()
