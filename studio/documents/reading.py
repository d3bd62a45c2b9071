"""Tells EPUB from DOCX by what is in the file, and reads it."""

from __future__ import annotations

from studio.documents.archive import Archive
from studio.documents.docx import CONTENT, read_docx
from studio.documents.epub import CONTAINER, read_epub
from studio.documents.values import NO_DOCUMENT, Document, UnreadableError, settled


def read(data: bytes) -> Document:
    """
    Raises:
        UnreadableError: for one of the reasons in values.py.
    """
    archive = Archive(data)
    if CONTAINER in archive.names:
        return settled(read_epub(archive))
    if CONTENT in archive.names and "word/document.xml" in archive.names:
        return settled(read_docx(data, archive))
    raise UnreadableError(NO_DOCUMENT)
