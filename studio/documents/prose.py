"""Cleanup of text, such as removal of note marks, for all formats except subtitles.

Text in brackets that the runtime would interpret as a style tag is reported to the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from runtime.shared.text.inline_tags import style_tags
from studio.documents.values import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    NO_TEXT,
    TOO_LARGE,
    Chapter,
    Document,
    OmittedContent,
    UnreadableError,
)

MAX_STYLE_CHARS = 500
_UNDECODED = "\ufffd"
_DIGITS = "[⁰¹²³⁴-⁹]+"
# Pattern of a raised number, or of several raised numbers as in word³˒⁵ and word²⁻⁴.
_RAISED_NUMBERS = re.compile(rf"{_DIGITS}(?:[,˒⁻–-]{_DIGITS})*")
_SENTENCE_MARKS = ".,:;!?…。，！？”’\"'»"
_POWERS = ("²", "³")
_CAPTION = re.compile(
    r"(?:Fig(?:ure|\.)|Table|Tab\.|Chart|Abb(?:ildung|\.)|Tabelle|[图表]) ?\d{1,3}(?:\.\d{1,3})?\s*[.:：—–-]"
)
_LIST_ITEM = re.compile(r"\(?(\d{1,3})[.)]\s+(?=\S)")
_MAX_WORD_CHARS = 40
_MIN_WORD_CHARS = 2
# Minimum length of a word with a note mark. Shorter words with ² or ³ are units or functions: km², sin².
_MIN_NOTED_CHARS = 4


def prose_document(title: str, chapters: Iterable[Chapter], omitted: OmittedContent) -> Document:
    """Create a document from all chapters that contain text.

    If `title` is empty, the document gets the title of its first chapter.

    Raises:
        UnreadableError: The chapters contain no text or too much text.
    """
    chapters = [replace(one, title=one.title[:MAX_TITLE_CHARS]) for one in chapters if one.paragraphs]
    if not chapters:
        raise UnreadableError(NO_TEXT)
    if sum(len(text) for chapter in chapters for text in chapter.paragraphs) > MAX_TEXT_CHARS:
        raise UnreadableError(TOO_LARGE)
    clean_prose(chapters, omitted)
    omitted.count_omission(
        "damaged", count=sum(text.count(_UNDECODED) for chapter in chapters for text in chapter.paragraphs)
    )
    title = (title or first_title(chapters))[:MAX_TITLE_CHARS]
    return Document(title, chapters, omitted.notes(), found=dict(omitted.found))


def first_title(chapters: Iterable[Chapter]) -> str:
    """Return the first chapter title that is not empty, or an empty string."""
    return next((chapter.title for chapter in chapters if chapter.title), "")


def clean_prose(chapters: list[Chapter], omitted: OmittedContent) -> None:
    """Remove footnote marks from the paragraphs of all chapters.

    Footnote marks and style tags are counted in `omitted`.
    """
    texts = [text for chapter in chapters for text in chapter.paragraphs]
    has_notes = any(_is_mark(found, has_notes=False) for text in texts for found in _RAISED_NUMBERS.finditer(text))

    def without_mark(found: re.Match[str]) -> str:
        if not _is_mark(found, has_notes=has_notes):
            return found[0]
        before = found.string[max(found.start() - _MAX_WORD_CHARS, 0) : found.start()]
        return "" if omitted.omits("note_marks", f"{before.rpartition(' ')[2]}{found[0]}") else found[0]

    for chapter in chapters:
        chapter.paragraphs = [_RAISED_NUMBERS.sub(without_mark, text) for text in chapter.paragraphs]
        for text in chapter.paragraphs:
            for style in style_tags(text, MAX_STYLE_CHARS):
                omitted.count_omission("styles", style)


def clean_plain(chapters: Iterable[Chapter], omitted: OmittedContent) -> None:
    """Remove captions and list numbers from plain text if the user does not want to hear them.

    `omitted` has the user's choice, and counts the removed texts.
    """
    for chapter in chapters:
        paragraphs: list[str] = []
        before = 0  # Number of the previous list item.
        for text, following in zip(chapter.paragraphs, [*chapter.paragraphs[1:], ""], strict=False):
            if _CAPTION.match(text) and omitted.omits("captions", text):
                continue
            item, next_item = _LIST_ITEM.match(text), _LIST_ITEM.match(following)
            number = int(item[1]) if item else 0
            is_in_list = number == before + 1 and (before > 0 or (next_item is not None and int(next_item[1]) == 2))
            if item and is_in_list:
                before = number
                if omitted.omits("list_numbers", item[0].strip()):
                    text = text[item.end() :]
            else:
                before = 0
            paragraphs.append(text)
        chapter.paragraphs = paragraphs


def _is_mark(raised: re.Match[str], *, has_notes: bool) -> bool:
    """True if superscript digits refer to a note.

    The characters ² and ³ after a word count as powers unless the text has other note marks.
    """
    word = _word_before(raised)
    if len(word) < _MIN_WORD_CHARS:
        return raised.start() > 0 and raised.string[raised.start() - 1] in _SENTENCE_MARKS
    return raised[0] not in _POWERS or (has_notes and len(word) >= _MIN_NOTED_CHARS)


def _word_before(raised: re.Match[str]) -> str:
    before = raised.string[max(raised.start() - _MAX_WORD_CHARS, 0) : raised.start()]
    return before[len(before.rstrip("".join(filter(str.isalpha, set(before))))) :]
