"""Generators of EPUB and DOCX files, including malicious files."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape

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
    """Return an EPUB file with two documents.

    Args:
        changed: Files of the archive to replace, by name.
    """
    names = {name.rpartition("/")[2].partition(".")[0]: name for name in BOOK}
    return archive(BOOK | {names.get(name, f"META-INF/{name}.xml"): content for name, content in changed.items()})


W = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" xmlns:v="urn:schemas-microsoft-com:vml"'
)
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STYLES = (
    '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>'
    '<w:style w:type="character" w:styleId="Secret"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Raised"><w:name w:val="Raised"/>'
    '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Greek"><w:name w:val="Greek"/><w:basedOn w:val="Letters"/></w:style>'
    '<w:style w:type="character" w:styleId="Letters"><w:name w:val="Letters"/>'
    '<w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="GreekLine"><w:name w:val="Greek Line"/>'
    '<w:rPr><w:rFonts w:ascii="SYMBOL" w:hAnsi="SYMBOL"/></w:rPr></w:style>'
)


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def paragraph(*content: str, style: str = "", properties: str = "") -> str:
    """Return a paragraph of a DOCX document as XML.

    Args:
        content: XML of runs, or plain text.
        style: Name of the paragraph style.
        properties: XML of further paragraph properties.
    """
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    runs = "".join(one if one.startswith("<") else run(one) for one in content)
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{runs}</w:p>"


def word_table(*rows: list[str]) -> str:
    """Return a table of a DOCX document as XML.

    `rows` has the XML of the cells in each row.
    """
    cells = ["".join(f"<w:tc><w:tcPr/>{cell}</w:tc>" for cell in row) for row in rows]
    grid = "<w:gridCol w:w='1000'/>" * max(map(len, rows))
    return f"<w:tbl><w:tblPr/><w:tblGrid>{grid}</w:tblGrid>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def word(body: str, *, main: str = "word/document.xml", title: str = "", **parts: str) -> bytes:
    """Return a DOCX file, given the XML of its body.

    Args:
        body: XML of the body.
        main: Name of the main part in the archive.
        title: Title in the document properties.
        parts: XML of further parts, by the type of the part, for example "styles".
    """
    folder, _, name = main.rpartition("/")
    parts = {"styles": STYLES} | parts
    roots = {"numbering": "numbering", "footnotes": "footnotes", "endnotes": "endnotes", "header": "hdr"}
    kinds = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    overrides = {main: "document.main"} | {f"{folder}/{kind}.xml": kind for kind in parts}
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        + "".join(f'<Override PartName="/{at}" ContentType="{kinds}.{of}+xml"/>' for at, of in overrides.items())
        + "</Types>",
        "_rels/.rels": _relations({"officeDocument": main, "metadata/core-properties": "docProps/core.xml"}),
        "docProps/core.xml": '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/'
        f'core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></cp:coreProperties>',
        main: f"<w:document {W}><w:body>{body}<w:sectPr/></w:body></w:document>",
        f"{folder}/_rels/{name}.rels": _relations({kind: f"{kind}.xml" for kind in parts}),
    }
    for kind, content in parts.items():
        root = roots.get(kind, kind)
        files[f"{folder}/{kind}.xml"] = f"<w:{root} {W}>{content}</w:{root}>"
    return archive(files)


def _relations(targets: dict[str, str]) -> str:
    each = "".join(
        f'<Relationship Id="rId{n}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets.items())
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{each}</Relationships>'


def letter(*paragraphs: tuple[str, str], title: str = "", table: list[list[str]] | None = None) -> bytes:
    """Return a DOCX file with paragraphs and an optional table.

    Each paragraph is a pair of paragraph style and text.
    """
    rows = [[paragraph(cell) for cell in row] for row in table or []]
    body = "".join(paragraph(text, style=style.replace(" ", "")) for style, text in paragraphs)
    return word(body + (word_table(*rows) if rows else ""), title=title)
