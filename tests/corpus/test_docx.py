"""Tests for DOCX import, compared with the text that pandoc extracts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from studio.documents.reading import read
from tests.corpus.pandoc import needs_pandoc, pandoc_words, words_of
from tests.support.documents import STYLES, archive, paragraph, run, word, word_table

A, B, C = run("ALPHA "), run("BRAVO"), run(" CHARLIE.")
FLAT = ["ALPHA BRAVO CHARLIE."]


def inside(tag: str, content: str = B, attributes: str = "") -> str:
    """Return a paragraph in which an XML element is between the words ALPHA and CHARLIE."""
    return paragraph(A, f"<w:{tag} {attributes}>{content}</w:{tag}>", C)


def char(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def field(instruction: str, result: str) -> str:
    return f"{char('begin')}<w:r><w:instrText>{instruction}</w:instrText></w:r>{char('separate')}{result}{char('end')}"


def script(text: str, kind: str = "super") -> str:
    return run(text, f'<w:vertAlign w:val="{kind}script"/>')


def listed(text: str, level: int = 0, numbers: int = 1) -> str:
    return paragraph(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{numbers}"/></w:numPr>')


def levels(*kinds: tuple[str, str]) -> str:
    """Return the XML of three lists whose levels have these (number format, text) pairs.

    The third list starts at 5.
    """
    each = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for at, (kind, text) in enumerate(kinds)
    )
    over = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    return f'<w:abstractNum w:abstractNumId="0">{each}</w:abstractNum>' + "".join(
        f'<w:num w:numId="{n}"><w:abstractNumId w:val="0"/>{over if n == 3 else ""}</w:num>' for n in (1, 2, 3)
    )


def box(content: str, place: str = "inline") -> str:
    shape = f"<wps:wsp><wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx></wps:wsp>"
    graphic = f'<a:graphic><a:graphicData uri="x">{shape}</a:graphicData></a:graphic>'
    old = f"<w:pict><v:shape><v:textbox><w:txbxContent>{content}</w:txbxContent></v:textbox></v:shape></w:pict>"
    return (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:{place}>{graphic}</wp:{place}></w:drawing>'
        f"</mc:Choice><mc:Fallback>{old}</mc:Fallback></mc:AlternateContent></w:r>"
    )


# Documents for which pandoc returns the same text.
SAME: dict[str, tuple[str, list[str]]] = {
    "runs": (paragraph(A, B, C), FLAT),
    "raised and lowered numbers": (
        paragraph("10", script("3"), ", H", script("2", "sub"), "O, s", script("-1"), "."),
        ["10³, H₂O, s⁻¹."],
    ),
    "raised by a style": (paragraph("10", run("3", '<w:rStyle w:val="Raised"/>'), run("5"), "."), ["10³5."]),
    "smart tag": (inside("smartTag"), FLAT),
    "content control in a line": (inside("sdt", f"<w:sdtPr/><w:sdtContent>{B}</w:sdtContent>"), FLAT),
    "content control in another": (
        inside("sdt", f"<w:sdtContent><w:sdt><w:sdtContent>{B}</w:sdtContent></w:sdt></w:sdtContent>"),
        FLAT,
    ),
    "content control around paragraphs": (
        f"<w:sdt><w:sdtContent>{paragraph('ALPHA')}{paragraph('BRAVO')}</w:sdtContent></w:sdt>",
        ["ALPHA", "BRAVO"],
    ),
    "tracked insertion": (inside("ins", attributes='w:id="1" w:author="a"'), FLAT),
    "moved text": (
        paragraph(A, f'<w:moveFrom w:id="1" w:author="a">{run("GONE")}</w:moveFrom>')
        + paragraph(f'<w:moveTo w:id="2" w:author="a">{B}</w:moveTo>', C),
        ["ALPHA", "BRAVO CHARLIE."],
    ),
    "tracked deletion": (
        paragraph(A, '<w:del w:id="1" w:author="a"><w:r><w:delText>GONE</w:delText></w:r></w:del>', B, C),
        FLAT,
    ),
    "deleted end of a paragraph": (
        paragraph("ALPHA", properties='<w:rPr><w:del w:id="1" w:author="a"/></w:rPr>') + paragraph("BRAVO CHARLIE."),
        FLAT,
    ),
    "link": (inside("hyperlink", attributes='w:anchor="x"'), FLAT),
    "field with an instruction": (paragraph(A, field("REF x \\h", B), C), FLAT),
    "soft hyphen": (paragraph("<w:r><w:t>AL</w:t><w:softHyphen/><w:t>PHA</w:t></w:r>"), ["ALPHA"]),
    "hyphen that does not break": (paragraph("<w:r><w:t>AL</w:t><w:noBreakHyphen/><w:t>PHA</w:t></w:r>"), ["AL-PHA"]),
    "tab and line break": (
        paragraph("<w:r><w:t>ALPHA</w:t><w:tab/><w:t>BRAVO</w:t><w:br/><w:t>CHARLIE.</w:t></w:r>"),
        FLAT,
    ),
    "row of equal cells": (
        word_table([paragraph("12"), paragraph("12"), paragraph("7")], [paragraph("a"), paragraph(), paragraph()]),
        ["12, 12, 7", "a"],
    ),
    "formula": (paragraph(A, "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>", C), ["ALPHA x CHARLIE."]),
    "two line breaks": (paragraph("<w:r><w:t>ALPHA</w:t><w:br/><w:br/><w:t>BRAVO</w:t></w:r>"), ["ALPHA", "BRAVO"]),
    "drop cap": (
        paragraph("A", properties='<w:framePr w:dropCap="drop"/>') + paragraph("LPHA BRAVO CHARLIE."),
        FLAT,
    ),
    "not hidden after all": (paragraph(run("ALPHA", '<w:rStyle w:val="Secret"/><w:vanish w:val="0"/>')), ["ALPHA"]),
    "content control around a table": (
        f"<w:sdt><w:sdtContent>{word_table([paragraph('ALPHA'), paragraph('BRAVO')])}</w:sdtContent></w:sdt>",
        ["ALPHA, BRAVO"],
    ),
    "nested table": (
        word_table([paragraph("ALPHA") + word_table([paragraph("BRAVO")]) + paragraph("CHARLIE")]),
        ["ALPHA", "BRAVO", "CHARLIE"],
    ),
    "merged cells": (
        word_table([paragraph("ALPHA"), paragraph("GONE"), paragraph("BRAVO")]).replace(
            '<w:tcPr/><w:p><w:pPr></w:pPr><w:r><w:rPr></w:rPr><w:t xml:space="preserve">GONE',
            '<w:tcPr><w:vMerge/></w:tcPr><w:p><w:pPr></w:pPr><w:r><w:rPr></w:rPr><w:t xml:space="preserve">GONE',
        ),
        ["ALPHA, BRAVO"],
    ),
    "Greek letters of a symbol font in text": (
        paragraph(A, run("\uf070\uf069", '<w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/>')),
        ["ALPHA πι"],
    ),
    "text in a symbol font as other programs write it": (
        paragraph(A, run("a\uf0b3\uf0a5", '<w:rFonts w:ascii="Symbol"/>')),
        ["ALPHA α≥∞"],
    ),
    "Greek letter of a symbol font": (paragraph(A, '<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>'), ["ALPHA α"]),
}
# Documents for which pandoc 2.17 returns another text. The third value is the reason.
OTHER: dict[str, tuple[str, list[str], str]] = {
    "symbol font of other characters than ASCII": (
        paragraph(A, run("p\uf069", '<w:rFonts w:hAnsi="Symbol"/>')),
        ["ALPHA pι"],
        "both read as Greek",
    ),
    "symbol font of a character style": (
        paragraph(
            A,
            run("p\uf069", '<w:rStyle w:val="Greek"/>'),
            run("p", '<w:rStyle w:val="Greek"/><w:rFonts w:ascii="Arial"/>'),
        ),
        ["ALPHA πιp"],
        "read as Latin letters",
    ),
    "symbol font of a paragraph style": (
        paragraph("p", run("p", '<w:rFonts w:asciiTheme="minorHAnsi"/>'), style="GreekLine"),
        ["πp"],
        "read as Latin letters",
    ),
    "raised letters": (paragraph("1", script("st"), ", x", script("2n"), "."), ["1st, x2n."], "written as ^(st)"),
    "simple field": (inside("fldSimple", attributes='w:instr="AUTHOR"'), FLAT, "left out"),
    "custom XML in a line": (inside("customXml", attributes='w:element="x"'), FLAT, "left out"),
    "direction of a text": (inside("dir", attributes='w:val="rtl"'), FLAT, "left out"),
    "content control around a cell": (
        word_table([paragraph("ALPHA")]).replace(
            "</w:tr>", f"<w:sdt><w:sdtContent><w:tc>{paragraph('BRAVO')}</w:tc></w:sdtContent></w:sdt></w:tr>"
        ),
        ["ALPHA, BRAVO"],
        "left out",
    ),
    "text box in a line": (paragraph(A, box(paragraph("BRAVO")), C), ["ALPHA", "BRAVO", "CHARLIE."], "left out"),
    "text box that floats": (
        paragraph(A, box(paragraph("BRAVO"), "anchor"), C),
        ["ALPHA CHARLIE.", "BRAVO"],
        "left out",
    ),
    "hidden text": (
        paragraph(A, run("GONE", "<w:vanish/>"), run("GONE", '<w:rStyle w:val="Secret"/>'), C),
        ["ALPHA CHARLIE."],
        "read",
    ),
    "base of ruby": (
        paragraph(
            f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('かん')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase></w:ruby></w:r>"
        ),
        ["漢"],
        "left out",
    ),
    "field in an instruction": (
        paragraph(A, f"{char('begin')}{field('X', run('GONE'))}{char('separate')}{B}{char('end')}", C),
        FLAT,
        "",
    ),
    "chosen entry of a list": (
        paragraph(
            A,
            '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="GONE"/>'
            '<w:listEntry w:val="BRAVO"/></w:ddList></w:ffData></w:fldChar></w:r>'
            "<w:r><w:instrText>FORMDROPDOWN</w:instrText></w:r>",
            char("end"),
            C,
        ),
        FLAT,
        "left out",
    ),
    "own mark of a note": (
        paragraph(A, B, '<w:r><w:footnoteReference w:customMarkFollows="1" w:id="1"/><w:t>*</w:t></w:r>', C),
        FLAT,
        "read",
    ),
    "deleted row": (
        word_table([paragraph("ALPHA")], [paragraph("GONE")]).replace(
            "</w:tr><w:tr>", '</w:tr><w:tr><w:trPr><w:del w:id="1" w:author="a"/></w:trPr>'
        ),
        ["ALPHA"],
        "read",
    ),
    "entry of a table of contents": (paragraph("GONE 7", style="TOC1") + paragraph("ALPHA"), ["ALPHA"], "read"),
}
KINDS = {name: (body, expected) for name, (body, expected, *_) in (SAME | OTHER).items()}


def paragraphs(data: bytes) -> list[str]:
    return [text for chapter in read(data).chapters for text in chapter.paragraphs]


def notes(data: bytes) -> dict[str, int]:
    return {note.code: note.count for note in read(data).notes}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_docx_element_is_read_in_document_order(kind: str) -> None:
    body, expected = KINDS[kind]
    assert paragraphs(word(body)) == expected


@needs_pandoc
def test_docx_text_equals_the_output_of_pandoc(tmp_path: Path) -> None:
    path = tmp_path / "all.docx"
    path.write_bytes(word("".join(body for body, _ in SAME.values())))
    assert words_of(" ".join(paragraphs(path.read_bytes()))) == pandoc_words(path)


def test_omitted_docx_elements_are_counted() -> None:
    described = '<wp:docPr id="1" name="Picture 1" descr="A red kettle"/>'
    picture = f"<w:r><w:drawing><wp:inline>{described}<pic:pic/></wp:inline></w:drawing></w:r>"
    body = "".join(
        (
            paragraph(A, run("GONE", "<w:vanish/>"), run("GONE", "<w:vanish/>"), picture),
            paragraph("<w:del><w:r><w:delText>GONE</w:delText></w:r></w:del>"),
            paragraph('<w:r><w:commentReference w:id="0"/></w:r>'),
            paragraph("GONE", style="TOC1"),
            paragraph('<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r>'),
            paragraph(run("\uf04a", '<w:rFonts w:ascii="Wingdings"/>')),
            paragraph(run("J J", '<w:rFonts w:ascii="wingdings 2"/>')),
            '<w:altChunk r:id="x" xmlns:r="x"/>',
        )
    )
    comments = f'<w:comment w:id="0">{paragraph("Really?")}</w:comment>'
    found = read(word(body, header=paragraph(field("PAGE", run("On top"))), comments=comments)).notes
    assert {note.code: (note.count, note.examples) for note in found} == {
        "pictures": (1, ["A red kettle"]),
        "hidden": (1, ["GONE"]),
        "deleted": (1, ["GONE"]),
        "comments": (1, ["Really?"]),
        "contents": (1, ["GONE"]),
        "headers": (1, ["On top"]),
        "symbols": (4, []),
        "embedded": (1, []),
    }
    assert "Comments were left out: 1. For example: Really?." in [note.message for note in found]
    assert notes(word(paragraph("ALPHA"))) == {}


def test_code_in_a_docx_file_is_recognised_by_style_omitted_and_counted() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="SourceCode"><w:name w:val="Source Code"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="SourceCode"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="HTMLPreformatted"><w:name w:val="HTML Preformatted"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Codex"><w:name w:val="Codex"/></w:style>'
    )
    body = "".join(
        paragraph(text, style=style)
        for text, style in (
            *(("Before.", ""), ("x = 1", "SourceCode"), ("", "SourceCode"), ("y = 2", "Mine"), ("Between.", "Codex")),
            *(("z = 3", "HTMLPreformatted"), ("After.", "")),
        )
    )
    document = read(word(body, styles=STYLES + styles))
    assert [one.paragraphs for one in document.chapters] == [["Before.", "Between.", "After."]]
    assert [(note.code, note.count, note.examples) for note in document.notes] == [
        ("code", 2, ["x = 1", "y = 2", "z = 3"])
    ]


def test_docx_footnotes_are_a_separate_chapter_in_reference_order() -> None:
    body = paragraph(A, '<w:r><w:footnoteReference w:id="2"/></w:r>', B, '<w:r><w:endnoteReference w:id="1"/></w:r>')
    body += paragraph("CHARLIE", '<w:r><w:footnoteReference w:id="1"/></w:r>')
    parts = {
        "footnotes": f'<w:footnote w:id="0" w:type="separator">{paragraph("GONE")}</w:footnote>'
        f'<w:footnote w:id="1">{paragraph("Second.")}</w:footnote>'
        f'<w:footnote w:id="2">{paragraph("First.")}{paragraph("More.")}</w:footnote>',
        "endnotes": f'<w:endnote w:id="1">{paragraph("At the end.")}</w:endnote>',
    }
    document = read(word(body, **parts))
    assert [(chapter.is_notes, chapter.paragraphs) for chapter in document.chapters] == [
        (False, ["ALPHA BRAVO", "CHARLIE"]),
        (True, ["1. First.", "More.", "1. At the end.", "2. Second."]),
    ]
    assert {note.code: note.count for note in document.notes} == {"note_marks": 3}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([("decimal", "%1."), ("lowerLetter", "%2)")], ["1.", "a)", "b)", "2.", "a)", "3.", "5."]),
        ([("upperRoman", "%1."), ("decimal", "%1.%2")], ["I.", "I.1", "I.2", "II.", "II.1", "III.", "V."]),
        ([("chineseCounting", "第%1章"), ("bullet", "•")], ["第一章", "", "", "第二章", "", "第三章", "第五章"]),
        ([("decimalZero", "Step %1:"), ("none", "%2")], ["Step 01:", "", "", "Step 02:", "", "Step 03:", "Step 05:"]),
    ],
)
def test_docx_list_items_have_their_displayed_numbers(kinds: list[tuple[str, str]], expected: list[str]) -> None:
    places = [(0, 1), (1, 1), (1, 1), (0, 1), (1, 1), (0, 2), (0, 3)]
    body = "".join(listed("item", level, numbers) for level, numbers in places)
    assert paragraphs(word(body, numbering=levels(*kinds))) == [f"{one} item".strip() for one in expected]


def test_docx_headings_start_chapters_by_level_regardless_of_style_name() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="Heading2"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Own"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    )
    body = paragraph("Book", style="Heading1") + "".join(
        paragraph(name, style=style, properties=own) + paragraph(f"Of {name}.")
        for name, style, own in (
            ("One", "Mine", ""),
            ("Two", "Own", ""),
            ("Three", "", '<w:outlineLvl w:val="1"/>'),
            ("not", "Heading2", '<w:outlineLvl w:val="9"/>'),
            ("deeper", "", '<w:outlineLvl w:val="2"/>'),
        )
    )
    chapters = read(word(body, styles=STYLES + styles)).chapters
    assert [chapter.title for chapter in chapters] == ["Book", "One", "Two", "Three"]
    assert chapters[3].paragraphs == ["Three", "Of Three.", "not", "Of not.", "deeper", "Of deeper."]


def test_docx_may_have_any_main_part_name_and_strict_namespaces() -> None:
    assert paragraphs(word(paragraph(A, B, C), main="word/document2.xml")) == FLAT
    transitional = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    data = word(inside("ins"), main="WORD\\Main.xml")
    assert paragraphs(data) == FLAT
    with zipfile.ZipFile(io.BytesIO(word(inside("ins")))) as opened:
        files = {name: opened.read(name).decode() for name in opened.namelist()}
    strict = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    assert paragraphs(archive({name: text.replace(transitional, strict) for name, text in files.items()})) == FLAT
