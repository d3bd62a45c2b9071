"""Reads DOCX by python-docx: paragraphs and tables in their order, a chapter for each heading of the first level."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from zipfile import BadZipFile

import docx
from docx.document import Document as Opened
from docx.opc.exceptions import OpcError
from docx.table import Table
from docx.text.paragraph import Paragraph
from lxml import etree

from studio.documents.archive import Archive
from studio.documents.values import DAMAGED, Chapter, Document, UnreadableError, spaced

CONTENT = "[Content_Types].xml"

# What python-docx, and zipfile below it, make of a file that is torn or crafted.
_TORN = (
    *(OpcError, BadZipFile, zlib.error, etree.XMLSyntaxError),
    *(KeyError, ValueError, AttributeError, NotImplementedError, EOFError, OSError),
)


def read_docx(data: bytes, archive: Archive) -> Document:
    """``archive`` is the same file, which has been found to be within the limits.

    Raises:
        UnreadableError: it is damaged, or larger than may be.
    """
    for name in archive.names:
        if name.endswith((".xml", ".rels")):
            archive.read(name)  # judges its size
    try:
        opened = docx.Document(io.BytesIO(data))
        chapters = [Chapter("")]
        title = spaced(opened.core_properties.title or "")
        for style, text in _paragraphs(opened):
            if style == "Title" and not title:
                title = text
            if style == "Heading 1":
                chapters.append(Chapter(text))
            chapters[-1].paragraphs.append(text)
    except _TORN:
        raise UnreadableError(DAMAGED) from None
    return Document(title, chapters)


def _paragraphs(opened: Opened) -> Iterator[tuple[str, str]]:
    """Style and text of what has text, cells of tables row by row."""
    for block in opened.iter_inner_content():
        for style, text in _table(block) if isinstance(block, Table) else [_paragraph(block)]:
            if text:
                yield style, text


def _paragraph(paragraph: Paragraph) -> tuple[str, str]:
    style = paragraph.style
    return (style.name or "" if style is not None else ""), spaced(paragraph.text)


def _table(table: Table) -> Iterator[tuple[str, str]]:
    for row in table.rows:
        yield "", ", ".join(dict.fromkeys(text for cell in row.cells if (text := spaced(cell.text))))
