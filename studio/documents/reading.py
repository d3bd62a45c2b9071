"""Reader of documents, which detects the format from the content."""

from __future__ import annotations

from typing import Any

from studio.documents.archive import COMPOUND, Archive
from studio.documents.docx import main_document, read_docx
from studio.documents.epub import CONTAINER, read_epub
from studio.documents.html_file import is_html, read_html
from studio.documents.pdf import is_pdf, read_pdf
from studio.documents.text import read_text
from studio.documents.values import NO_DOCUMENT, Document, UnreadableError

OF_ARCHIVES = (b"PK", COMPOUND)


def read(data: bytes, **options: Any) -> Document:
    """Read an EPUB, a DOCX, a PDF, an HTML file, subtitles or a text.

    Args:
        data: the whole file.
        options: of `read_text`, without effect on EPUB, DOCX, PDF and HTML.

    Raises:
        UnreadableError: for one of the reasons in values.py.
    """
    if is_pdf(data):
        return read_pdf(data)
    if not data.startswith(OF_ARCHIVES):
        return read_html(data) if is_html(data) else read_text(data, **options)
    archive = Archive(data)
    if archive.find(CONTAINER) is not None:
        return read_epub(archive)
    if (main := main_document(archive)) is not None:
        return read_docx(archive, *main)
    raise UnreadableError(NO_DOCUMENT)
