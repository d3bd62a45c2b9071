"""PDF reader that converts the text layer to chapters of paragraphs.

Running titles and page numbers are removed. Words that are split at line ends are joined.
"""

from __future__ import annotations

import io
import logging
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError
from pypdf.generic import Destination

from studio.documents.dialogue import join_rows
from studio.documents.pdf.rows import PageRows, Row
from studio.documents.prose import clean_plain, prose_document
from studio.documents.values import (
    DAMAGED,
    LOCKED,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    NO_TEXT,
    PROTECTED,
    TOO_LARGE,
    Chapter,
    Document,
    OmittedContent,
    UnreadableError,
    spaced,
)

MAX_PAGES = 5000
_HEAD = b"%PDF-"
# Number of bytes at the start of a file that are searched for a PDF's signature. Other bytes may precede it.
_HEAD_BYTES = 1024
_EDGE_ROWS = 2  # Number of rows at the top and at the bottom of a page that may be running titles.
_MIN_REPEATED = 3
_MIN_HEADING_RATIO = 1.2  # Minimum font size of a heading relative to the font size of the text.
_MAX_HEADING_CHARS = 120
_MAX_FOOTNOTE_RATIO = 0.92  # Maximum font size of footnotes relative to the font size of the text.
_MIN_GAP_RATIO = 1.4  # Minimum distance between paragraphs relative to the usual distance between rows.
_MAX_LAST_ROW_RATIO = 0.7  # Maximum length of a paragraph's last row relative to the usual row length.
_PAGE_NUMBER = re.compile(r"(?:[Pp]age\s+)?[-–—\[(]?\s*(?:\d{1,4}|[ivxl]{1,7})\s*[-–—\])]?(?:\s*(?:/|of)\s*\d{1,4})?")
_NOTE_MARK = re.compile(r"[\d*†‡§⁰¹²³⁴-⁹]")
_ENDS = re.compile(r"[.!?:;…。！？：；][\"”’»」』)\]]*$")
_WRITTEN_BY_A_PROGRAM = re.compile(r"(?:microsoft word|untitled|document\d*$|.*\.(?:docx?|pdf|indd|tex|dvi)$)", re.I)
# Exceptions that pypdf raises for damaged files and unknown filters.
_DAMAGES = (
    *(PyPdfError, DependencyError, ArithmeticError, AssertionError, AttributeError, LookupError, OSError),
    *(RuntimeError, TypeError, ValueError, struct.error, zlib.error),
)


def is_pdf(data: bytes) -> bool:
    return _HEAD in data[:_HEAD_BYTES]


def read_pdf(data: bytes, omitted: OmittedContent) -> Document:
    """Read the text layer of a PDF file as chapters of paragraphs.

    Raises:
        UnreadableError: The file is damaged, encrypted or too large, or has no text layer.
    """
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # Warnings of pypdf may contain text of the document.
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise UnreadableError(LOCKED)
        if len(reader.pages) > MAX_PAGES:
            raise UnreadableError(TOO_LARGE)
        pages = list(_rows_of_pages(reader.pages, omitted))
    except NotImplementedError:
        raise UnreadableError(PROTECTED) from None
    except _DAMAGES as error:
        raise UnreadableError(_reason_of(error)) from None
    title = author = ""
    marks: list[tuple[int, str]] = []
    with suppress(*_DAMAGES):
        title, author = (_metadata(reader, name) for name in ("title", "author"))
        marks = _marks_of_outline(reader)
    chapters = list(_Text(pages, omitted).chapters(marks))
    clean_plain(chapters, omitted)
    document = prose_document("" if _WRITTEN_BY_A_PROGRAM.match(title) else title, chapters, omitted)
    document.author = author[:MAX_TITLE_CHARS]
    return document


def _rows_of_pages(pages: Iterable[PageObject], omitted: OmittedContent) -> Iterator[list[Row]]:
    """Yield the rows of each page (a damaged page may lack rows).

    Raises:
        UnreadableError: The pages have no text or too much text.
    """
    chars, reason = 0, NO_TEXT
    for number, page in enumerate(pages, 1):
        collector = PageRows()
        note = "pictures"
        try:
            collector.read(page)
        except _DAMAGES as error:
            note, reason = "damaged_pages", _reason_of(error)
        rows = collector.rows
        if not rows or note == "damaged_pages":
            omitted.count_omission(note, f"page {number}")
        omitted.count_omission("damaged", count=collector.unmapped)
        omitted.count_omission("symbols", count=collector.check_marks)
        chars += sum(len(row.text) for row in rows)
        if chars > MAX_TEXT_CHARS:
            raise UnreadableError(TOO_LARGE)
        yield rows
    if not chars:
        raise UnreadableError(reason)


def _reason_of(error: BaseException) -> str:
    return TOO_LARGE if isinstance(error, LimitReachedError) else DAMAGED


def _metadata(reader: PdfReader, name: str) -> str:
    return spaced(str(getattr(reader.metadata, name, None) or ""))


def _marks_of_outline(reader: PdfReader) -> list[tuple[int, str]]:
    """Return page and title of the entries at the first outline level with several entries."""
    level: list[Any] = reader.outline
    while sum(isinstance(entry, Destination) for entry in level) == 1:
        deeper = next((entry for entry in level if isinstance(entry, list)), None)
        if deeper is None:
            break
        level = deeper
    entries = [entry for entry in level if isinstance(entry, Destination)]
    marks = [(reader.get_destination_page_number(entry), spaced(str(entry.title or ""))) for entry in entries]
    return sorted((page, title) for page, title in marks if page is not None and page >= 0)


class _Text:
    """Rows of all pages, which are grouped into chapters and paragraphs."""

    def __init__(self, pages: list[list[Row]], omitted: OmittedContent) -> None:
        self._omitted = omitted
        self._notes: list[str] = []
        sizes = Counter(round(row.size, 1) for rows in pages for row in rows for _ in range(len(row.text)))
        self._size = sizes.most_common(1)[0][0] or 1.0
        running = self._running_titles(pages)
        self._pages = [self._without_notes(self._without_edges(rows, running)) for rows in pages]
        body = [row for rows in self._pages for row in rows if abs(row.size - self._size) < 0.1 * self._size]
        gaps = [one.y - other.y for one, other in pairwise(body) if 0 < one.y - other.y < 4 * self._size]
        self._usual_gap = median(gaps) if gaps else 1.2 * self._size
        self._usual_chars = sorted(len(row.text) for row in body)[9 * (len(body) - 1) // 10] if body else 80

    def chapters(self, marks: Sequence[tuple[int, str]]) -> Iterator[Chapter]:
        """Yield the chapters of the text, and at the end a chapter with all footnotes.

        A chapter starts at each entry of the PDF outline. If the file has no outline, a chapter starts at each heading.
        """
        starts = self._starts_of_outline(marks) if len(marks) > 1 else self._headings()
        rows = [(page, at, row) for page, rows in enumerate(self._pages) for at, row in enumerate(rows)]
        title, held = "", list[Row]()
        for page, at, row in rows:
            if (found := starts.get((page, at))) is not None:
                yield Chapter(title, self._paragraphs(held))
                title, held = found, []
            held.append(row)
        yield Chapter(title, self._paragraphs(held))
        yield Chapter("", self._notes, is_notes=True)

    def _starts_of_outline(self, marks: Iterable[tuple[int, str]]) -> dict[tuple[int, int], str]:
        starts: dict[tuple[int, int], str] = {}
        for page, title in marks:
            rows = self._pages[page] if page < len(self._pages) else []
            named = (at for at, row in enumerate(rows) if _begins(title, row.text))
            starts.setdefault((page, next(named, 0)), title)
        return starts

    def _headings(self) -> dict[tuple[int, int], str]:
        """Return rows with large text by page and row index (only the first row of a heading)."""
        starts: dict[tuple[int, int], str] = {}
        is_after_heading = False
        for page, rows in enumerate(self._pages):
            for at, row in enumerate(rows):
                is_heading = row.size > _MIN_HEADING_RATIO * self._size and len(row.text) <= _MAX_HEADING_CHARS
                if is_heading and not is_after_heading:
                    starts[page, at] = row.text
                is_after_heading = is_heading
        return starts if 1 < len(starts) <= 2 * len(self._pages) else {}

    def _paragraphs(self, rows: list[Row]) -> list[str]:
        paragraphs: list[list[str]] = []
        for before, row in zip([None, *rows], rows, strict=False):
            if before is None or self._begins_paragraph(before, row):
                paragraphs.append([])
            paragraphs[-1].append(row.text)
        return [text for paragraph in paragraphs if (text := spaced(join_rows("\n".join(paragraph))))]

    def _begins_paragraph(self, before: Row, row: Row) -> bool:
        is_same_size = abs(before.size - row.size) <= 0.12 * self._size
        gap = before.y - row.y
        if not is_same_size or gap > _MIN_GAP_RATIO * self._usual_gap:
            return not is_same_size or not _continues(before.text, row.text)
        if not _ENDS.search(before.text):
            return False
        indent = row.x - before.x
        is_indented = 0.8 * self._size < indent < 6 * self._size
        return is_indented or gap < 0 or len(before.text) < _MAX_LAST_ROW_RATIO * self._usual_chars

    def _running_titles(self, pages: list[list[Row]]) -> set[tuple[str, int]]:
        seen = Counter(key for rows in pages for key in {self._key(row) for row in _edges(rows)})
        running = {key for key, count in seen.items() if count >= _MIN_REPEATED}
        # If each page has only one row, as in slides, these rows are not running titles but the text of the file.
        return running if any(self._key(row) not in running for rows in pages for row in rows) else set()

    def _key(self, row: Row) -> tuple[str, int]:
        """Return a key that is equal for the same running title on all pages.

        The key of a heading such as "Chapter 2" contains its number, so it differs from other headings.
        """
        return row.key if self._is_small(row) else (row.text, row.key[1])

    def _is_small(self, row: Row) -> bool:
        return row.size < _MIN_HEADING_RATIO * self._size

    def _without_edges(self, rows: list[Row], running: set[tuple[str, int]]) -> list[Row]:
        """Remove running titles and page numbers from the top and the bottom of a page."""
        edges = {id(row) for row in _edges(rows)}
        rows_left = []
        for row in rows:
            # A large number is a chapter number, because page numbers have a small font.
            is_number = id(row) in edges and self._is_small(row) and _PAGE_NUMBER.fullmatch(row.text)
            if is_number and self._omitted.omits("page_numbers", row.text):
                continue
            if id(row) in edges and self._key(row) in running:
                self._omitted.count_omission("headers", row.text)
            else:
                rows_left.append(row)
        return rows_left

    def _without_notes(self, rows: list[Row]) -> list[Row]:
        """Move footnotes, which are small rows at the end of a page, to the notes."""
        end = len(rows)
        while end and rows[end - 1].size < _MAX_FOOTNOTE_RATIO * self._size:
            end -= 1
        notes = rows[end:]
        if not end or not notes or not _NOTE_MARK.match(notes[0].text):
            return rows
        for row in notes:
            if _NOTE_MARK.match(row.text) or not self._notes:
                self._notes.append(row.text)
            else:
                self._notes[-1] = spaced(join_rows(f"{self._notes[-1]}\n{row.text}"))
        return rows[:end]


def _edges(rows: list[Row]) -> list[Row]:
    """Return the highest and the lowest rows of a page, which may be running titles."""
    by_height = sorted(rows, key=lambda row: -row.y)
    return by_height if len(rows) <= 2 * _EDGE_ROWS else by_height[:_EDGE_ROWS] + by_height[-_EDGE_ROWS:]


def _continues(before: str, after: str) -> bool:
    """True if a sentence continues after a gap, for example after a picture or a page break."""
    return not _ENDS.search(before) and after[:1].islower()


def _begins(title: str, row: str) -> bool:
    """True if the title starts with the row's letters (spaces and punctuation are ignored)."""
    letters = _letters(row)
    return bool(letters) and _letters(title).startswith(letters)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
