"""Document reader that detects the file format from the content of the file."""

from __future__ import annotations

from typing import Any

from studio.documents.archive import COMPOUND_FILE_MAGIC, Archive
from studio.documents.docx.reader import main_document, read_docx
from studio.documents.epub import CONTAINER, read_epub
from studio.documents.html_file import is_html, read_html
from studio.documents.pdf.reader import is_pdf, read_pdf
from studio.documents.text import read_text
from studio.documents.values import NO_DOCUMENT, ContentChoice, Document, OmittedContent, UnreadableError
from studio.documents.web_page import read_web_page

OF_ARCHIVES = (b"PK", COMPOUND_FILE_MAGIC)


def read(data: bytes, *, spoken: ContentChoice | None = None, web: bool = False, **options: Any) -> Document:
    """Read an EPUB, DOCX, PDF, HTML, subtitle or text file.

    Args:
        data: Bytes of the whole file.
        spoken: Kinds of content that the user wants to hear, such as tables.
        web: True to read only the article of an HTML file.
        options: Keyword arguments of `read_text`, which only apply to subtitles and text.

    Raises:
        UnreadableError: The file cannot be read (values.py lists the reasons).
    """
    omitted = OmittedContent(spoken)
    if is_pdf(data):
        return read_pdf(data, omitted)
    if not data.startswith(OF_ARCHIVES):
        if is_html(data):
            return read_web_page(data, omitted) if web else read_html(data, omitted)
        return read_text(data, omitted, **options)
    archive = Archive(data)
    if archive.find(CONTAINER) is not None:
        return read_epub(archive, omitted)
    if (main := main_document(archive)) is not None:
        return read_docx(archive, *main, omitted)
    raise UnreadableError(NO_DOCUMENT)
