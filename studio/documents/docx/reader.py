"""DOCX reader that returns the text of a document in the order in which Word shows it.

All WordprocessingML elements are read, except those that Word does not show. Therefore, text in unknown containers is
not lost. The text includes tracked insertions, and automatic numbers of lists and headings. It does not include tracked
deletions. Footnotes and endnotes become a separate chapter.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lxml import etree

from studio.documents.archive import Archive, resolve_reference
from studio.documents.docx.numbering import Numbering
from studio.documents.docx.styles import (
    Style,
    Styles,
    attribute,
    child,
    contains_any,
    heading_level,
    is_on,
    tag_of,
    value,
)
from studio.documents.docx.symbols import convert_symbols, symbol_of
from studio.documents.prose import prose_document
from studio.documents.values import (
    LINE_BREAK,
    Chapter,
    Document,
    OmittedContent,
    cut_level,
    paragraphs_of,
    row_text,
    scripted,
    spaced,
)

# Elements whose text is not shown: properties, field instructions and deletions.
_SKIPPED = frozenset(
    {"w:instrText", "w:delText", "w:delInstrText", "w:fldData", "w:sdtPr", "w:rubyPr", "w:pPr", "w:rPr", "m:ctrlPr"}
)
_COUNTED = {"w:rt": "readings", "w:altChunk": "embedded", "w:subDoc": "embedded", "w:commentReference": "comments"}
_TEXTS = {"w:tab": " ", "w:ptab": " ", "w:noBreakHyphen": "-", "w:br": LINE_BREAK, "w:cr": LINE_BREAK, "m:den": "/"}
_PICTURE = re.compile("[\uf020-\uf0ff]")  # Character of a symbol font without a Unicode equivalent.
_SHOWN = frozenset({"w:t", "w:delText", "m:t"})
_TEXT_BOX = "w:txbxContent"


@dataclass(slots=True)
class _Block:
    """Paragraph or table row, where ``level`` is the outline level of a heading."""

    text: str
    level: int | None = None
    is_title: bool = False


@dataclass(slots=True)
class _Open:
    """Paragraph that is being read."""

    is_hidden: bool = False
    pieces: list[str] = field(default_factory=list)
    after: list[_Block] = field(default_factory=list)
    omitted: dict[str, str] = field(default_factory=dict)  # The first omitted text for each note code.


def main_document(archive: Archive) -> tuple[str, etree._Element] | None:
    """Return the name and the XML root of the document's main part.

    The result is None if the archive is not a DOCX file.

    Raises:
        UnreadableError: The document is damaged.
    """
    name = _related(archive, "").get("officeDocument", ["word/document.xml"])[0]
    if archive.find(name) is None:
        return None
    root = archive.xml(name)
    return (name, root) if tag_of(root) == "w:document" else None


def read_docx(archive: Archive, name: str, root: etree._Element, omitted: OmittedContent) -> Document:
    """Read a DOCX document and return its text as chapters.

    Args:
        archive: ZIP archive of the document.
        name: Name of the entry with the main part of the document.
        root: XML root of the main part.
        omitted: Counter of omitted content, to which this function adds.

    Raises:
        UnreadableError: The document is damaged, or larger than the limits.
    """
    parts = _related(archive, name)

    def part(kind: str) -> etree._Element | None:
        return archive.xml(parts[kind][0]) if kind in parts else None

    styles = Styles(part("styles"))
    comments = {attribute(one, "id"): _text_of(one) for one in _elements(part("comments"), "w:comment")}
    body = _Story(styles, Numbering(part("numbering"), styles), omitted, comments)
    note_parts = {kind: part(f"{kind}s") for kind in ("footnote", "endnote")}
    for one in (root, *note_parts.values()):
        if one is not None:
            convert_symbols(one, styles)
    blocks = body.read(root)
    notes = list(_notes(body, note_parts))
    for header in parts.get("header", []) + parts.get("footer", []):
        if text := _text_of(archive.xml(header)):
            omitted.count_omission("headers", text)
    title = _core_title(archive) or next((block.text for block in blocks if block.is_title), "")
    return prose_document(title, [*_chapters(blocks), Chapter("", notes, is_notes=True)], omitted)


def _related(archive: Archive, name: str) -> dict[str, list[str]]:
    """Return the parts referenced by a part (or, for an empty name, by the package), by kind."""
    relations = f"{posixpath.dirname(name)}/_rels/{posixpath.basename(name)}.rels".removeprefix("/")
    found: dict[str, list[str]] = {}
    if archive.find(relations) is not None:
        for relation in archive.xml(relations):
            target, _ = resolve_reference(name, relation.get("Target") or "")
            if relation.get("TargetMode") != "External" and archive.find(target) is not None:
                found.setdefault((relation.get("Type") or "").rpartition("/")[2], []).append(target)
    return found


def _core_title(archive: Archive) -> str:
    for name in _related(archive, "").get("core-properties", []):
        for element in archive.xml(name).iter("{http://purl.org/dc/elements/1.1/}title"):
            return spaced(element.text or "")
    return ""


def _chapters(blocks: list[_Block]) -> list[Chapter]:
    """Split the blocks into chapters at headings.

    The split level is the first heading level with several headings. Headings above it also start a chapter.
    """
    deepest = cut_level(block.level for block in blocks if block.level is not None)
    chapters = [Chapter("")]
    for block in blocks:
        if block.level is not None and block.level <= deepest:
            chapters.append(Chapter(block.text))
        chapters[-1].paragraphs.append(block.text)
    return chapters


def _notes(body: _Story, parts: dict[str, etree._Element | None]) -> Iterator[str]:
    """Yield the paragraphs of all numbered notes, in the order of their marks in the text."""
    by_id = {
        (kind, attribute(note, "id")): note for kind, root in parts.items() for note in _elements(root, f"w:{kind}")
    }
    counts: Counter[str] = Counter()
    for kind, note_id in body.marks:
        counts[kind] += 1
        if (note := by_id.get((kind, note_id))) is not None:
            for index, block in enumerate(body.read(note)):
                yield block.text if index else f"{counts[kind]}. {block.text}"


class _Story:
    """Reader of one flow of text: the body with its tables and text boxes, or a footnote.

    Attributes:
        marks: Kind and id of each note to which the text refers.
    """

    def __init__(self, styles: Styles, numbering: Numbering, omitted: OmittedContent, comments: dict[str, str]) -> None:
        """Create a reader for a part of a document, such as the body or the footnotes.

        `comments` maps comment ids to the texts of the comments.
        """
        self.marks: list[tuple[str, str]] = []
        self._styles = styles
        self._numbering = numbering
        self._omitted = omitted
        self._comments = comments
        self._is_in_code = False  # True after a paragraph of code. Consecutive code paragraphs form one block.
        self._blocks: list[_Block] = []
        self._cells: list[list[_Block]] = []
        self._open = _Open()
        self._script = ""  # Script of the current run, as in `Style.script`.
        self._carried = ""  # Text of a paragraph that continues in the next one, because its paragraph mark is deleted.
        self._fields: list[bool] = []  # True for each open field whose result has started.
        self._handlers: dict[str, Callable[[etree._Element], None]] = {
            "w:p": self._paragraph,
            "w:r": self._run,
            "w:t": self._text,
            "m:t": self._text,
            "w:sym": self._symbol,
            "w:fldChar": self._field,
            "w:del": self._deleted,
            "w:moveFrom": lambda _: None,  # Moved text is read from its new position (`w:moveTo`).
            "w:tr": self._row,
            "w:tc": self._cell,
            "mc:AlternateContent": self._alternate,
            _TEXT_BOX: self._text_box,
            "m:sup": self._superscript,
            "w:footnoteReference": self._note_mark,
            "w:endnoteReference": self._note_mark,
            **dict.fromkeys(("w:drawing", "w:pict", "w:object"), self._drawing),
        }

    def read(self, element: etree._Element) -> list[_Block]:
        """Return the paragraphs and table rows inside an XML element of a DOCX document."""
        blocks, self._blocks = self._blocks, []
        carried, self._carried = self._carried, ""
        outer, self._open = self._open, _Open()
        self._walk(element)
        # The remaining text is a formula outside a paragraph, or a last paragraph whose mark is deleted.
        self._finish(self._carried + "".join(self._open.pieces), "", None, is_title=False)
        found, self._blocks, self._carried, self._open = self._blocks, blocks, carried, outer
        return found

    def _walk(self, element: etree._Element) -> None:
        for one in element:
            name = tag_of(one)
            if name in _COUNTED:
                comment = self._comments.get(attribute(one, "id")) if name == "w:commentReference" else None
                self._omitted.count_omission(_COUNTED[name], comment or _text_of(one))
            elif name and name not in _SKIPPED:
                if name in _TEXTS:
                    self._add(_TEXTS[name])
                self._handlers.get(name, self._walk)(one)

    def _add(self, text: str) -> None:
        # The result of a field inside the instruction of another field is not shown.
        if all(self._fields[:-1]):
            self._open.pieces.append(text)

    def _paragraph(self, element: etree._Element) -> None:
        properties = child(element, "w:pPr")
        style_id = value(properties, "w:pStyle")
        style = self._styles.of(style_id)
        outer, self._open = self._open, _Open(style.is_hidden)
        self._walk(element)
        read, self._open = self._open, outer
        for code, omitted in read.omitted.items():
            self._omitted.count_omission(code, omitted)
        text = self._carried + "".join(read.pieces)
        is_drop_cap = attribute(child(properties, "w:framePr"), "dropCap") not in {"", "none"}
        mark = child(properties, "w:rPr")
        if is_drop_cap:
            self._carried = text
        elif any(child(mark, name) is not None for name in ("w:del", "w:moveFrom")):
            self._carried = f"{text} "
        elif style.is_contents:
            self._carried = ""
            if spaced(text):
                self._omitted.count_omission("contents", text)
        elif not self._omits(style, text):
            self._carried = ""
            label, level = self._numbering.label(properties, style_id), heading_level(properties, style)
            if label and level is None and self._omitted.omits("list_numbers", label):
                label = ""
            self._finish(text, label, level, style.is_title)
        self._blocks += read.after

    def _omits(self, style: Style, text: str) -> bool:
        """True if a paragraph is a caption or code that is omitted.

        Consecutive code paragraphs are counted once.
        """
        was_in_code = self._is_in_code
        self._is_in_code = style.is_code and (was_in_code or bool(spaced(text)))
        if not spaced(text) or not (style.is_code or style.is_caption):
            return False
        if style.is_code:
            is_omitted = self._omitted.omits("code", text, count=not was_in_code)
        else:
            is_omitted = self._omitted.omits("captions", text)
        if is_omitted:
            self._carried = ""
        return is_omitted

    def _finish(self, text: str, label: str, level: int | None, is_title: bool) -> None:
        for part in paragraphs_of(text):
            self._blocks.append(_Block(f"{label} {part}" if label else part, level, is_title))
            label = ""

    def _run(self, element: etree._Element) -> None:
        properties = child(element, "w:rPr")
        hidden, script = is_on(child(properties, "w:vanish")), value(properties, "w:vertAlign")
        if style_id := value(properties, "w:rStyle"):
            style = self._styles.of(style_id)
            hidden = (style.is_hidden or None) if hidden is None else hidden
            script = script or style.script
        if not (self._open.is_hidden if hidden is None else hidden):
            outer, self._script = self._script, script
            self._walk(element)
            self._script = outer
        elif any(one.text for one in element if tag_of(one) == "w:t"):
            self._open.omitted.setdefault("hidden", _text_of(element))

    def _text(self, element: etree._Element) -> None:
        before = element.getprevious()
        if before is not None and attribute(before, "customMarkFollows") in {"1", "true", "on"}:
            return  # Ignore this text, because it is the mark of a note.
        self._add_symbols(scripted(element.text or "", self._script))

    def _symbol(self, element: etree._Element) -> None:
        code = re.fullmatch("(?:[Ff]0|00)?([2-9A-Fa-f][0-9A-Fa-f])", attribute(element, "char"))
        self._add_symbols(symbol_of(attribute(element, "font"), int(code[1], 16) if code else 0xFF))

    def _add_symbols(self, text: str) -> None:
        """Add text without the symbols that Unicode does not have, and count these symbols."""
        text, pictures = _PICTURE.subn("", text)
        if pictures:
            self._omitted.count_omission("symbols", count=pictures)
        self._add(text)

    def _field(self, element: etree._Element) -> None:
        kind = attribute(element, "fldCharType")
        if kind == "begin":
            for choices in element.iter("{*}ddList"):  # A drop-down field has no result, but shows an entry.
                entries = [one for one in choices if tag_of(one) == "w:listEntry"]
                chosen = value(choices, "w:result") or "0"
                self._add("".join(attribute(one) for one in entries[int(chosen) :][:1] if chosen.isdecimal()))
            self._fields.append(False)
        elif self._fields and kind == "separate":
            self._fields[-1] = True
        elif self._fields and kind == "end":
            self._fields.pop()

    def _deleted(self, element: etree._Element) -> None:
        if contains_any(element, "w:delText"):
            self._open.omitted.setdefault("deleted", _text_of(element))

    def _note_mark(self, element: etree._Element) -> None:
        kind = tag_of(element)[2:].removesuffix("Reference")
        self.marks.append((kind, attribute(element, "id")))
        if not self._omitted.omits("note_marks"):
            self._add(f" {sum(one == kind for one, _ in self.marks)} ")

    def _superscript(self, element: etree._Element) -> None:
        if any(one.text for one in element.iter()):
            self._add("^")
            self._walk(element)

    def _alternate(self, element: etree._Element) -> None:
        """Read only the first alternative with text, because all have the same content."""
        alternatives = [one for one in element if tag_of(one)]
        with_text = [one for one in alternatives if contains_any(one, "w:t", "m:t")]
        for one in (with_text or alternatives)[:1]:
            self._walk(one)

    def _drawing(self, element: etree._Element) -> None:
        if contains_any(element, _TEXT_BOX):
            self._walk(element)
        else:
            described = (one.get("descr") or one.get("title") or one.get("alt") for one in element.iter())
            self._omitted.count_omission("pictures", next(filter(None, described), None))

    def _text_box(self, element: etree._Element) -> None:
        """Read a text box at its position in the text.

        The text of a floating text box follows the paragraph that contains its anchor.
        """
        box = self.read(element)
        if any(tag_of(one) == "wp:anchor" or _floats(one) for one in element.iterancestors()):
            self._open.after += box
            return
        before, self._open.pieces = "".join(self._open.pieces), []
        self._finish(self._carried + before, "", None, is_title=False)
        self._carried = ""
        self._blocks += box

    def _row(self, element: etree._Element) -> None:
        properties = child(element, "w:trPr")
        if child(properties, "w:del") is not None:
            self._omitted.count_omission("deleted", _text_of(element))
            return
        cells, self._cells = self._cells, []
        self._walk(element)
        read, self._cells = self._cells, cells
        if all(len(cell) <= 1 for cell in read) and len(read) > 1:
            text = row_text([block.text for cell in read for block in cell])
            if text and not self._omitted.omits("tables", text):
                self._blocks.append(_Block(text))
        else:  # The cells contain paragraphs, because the table is only used for layout.
            self._blocks += [block for cell in read for block in cell]

    def _cell(self, element: etree._Element) -> None:
        properties = child(element, "w:tcPr")
        merged = (child(properties, "w:vMerge"), child(properties, "w:hMerge"))
        is_shown = all(one is None or attribute(one) == "restart" for one in merged)
        if is_shown and child(properties, "w:cellDel") is None:
            self._cells.append(self.read(element))


def _elements(root: etree._Element | None, name: str) -> Iterator[etree._Element]:
    """Yield the children of a part's root that have the name `name`."""
    return (one for one in (root if root is not None else ()) if tag_of(one) == name)


def _text_of(element: etree._Element) -> str:
    """Return the text of an element, as an example for a note."""
    return spaced(" ".join(one.text or "" for one in element.iter() if tag_of(one) in _SHOWN))


def _floats(element: etree._Element) -> bool:
    return tag_of(element).startswith("v:") and "absolute" in (element.get("style") or "")
