"""Reader of plain text, Markdown and subtitle files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from studio.documents.charset import decode
from studio.documents.dialogue import dialogue_of, join_rows
from studio.documents.markdown import markdown_chapters, without_front_matter
from studio.documents.prose import clean_plain, clean_prose, first_title
from studio.documents.subtitles import read_cues
from studio.documents.values import (
    EMPTY,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    NO_DOCUMENT,
    TOO_LARGE,
    Chapter,
    Document,
    Note,
    OmittedContent,
    UnreadableError,
)

# Pattern of line ends other than \n. Some programs convert line ends twice, to CR CR LF.
_LINE_END = re.compile("\r\r?\n|[\r\x85\u2028]")
_PARAGRAPH_END = re.compile("\u2029")
_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_PAGE_NUMBER = re.compile(r"(?:page\s+)?[-–—\[(]?\s*(\d{1,4})\s*[-–—\])]?(?:\s*(?:/|of)\s*\d{1,4})?", re.IGNORECASE)
_ENDS = re.compile(r"[.!?:;…。！？：；\"”’»」』)\]]\s*$")
_OTHER_MARKUP = re.compile(r"\s*(?:<\?xml\b|<!DOCTYPE\b|<FictionBook\b|\{\\rtf)", re.IGNORECASE)
PAGE_END = "\f"


@dataclass(slots=True)
class Times:
    """Start and end times of a subtitle paragraph in seconds, and the name of its speaker."""

    start: float
    end: float
    name: str | None


@dataclass(slots=True)
class TextDocument(Document):
    """Result of reading a plain text, Markdown or subtitle file.

    For subtitles, `cues` has one item per paragraph. If the encoding is uncertain, `encodings` lists the possible
    encodings. The first one was used.
    """

    encoding: str = ""
    encodings: list[str] = field(default_factory=list)
    cues: list[Times] = field(default_factory=list)


def read_text(
    data: bytes,
    omitted: OmittedContent | None = None,
    *,
    encoding: str | None = None,
    keep_sounds: bool = False,
    as_is: bool = False,
    markdown: bool = False,
) -> TextDocument:
    """Read a plain text, Markdown or subtitle file.

    Args:
        data: Bytes of the whole file.
        omitted: Counter of omitted content, which also has the user's choice of content to read.
        encoding: Character encoding, or None to detect it.
        keep_sounds: True to read subtitle text in brackets and between music notes.
        as_is: True to keep every row, as in tables and lists, and to treat subtitles as plain text.
        markdown: True to parse the text as Markdown.

    Raises:
        UnreadableError: The file is not text, or has invalid subtitles.
    """
    decoded = decode(data, encoding)
    if len(decoded.text) > MAX_TEXT_CHARS:
        raise UnreadableError(TOO_LARGE)
    text = _PARAGRAPH_END.sub("\n\n", _LINE_END.sub("\n", decoded.text))
    notes = []
    if decoded.damaged:
        first = text[: text.index("\ufffd")].count("\n") + 1
        notes.append(Note("damaged", decoded.damaged, f"Damaged characters in the file, the first in row {first}."))
    found = None if as_is or markdown else read_cues(text)
    if found is None and not markdown and _OTHER_MARKUP.match(text):
        raise UnreadableError(NO_DOCUMENT)
    omitted = omitted or OmittedContent()
    cues: list[Times] = []
    chapters: list[Chapter] = []
    remaining: list[str] = []
    title = ""
    if as_is:
        remaining = [text]
    elif markdown:
        text, title = without_front_matter(text, omitted)
        chapters = markdown_chapters(text, omitted)
    elif found is not None:
        dialogue = dialogue_of(found, keep_sounds=keep_sounds)
        remaining = [line.text for line in dialogue.lines]
        cues = [Times(line.start, line.end, line.name) for line in dialogue.lines]
        for sound in dialogue.sounds:
            omitted.count_omission("sounds", sound)
        for row in dialogue.repeated:
            omitted.count_omission("repeated", row)
    else:
        without, numbers = _without_page_numbers(text)
        if all([omitted.omits("page_numbers", number) for number in numbers]):
            text = without
        remaining = [part for part in _BLANK.split(text) if part.strip()]
    chapters = chapters or [Chapter("", remaining)]
    if found is None and not as_is:
        clean_prose(chapters, omitted)
        clean_plain(chapters, omitted)
    notes += omitted.notes()
    title = title or first_title(chapters)
    if not chapters[0].paragraphs and not notes:
        raise UnreadableError(EMPTY)
    return TextDocument(
        title[:MAX_TITLE_CHARS],
        chapters,
        notes,
        found=dict(omitted.found),
        encoding=decoded.encoding,
        encodings=decoded.candidates,
        cues=cues,
    )


def _without_page_numbers(text: str) -> tuple[str, list[str]]:
    """Remove page numbers and page breaks, and join sentences across pages.

    Rows that contain only a number are page numbers if the numbers increase, and at least one row is inside a
    sentence or next to a page break.

    Returns:
        The text and the removed page numbers.
    """
    rows = text.replace(PAGE_END, f"\n{PAGE_END}\n").split("\n")
    written = [at for at, row in enumerate(rows) if row.strip() or PAGE_END in row]
    numbers: dict[int, int] = {}  # Page number by row index.
    are_pages = False
    for before, at, after in zip([-1, *written], written, [*written[1:], -1], strict=False):
        found = _PAGE_NUMBER.fullmatch(rows[at].strip())
        if found and int(found[1]) > max(numbers.values(), default=-1):
            numbers[at] = int(found[1])
            around = [rows[place] for place in (before, after) if place >= 0]
            are_pages |= PAGE_END in around or (len(around) == 2 and _continues(*around))
    if not are_pages:
        numbers = {}
    remaining: list[str] = []
    is_seam = False
    for at, row in enumerate(rows):
        if row == PAGE_END or at in numbers:
            is_seam = True
            remaining += [""] * (row == PAGE_END)
        else:
            if is_seam and row.strip():
                is_seam = False
                last = next((place for place in range(len(remaining) - 1, -1, -1) if remaining[place].strip()), -1)
                if last >= 0 and _continues(remaining[last], row):
                    remaining[last:] = [join_rows(f"{remaining[last]}\n{row}")]
                    continue
            remaining.append(row)
    return "\n".join(remaining), [rows[at].strip() for at in numbers]


def _continues(before: str, after: str) -> bool:
    """True if a sentence continues from one row to the next row."""
    return len(before.split()) > 1 and not _ENDS.search(before) and after.lstrip()[:1].islower()
