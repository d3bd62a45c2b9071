"""Data classes of document reading, limits on sizes, and reasons to reject a document."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MAX_FILES = 5000
MAX_UNPACKED_BYTES = 256 * 2**20
MAX_MARKUP_BYTES = 16 * 2**20  # Maximum size of a parsed markup file in bytes.
MAX_TOTAL_MARKUP_BYTES = 64 * 2**20
MAX_TAGS = 2_000_000  # Maximum number of parsed elements, which limits time and memory.
MAX_TEXT_CHARS = 8 * 2**20  # Maximum number of characters of a document. "War and Peace" has three million.
MAX_TITLE_CHARS = 200
MAX_COVER_FILE_BYTES = 16 * 2**20
MAX_EXAMPLES = 3
MAX_EXAMPLE_CHARS = 60

# Reasons in the message of `DocumentUnreadable`.
NO_DOCUMENT = "it is neither text nor subtitles, HTML, EPUB, DOCX or PDF"
OTHER_ENCODING = "it is no text in that character encoding; choose another one"
SUBTITLE_TIMES = "its times are written as they are not read here; convert it to SRT or WebVTT"
OLD_OR_LOCKED = "it is an old .doc or is locked by a password; save it as DOCX without one"
LOCKED = "it is locked by a password"
PROTECTED = "it is protected against copying (DRM)"
DAMAGED = "it is damaged"
TOO_LARGE = "it holds more than is read of one document"
EMPTY = "there is no text in it"
NO_TEXT = "there is no text in it; it may hold pictures of pages only"
NO_EXTRACTOR = "web pages are not read here; the host can install voicewright[web]"
TOO_LONG = "it could not be read within the limits of memory and time"
REASONS = (
    *(NO_DOCUMENT, OTHER_ENCODING, SUBTITLE_TIMES, OLD_OR_LOCKED, LOCKED, PROTECTED, DAMAGED, TOO_LARGE),
    *(EMPTY, NO_TEXT, NO_EXTRACTOR, TOO_LONG),
)

# Descriptions of omitted or changed content by note code. The page translates the codes.
LEFT_OUT = {
    "pictures": "Pictures, charts and media were left out",
    "note_marks": "Marks of footnotes and endnotes were left out of the text",
    "printed_numbers": "Numbers of printed pages and lines were left out",
    "hidden": "Hidden passages were left out",
    "deleted": "Passages that are deleted in tracked changes were left out",
    "comments": "Comments were left out",
    "contents": "Tables of contents were left out, by entry or as a whole",
    "headers": "Page headers and footers were left out",
    "readings": "Readings above characters were left out",
    "symbols": "Symbols of picture fonts were left out",
    "embedded": "Embedded documents were left out",
    "asides": "Pages outside the reading order were left out",
    "repeated_pages": "Pages that the book repeats are read once",
    "missing_pages": "Pages that are named in the book are missing in the file",
    "damaged_pages": "Pages that are damaged were left out, in part or as a whole",
    "entities": "Characters that are defined in the file itself were left out",
    "code": "Blocks of code were left out",
    "sounds": "Sounds in brackets and music were left out",
    "repeated": "Rows that rolling captions show again were left out",
    "page_numbers": "Page numbers were left out",
    "tables": "Rows of tables were left out",
    "captions": "Captions were left out",
    "list_numbers": "Numbers of lists were left out",
    "footnotes": "Footnotes were left out",
    "front_matter": "Settings at the beginning of the file were left out",
    "damaged": "Damaged characters in the file",
    "styles": "Words in brackets are styles of the text after them",
}

LINE_BREAK = "\v"  # Line break inside a text. XML does not allow this character, so it never occurs in documents.
_BREAKS = re.compile(rf"{LINE_BREAK}\s*{LINE_BREAK}")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_SIGNS = "0123456789+-−"
# Tables that convert digits and signs to superscript or subscript. The keys are names in WordprocessingML.
_SCRIPTS = {
    "superscript": str.maketrans(_SIGNS, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻"),
    "subscript": str.maketrans(_SIGNS, "₀₁₂₃₄₅₆₇₈₉₊₋₋"),
}
_NUMBER = re.compile(rf"\s*[{re.escape(_SIGNS)}]+\s*")
_END_MARKS = tuple(".,:;!?…。，、：；！？")


class UnreadableError(Exception):
    """Error for a document that cannot be read.

    The message has the reason.
    """


@dataclass(slots=True)
class Chapter:
    """Chapter of a document: a title and consecutive paragraphs.

    ``title`` is empty if the chapter has no title. The first paragraph may be the chapter's heading. ``is_notes`` is
    True for the chapter with all footnotes and endnotes.
    """

    title: str
    paragraphs: list[str] = field(default_factory=list)
    is_notes: bool = False


@dataclass(slots=True)
class Note:
    """Message to the user about omitted content of a document.

    ``code`` is the kind of content, ``count`` the number of omissions, and ``examples`` are the first omitted texts.
    """

    code: str
    count: int
    message: str
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Document:
    """Text of a document as chapters, with its title.

    If the file has no title, `title` is the first heading.
    """

    title: str
    chapters: list[Chapter]
    notes: list[Note] = field(default_factory=list)
    author: str = field(default="", kw_only=True)
    cover: str = field(default="", kw_only=True)  # Data URL of a JPEG or PNG file.
    # Number of content items by kind, see `OmittedContent`.
    found: dict[str, int] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentChoice:
    """User's choice of the kinds of content that are read aloud, for all document formats.

    A kind is omitted from the text if its field is False.
    """

    note_marks: bool = False
    page_numbers: bool = False
    code: bool = False
    tables: bool = True
    captions: bool = True
    list_numbers: bool = True


class OmittedContent:
    """Counter of the content that was omitted from a document, with the first examples.

    Attributes:
        found: Number of content items by kind (fields of `ContentChoice`), including the items that are read.
    """

    def __init__(self, spoken: ContentChoice | None = None) -> None:
        self.found: Counter[str] = Counter()
        self._spoken = spoken or ContentChoice()
        self._counts: Counter[str] = Counter()
        self._examples: defaultdict[str, list[str]] = defaultdict(list)

    def count_omission(self, code: str, example: str | None = None, *, count: int = 1) -> None:
        """Count omitted content of a document, and store an example of it for the user.

        Args:
            code: Kind of the omitted content, a key of `LEFT_OUT`.
            example: Text of the omitted content, or None.
            count: Number of omissions.
        """
        self._counts[code] += count
        examples = self._examples[code]
        # The text is shortened first because it may be a whole chapter.
        text = spaced((example or "")[: 2 * MAX_EXAMPLE_CHARS])[:MAX_EXAMPLE_CHARS]
        if text and text not in examples and len(examples) < MAX_EXAMPLES:
            examples.append(text)

    def omits(self, kind: str, example: str | None = None, *, count: int = 1, code: str = "") -> bool:
        """Count document content of one kind, and return True if it must be omitted.

        Content is omitted if the user does not want to hear this kind.

        Args:
            kind: Name of a field of `ContentChoice`.
            example: Text of the content, or None.
            count: Number of items.
            code: Code under which omissions are counted; the default is `kind`.
        """
        self.found[kind] += count
        if getattr(self._spoken, kind):
            return False
        self.count_omission(code or kind, example, count=count)
        return True

    def notes(self) -> list[Note]:
        """Return one message to the user for each kind of omitted content."""
        notes = []
        for code, sentence in LEFT_OUT.items():
            if count := self._counts[code]:
                examples = self._examples[code]
                example = f" For example: {'; '.join(examples)}." if examples else ""
                notes.append(Note(code, count, f"{sentence}: {count}.{example}", examples))
        return notes


def cut_level(levels: Iterable[int]) -> int:
    """Return the heading level at which a document is divided into chapters.

    This is the highest level that has at least two headings. If no level has two headings, it is the highest level. The
    result is -1 if there are no headings.
    """
    counts = Counter(levels)
    return min((level for level, count in counts.items() if count > 1), default=min(counts, default=-1))


def spaced(text: str) -> str:
    """Replace whitespace by single spaces, and remove soft hyphens and invisible spaces."""
    return re.sub(r"\s+", " ", _INVISIBLE.sub("", text)).strip()


def scripted(text: str, script: str) -> str:
    """Convert a superscript or subscript number to Unicode characters, for example 3 to ³.

    `script` is "superscript" or "subscript". Without the conversion, 10³ would become 103.
    """
    return text.translate(_SCRIPTS[script]) if script in _SCRIPTS and _NUMBER.fullmatch(text) else text


def paragraphs_of(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, which are separated by at least two line breaks.

    Empty paragraphs are omitted.
    """
    yield from filter(None, map(spaced, _BREAKS.split(text)))


def row_text(cells: list[str]) -> str:
    """Join the cells of a table row into one text.

    A comma is added after each cell except the last one and cells that end with a punctuation mark.
    """
    *first, last = [cell for cell in cells if cell] or [""]
    return " ".join([*(cell if cell.endswith(_END_MARKS) else f"{cell}," for cell in first), last])
