"""Reader of files: finds out by the content which kind a file is."""

from __future__ import annotations

from typing import Any

from studio.documents.archive import COMPOUND, Archive
from studio.documents.docx import CONTENT, read_docx
from studio.documents.epub import CONTAINER, read_epub
from studio.documents.text import read_text
from studio.documents.values import NO_DOCUMENT, Document, UnreadableError, settled

OF_ARCHIVES = (b"PK", COMPOUND)


def read(data: bytes, **options: Any) -> Document:
    """Read an EPUB, a DOCX, subtitles or a text.

    Args:
        data: the whole file.
        options: of `read_text`, without effect on EPUB and DOCX.

    Raises:
        UnreadableError: for one of the reasons in values.py.
    """
    if not data.startswith(OF_ARCHIVES):
        return read_text(data, **options)
    archive = Archive(data)
    if CONTAINER in archive.names:
        return settled(read_epub(archive))
    if CONTENT in archive.names and "word/document.xml" in archive.names:
        return settled(read_docx(data, archive))
    raise UnreadableError(NO_DOCUMENT)
