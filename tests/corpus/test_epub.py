"""Tests for EPUB import, compared with the text that pandoc extracts."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from studio.documents.reading import read
from tests.corpus.pandoc import needs_pandoc, pandoc_words, words_of
from tests.support.documents import CONTAINER, archive

HEAD = (
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>x</title></head>'
)
MATH = 'xmlns="http://www.w3.org/1998/Math/MathML"'
TOC = '<nav epub:type="toc"><ol><li><a href="c.xhtml#a">One</a></li><li><a href="c.xhtml#b">Two</a></li></ol></nav>'
LANDMARKS = '<nav epub:type="landmarks"><ol><li><a href="c.xhtml#b">Start</a></li></ol></nav>'
PAGES = '<nav role="doc-pagelist"><ol><li><a href="c.xhtml#b">1</a></li></ol></nav>'
ITEM = '<itemref idref="c"/>'
TWO = '<h1 id="a">One</h1><p>ALPHA.</p><h1 id="b">Two</h1><p>BRAVO.</p>'


def book(
    body: str | bytes, nav: str = "", href: str = "c.xhtml", entry: str = "c.xhtml", spine: str = ITEM, more: str = ""
) -> bytes:
    """Return an EPUB file with one page.

    Args:
        entry: File name of the page in the archive.
        href: Name of the page in the package document.
    """
    items = f'<item id="c" href="{href}" media-type="application/xhtml+xml"/>{more}'
    if nav:
        items += '<item id="n" href="n.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata><title xmlns="http://purl.org/dc/'
        f'elements/1.1/">T</title></metadata><manifest>{items}</manifest>'
        f"<spine>{spine}</spine></package>"
    )
    page = body if isinstance(body, bytes) else f"{HEAD}<body>{body}</body></html>"
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER.replace("OPS/book.opf", "O/p.opf"),
            "O/p.opf": package,
            f"O/{entry}": page,
            "O/n.xhtml": f"{HEAD}<body>{nav}</body></html>",
        }
    )


def mark(link: str) -> tuple[str, list[str], dict[str, int]]:
    return f"<p>ALPHA{link} BRAVO.</p>", ["ALPHA BRAVO."], {"note_marks": 1}


# Pages for which pandoc returns the same text.
SAME: dict[str, tuple[str, list[str]]] = {
    "ordered list": ("<ol><li>ALPHA</li><li><p>BRAVO</p><p>more</p></li></ol>", ["1. ALPHA", "2. BRAVO", "more"]),
    "list that begins elsewhere": ('<ol start="7"><li>ALPHA</li><li>BRAVO</li></ol>', ["7. ALPHA", "8. BRAVO"]),
    "list of letters": ('<ol type="A"><li>ALPHA</li><li>BRAVO</li></ol>', ["A. ALPHA", "B. BRAVO"]),
    "row": ("<table><tr><th>ALPHA:</th><td>12</td><td>7</td></tr></table>", ["ALPHA: 12, 7"]),
    "line breaks": ("<p>ALPHA<br/>BRAVO<br/> <br/>CHARLIE</p>", ["ALPHA BRAVO", "CHARLIE"]),
    "terms": ("<dl><dt>ALPHA</dt><dd>BRAVO</dd></dl>", ["ALPHA", "BRAVO"]),
    "details": ("<details><summary>ALPHA</summary>BRAVO.</details>", ["ALPHA", "BRAVO."]),
    "drop cap in a line": ('<p><span class="dropcap">O</span>nce upon.</p>', ["Once upon."]),
    "object without its data": ('<object data="x"><p>ALPHA.</p></object><p>BRAVO.</p>', ["ALPHA.", "BRAVO."]),
    "raised numbers": ("<p>ALPHA 10<sup>3</sup>, s<sup><i>−1</i></sup>.</p>", ["ALPHA 10³, s⁻¹."]),
    "lowered numbers": ("<p>ALPHA H<sub>2</sub>O, Na<sup>+</sup>.</p>", ["ALPHA H₂O, Na⁺."]),
    "link to a figure": (
        '<p>See page <a href="#p">12</a> and <a href="#q">table 3</a>.</p>',
        ["See page 12 and table 3."],
    ),
}
# Pages for which pandoc 2.17 returns another text. The third value is the number of omitted elements.
OTHER: dict[str, tuple[str, list[str], dict[str, int]]] = {
    "raised letters": (
        "<p>1<sup>st</sup>, M<sup>me</sup>, x<sup>2<i>n</i></sup>, a<sub>i</sub>.</p>",
        ["1st, Mme, x2n, ai."],
        {},
    ),
    "table for the layout": (
        "<table><tr><td><p>ALPHA</p><p>BRAVO</p></td><td>7</td></tr></table>",
        ["ALPHA", "BRAVO", "7"],
        {},
    ),
    "mark by type": mark('<a epub:type="noteref" href="#f">1</a>'),
    "mark by role": mark('<a role="doc-noteref" href="#f">1</a>'),
    "mark by class": mark('<a class="noteref" href="#f"><sup>[12]</sup></a>'),
    "raised link": mark('<sup><a href="n.xhtml#f">1</a></sup>'),
    "link that is raised inside": mark('<a href="#f"><sup>iv</sup></a>'),
    "link in brackets": mark('<a href="#f">[3]</a>'),
    "star": mark('<a href="#f">*</a>'),
    "mark of several elements": mark('<sup><a href="#f"><b>[</b>1<b>]</b></a></sup>'),
    "raised list of marks": mark('<sup><a href="#f">1</a>, <a href="#g">2</a>–<a href="#h">4</a></sup>'),
    "long text of a class of marks": (
        f'<p>ALPHA <span class="pagenum"><b>1</b>{" BRAVO" * 10}</span></p>',
        [f"ALPHA 1{' BRAVO' * 10}"],
        {},
    ),
    "list of letters by a style": (
        '<ol style="list-style: upper-roman inside"><li>ALPHA</li><li>BRAVO</li></ol>',
        ["I. ALPHA", "II. BRAVO"],
        {},
    ),
    "number after a word": mark('<em></em><a href="#f">3</a>'),
    "page break by type": (
        '<p>ALPHA <span epub:type="pagebreak">12</span>BRAVO.</p>',
        ["ALPHA BRAVO."],
        {"printed_numbers": 1},
    ),
    "page break by role": (
        '<p>ALPHA <span role="doc-pagebreak">xii</span>BRAVO.</p>',
        ["ALPHA BRAVO."],
        {"printed_numbers": 1},
    ),
    "page number by class": (
        '<p>ALPHA <span class="pagenum">[Pg 12]</span>BRAVO.</p>',
        ["ALPHA BRAVO."],
        {"printed_numbers": 1},
    ),
    "page number by the anchor's name": (
        '<p>ALPHA <a id="Page_12">[12]</a>BRAVO <span id="pxi">xi</span>. <a id="p2">2</a> <a id="p3">4</a></p>',
        ["ALPHA BRAVO . 4"],
        {"printed_numbers": 3},
    ),
    "number of a line": ('<p>ALPHA BRAVO.<span class="lnum">20</span></p>', ["ALPHA BRAVO."], {"printed_numbers": 1}),
    "hidden": (
        '<p hidden="hidden">GONE</p><p style="display: none">GONE</p><p>ALPHA <i aria-hidden="true">GONE</i></p>',
        ["ALPHA"],
        {"hidden": 3},
    ),
    "readings": ("<p><ruby>漢<rt>かん</rt>字<rp>(</rp><rt>じ</rt></ruby></p>", ["漢字"], {"readings": 2}),
    "pictures": (
        '<p>ALPHA<img src="x" alt="GONE"/></p><svg xmlns="http://www.w3.org/2000/svg"><path/></svg>',
        ["ALPHA"],
        {"pictures": 2},
    ),
    "words of a picture": (
        '<svg xmlns="http://www.w3.org/2000/svg"><title>GONE</title><text>ALPHA <tspan>BRAVO</tspan></text></svg>',
        ["ALPHA BRAVO"],
        {},
    ),
    "formula with powers": (
        f"<p>ALPHA <math {MATH}><msup><mn>10</mn><mn>3</mn></msup><msub><mi>x</mi><mn>1</mn></msub></math></p>",
        ["ALPHA 10³x₁"],
        {},
    ),
    "mark behind a raised number": (
        '<p>ALPHA 10<sup>2</sup><sup><a href="#f">3</a></sup> BRAVO.</p>',
        ["ALPHA 10² BRAVO."],
        {"note_marks": 1},
    ),
    "formula with words": (f'<p>ALPHA <math {MATH} alttext="x squared"><mi>x</mi></math></p>', ["ALPHA x squared"], {}),
    "formula with code": (
        f'<p>ALPHA <math {MATH} alttext="\\frac"><mi>x</mi><annotation>GONE</annotation></math></p>',
        ["ALPHA x"],
        {},
    ),
    "drop cap in a block": ('<div class="drop">O</div><p>nce upon.</p>', ["Once upon."], {}),
    "choices": ("<p>ALPHA</p><select><option>B</option><option>C</option></select>", ["ALPHA", "B", "C"], {}),
    "contents inside": ('<nav epub:type="toc"><a href="#x">GONE</a></nav><p>ALPHA</p>', ["ALPHA"], {"contents": 1}),
    "alternatives": (
        "<epub:switch><epub:case>GONE</epub:case><epub:default>ALPHA</epub:default></epub:switch>",
        ["ALPHA"],
        {},
    ),
    "list without numbers": (
        '<ol style="list-style-type: none"><li>ALPHA</li></ol><ol><li>1. BRAVO</li></ol>',
        ["ALPHA", "1. BRAVO"],
        {},
    ),
    "list backwards": (
        '<ol reversed="reversed"><li>ALPHA</li><li value="5">BRAVO</li><li>C</li></ol>',
        ["3. ALPHA", "5. BRAVO", "4. C"],
        {},
    ),
}
KINDS = {**{name: (body, expected, {}) for name, (body, expected) in SAME.items()}, **OTHER}


def paragraphs(data: bytes) -> list[str]:
    return [text for chapter in read(data).chapters for text in chapter.paragraphs]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_epub_element_is_read_as_displayed(kind: str) -> None:
    body, expected, left_out = KINDS[kind]
    document = read(book(body))
    assert [text for chapter in document.chapters for text in chapter.paragraphs] == expected
    assert {note.code: note.count for note in document.notes} == left_out


@needs_pandoc
def test_epub_text_equals_the_output_of_pandoc(tmp_path: Path) -> None:
    path = tmp_path / "all.epub"
    path.write_bytes(book("".join(f"<div>{body}</div>" for body, _ in SAME.values())))
    assert words_of(" ".join(paragraphs(path.read_bytes()))) == pandoc_words(path)


@pytest.mark.parametrize(
    "body",
    [
        '<aside epub:type="footnote"><p>1 The note.</p></aside>',
        '<div class="footnotes"><p>1 The note.</p></div>',
        '<section role="doc-endnotes"><p>1 The note. <a href="#r">↩</a></p></section>',
    ],
)
def test_epub_footnotes_are_a_separate_chapter(body: str) -> None:
    chapters = read(book(f"<p>ALPHA.</p>{body}<p>BRAVO.</p>")).chapters
    assert [(one.is_notes, one.paragraphs) for one in chapters] == [
        (False, ["ALPHA.", "BRAVO."]),
        (True, ["1 The note."]),
    ]


@pytest.mark.parametrize("nav", [TOC, LANDMARKS + TOC, PAGES + LANDMARKS + TOC, TOC.replace(' epub:type="toc"', "")])
def test_table_of_contents_is_distinguished_from_other_lists(nav: str) -> None:
    chapters = read(book(TWO, nav)).chapters
    assert [(one.title, one.paragraphs) for one in chapters] == [("One", ["One", "ALPHA."]), ("Two", ["Two", "BRAVO."])]


def test_table_of_contents_entry_without_an_anchor_names_the_whole_page() -> None:
    assert [one.title for one in read(book("<p>ALPHA</p>", TOC.replace("#a", "#lost"))).chapters] == ["One"]


@pytest.mark.parametrize(
    ("href", "entry"),
    [
        ("a%20b.xhtml", "a b.xhtml"),
        ("Text.xhtml", "text.XHTML"),
        (unicodedata.normalize("NFC", "Café.xhtml"), unicodedata.normalize("NFD", "Café.xhtml")),
        (unicodedata.normalize("NFD", "Café.xhtml"), unicodedata.normalize("NFC", "café.xhtml")),
        ("./x/../c.xhtml", "c.xhtml"),
        ("/O/c.xhtml", "c.xhtml"),
        ("x/c.xhtml", "x\\c.xhtml"),
        ("c.xhtml?v=2", "c.xhtml"),
    ],
)
def test_references_to_pages_resolve_like_file_system_paths(href: str, entry: str) -> None:
    assert paragraphs(book("<p>ALPHA</p>", href=href, entry=entry)) == ["ALPHA"]


XML = '<?xml version="1.0" encoding="{}"?><html><body><p>ALPHA é “q”'


@pytest.mark.parametrize(
    "page",
    [
        f"{XML.format('utf-8')} <br> BRAVO.".encode(),
        f"{XML.format('utf-8')} <b>BRAVO.</i></p></body></html>".encode(),
        f"{XML.format('windows-1252')} BRAVO.</p></body></html>".encode("cp1252"),
        f"{XML.format('windows-1252')} <br> BRAVO.".encode("cp1252"),
        f"{XML.format('UTF-16')} BRAVO.</p></body></html>".encode("utf-16"),
        f"{XML.format('UTF-16')} <br> BRAVO.".encode("utf-16"),
        f"{XML.format('UTF-16')} BRAVO.</p></body></html>".encode("utf-16-be"),
        f"{XML.format('utf-8')} BRAVO.</p></body></html>".replace("é", "&eacute;").encode("utf-8-sig"),
        "<html><head><title/><script src='x'/></head><body><p>ALPHA &eacute; “q”<a id='p'/> & BRAVO.".encode(),
        '<html><head><meta charset="windows-1252"></head><body><p>ALPHA é “q” BRAVO.'.encode("cp1252"),
        XML.format("latin-1").replace("ALPHA é", "ALPHA é é").encode() + b" BRAVO.</p></body></html>",
    ],
)
def test_malformed_epub_pages_are_decoded_and_read(page: bytes) -> None:
    words = words_of(" ".join(paragraphs(book(page))))
    assert list(dict.fromkeys(words)) == ["ALPHA", "é", "q", "BRAVO"]


def test_epub_pages_outside_the_spine_are_counted_unless_the_spine_is_empty() -> None:
    aside = '<itemref idref="c" linear="no"/>'
    assert paragraphs(book("<p>ALPHA</p>", spine=aside)) == ["ALPHA"]
    more = '<item id="d" href="n.xhtml" media-type="application/xhtml+xml"/>'
    spine = '<itemref idref="c"/><itemref idref="d" linear="no"/><itemref idref="lost"/>'
    document = read(book("<p>ALPHA</p>", spine=spine, more=more))
    assert {note.code: note.count for note in document.notes} == {"asides": 1, "missing_pages": 1}


def test_epub_page_in_an_unsupported_format_is_replaced_by_its_fallback() -> None:
    more = '<item id="p" href="p.pdf" media-type="application/pdf" fallback="c"/>'
    more += '<item id="i" href="i.png" media-type="image/png" fallback="i"/>'
    document = read(book("<p>ALPHA</p>", spine='<itemref idref="p"/><itemref idref="i"/>', more=more))
    assert [one.paragraphs for one in document.chapters] == [["ALPHA"]]
