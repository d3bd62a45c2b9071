"""Defines what is read of a document, and the limits within which it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

MOST_FILES = 5000  # in one document
MOST_UNPACKED = 256 * 2**20  # bytes of all of them
MOST_MARKUP = 16 * 2**20  # bytes of one that is read
MOST_TEXT = 8 * 2**20  # characters of a document: War and Peace has three millions

# Why a document cannot be read, as the error says it.
NO_DOCUMENT = "it is neither text nor subtitles, EPUB or DOCX"
OTHER_ENCODING = "it is no text in that character encoding; choose another one"
SUBTITLE_TIMES = "its times are written as they are not read here; convert it to SRT or WebVTT"
OLD_OR_LOCKED = "it is an old .doc or is locked by a password; save it as DOCX without one"
LOCKED = "it is locked by a password"
PROTECTED = "it is protected against copying (DRM)"
DAMAGED = "it is damaged"
TOO_LARGE = "it holds more than is read of one document"
EMPTY = "there is no text in it"
NO_TEXT = "there is no text in it; it may hold pictures of pages only"
TOO_LONG = "it could not be read within the limits of memory and time"
REASONS = (
    *(NO_DOCUMENT, OTHER_ENCODING, SUBTITLE_TIMES, OLD_OR_LOCKED, LOCKED, PROTECTED, DAMAGED, TOO_LARGE),
    *(EMPTY, NO_TEXT, TOO_LONG),
)


class UnreadableError(Exception):
    """One of the reasons above."""


@dataclass(slots=True)
class Chapter:
    """Paragraphs in a row; the first may be the heading. ``title`` is empty where nothing names it."""

    title: str
    paragraphs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Note:
    """Message about a file that was read: what is left out, how much of it and the first examples."""

    code: str
    count: int
    message: str
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Document:
    """``title`` is empty where the document does not say it."""

    title: str
    chapters: list[Chapter]
    notes: list[Note] = field(default_factory=list)


def settled(document: Document) -> Document:
    """The document without what is empty.

    Raises:
        UnreadableError: nothing is left, or it is too much.
    """
    chapters = [chapter for chapter in document.chapters if chapter.paragraphs]
    if not chapters:
        raise UnreadableError(NO_TEXT)
    if sum(len(text) for chapter in chapters for text in chapter.paragraphs) > MOST_TEXT:
        raise UnreadableError(TOO_LARGE)
    return replace(document, chapters=chapters)


def spaced(text: str) -> str:
    """A text of a document with one space between words, and without soft hyphens."""
    return re.sub(r"\s+", " ", text.replace("\u00ad", "")).strip()
