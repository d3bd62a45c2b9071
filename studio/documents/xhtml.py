"""Reader that converts one XHTML file of an EPUB book to paragraphs of text."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass, field
from html.entities import html5
from itertools import islice

from lxml import etree, html

from studio.documents.charset import decode
from studio.documents.docx.numbering import in_numerals
from studio.documents.values import (
    LINE_BREAK,
    MAX_EXAMPLE_CHARS,
    TOO_LARGE,
    Chapter,
    OmittedContent,
    UnreadableError,
    paragraphs_of,
    row_text,
    scripted,
)

_EPUB_TYPE_NAMES = ("{http://www.idpf.org/2007/ops}type", "epub:type")  # Attribute names in XML and in HTML.
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6", "hd", "doctitle"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "aside", "blockquote", "body", "button", "caption", "center", "dd", "details", "dialog"),
    *(
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "legend",
    ),
    *("li", "list", "main", "menu", "ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary"),
    *("table", "tbody", "td", "text", "textarea", "tfoot", "th", "thead", "tr", "ul"),
    *("level", "level1", "level2", "level3", "level4", "level5", "level6", "line", "linegroup"),  # Elements of DTBook.
}
_CELLS = {"td", "th"}
_CAPTIONS = {"caption", "figcaption"}
# Fields of `ContentChoice` by note code.
_SWITCHES = {"printed_numbers": "page_numbers", **{kind: kind for kind in ("note_marks", "code", "captions")}}
_UNSAID = {
    "annotation",
    "annotation-xml",
    "defs",
    "desc",
    "head",
    "metadata",
    "rp",
    "script",
    "style",
    "template",
    "title",
}
_PICTURES = {"audio", "canvas", "embed", "iframe", "img", "image", "video"}
_READINGS = {"rt", "rtc"}
_SCRIPTS = {"sup": "superscript", "sub": "subscript"}
# MathML elements whose second child is a superscript or subscript.
_MATH_SCRIPTS = {"msup": "superscript", "msub": "subscript"}

NAV_KINDS = {"landmarks", "page-list", "loi", "lot", "loa", "lov", "doc-pagelist"}
_PAGE = {"pagebreak", "doc-pagebreak"}
_PAGE_CLASSES = {"pagenum", "pageno", "pagenumber", "page-number", "page_number"}
_PAGE_CLASSES |= {"lnum", "linenum", "linenumber", "line-number"}
_PAGE_ID = re.compile(r"(?:p|pg|page)[-_.]?(\d{1,4}|[ivxlc]{1,7})", re.IGNORECASE)
_MAX_PAGE_CHARS = 40
_MAX_COMPARED_CHARS = 200
_NOTE = {"footnote", "footnotes", "endnote", "endnotes", "rearnote", "rearnotes"}
_NOTE |= {f"doc-{kind}" for kind in _NOTE}
_MARK = {"noteref", "doc-noteref"}
_MARK_CLASSES = {"noteref", "footnoteref", "footnote-ref", "fnref", "fnanchor", "endnote-ref"}
_BACK = {"backlink", "doc-backlink", "footnote-back", "footnote-backref"}
_MARK_TEXT = re.compile(r"([0-9]{1,4}|[ivxlc]{1,6}|[a-z])|[*†‡§¶#∗⁎※]{1,4}", re.IGNORECASE)
_BRACKETED = re.compile(r"[\[(\u3014\uff3b](.*)[\])\u3015\uff3d]")
_BACK_TEXT = re.compile(r"[↩↵↑⏎^⤴]\ufe0e?")
_UNSPOKEN_ALT = re.compile(r"[\\{}$^_]|not available")  # Alternative texts of formulas that cannot be spoken.
_DROP_CAP = re.compile(r"drop[-_]?cap|\bdrop\b|\binitial\b|lettrine", re.IGNORECASE)
_MAX_DROP_CAP_CHARS = 2
_NOT_SHOWN = re.compile(r"(^|[;\s])(display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_UNNUMBERED = re.compile(r"list-style(-type)?\s*:[^;]*none", re.IGNORECASE)
_OWN_NUMBER = re.compile(r"[(\[]?(\d+|[a-zA-Z]|[ivxlc]+)[.)\]、]")
_LIST_KINDS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_LIST_KINDS |= {
    f"{case}-{kind}": case + name
    for case in ("lower", "upper")
    for kind, name in (("alpha", "Letter"), ("latin", "Letter"), ("roman", "Roman"))
}
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s*:[^;]*?\b((?:lower|upper)-(?:alpha|latin|roman))\b")

_NAMED = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_OF_XML = {"amp", "lt", "gt", "quot", "apos"}
_DECLARED = re.compile(
    rb"<\?xml[^>]{1,99}encoding=[\"']([\w.:-]+)|<meta[^>]{1,199}charset=[\"']?([\w.:-]+)", re.IGNORECASE
)
_HEAD_BYTES = 1024
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:-]*)([^<>]*)/>")
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}


def body_of(markup: bytes, encoding: str | None = None) -> etree._Element:
    """Parse an XHTML document and return its body element.

    A document that is not well-formed XML is parsed as HTML.

    Args:
        markup: Bytes of the document.
        encoding: Encoding that is used if the document is not UTF-8 and declares no encoding. None detects the
            encoding.

    Raises:
        UnreadableError: The elements are nested too deeply for the parser.
    """
    text = decoded(markup, encoding)
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, encoding="utf-8")
        root = etree.fromstring(_NAMED.sub(_numbered, text).encode(), parser)
    except etree.XMLSyntaxError:
        text = _SELF_CLOSED.sub(_opened, text)
        parser = html.HTMLParser(no_network=True, encoding="utf-8", huge_tree=True)
        try:
            root = html.document_fromstring(text.encode(), parser=parser)
        except (etree.ParserError, ValueError):  # The document has no content.
            return etree.Element("body")
        if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
            raise UnreadableError(TOO_LARGE) from None
    return next(root.iter("{*}body"), root)


def decoded(markup: bytes, encoding: str | None = None) -> str:
    """Decode an XHTML document by its byte order mark, as UTF-8, or by its declaration.

    These are tried in this order. If all of them fail, `encoding` is used, or the encoding is detected if it is None.
    """
    for mark, name in (  # UTF-32 comes before UTF-16, because its byte order marks begin with those of UTF-16.
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if markup.startswith(mark):
            return markup.decode(name, "replace")
    for start, name in (
        (b"<\0\0\0", "utf-32-le"),
        (b"\0\0\0<", "utf-32-be"),
        (b"<\0", "utf-16-le"),
        (b"\0<", "utf-16-be"),
    ):
        if markup.startswith(start):
            return markup.decode(name, "replace")
    declared = _DECLARED.search(markup[:_HEAD_BYTES])
    names = [(declared[1] or declared[2]).decode("ascii")] if declared else []
    for name in ("utf-8", *names):
        with suppress(ValueError, LookupError):
            return markup.decode(name)
    with suppress(UnreadableError):
        return decode(markup, likely=encoding).text
    return markup.decode(encoding or "utf-8", "replace")


def _numbered(entity: re.Match[str]) -> str:
    """Replace a named HTML character reference with a numeric one (XML has only five names)."""
    known = html5.get(f"{entity[1]};")
    if known is None or entity[1] in _OF_XML:
        return entity[0]
    return "".join(f"&#{ord(character)};" for character in known)


def _opened(element: re.Match[str]) -> str:
    """Add an end tag to a self-closing element, which the HTML parser needs."""
    name, rest = element[1], element[2]
    return element[0] if name.lower() in _VOID else f"<{name}{rest}></{name}>"


def kinds_of(element: etree._Element) -> set[str]:
    """Return the roles of an XHTML element, such as "footnote", in lower case.

    They are the values of the attributes ``epub:type`` and ``role``.
    """
    if not element.attrib:  # Elements without attributes are the most frequent ones, so they are handled first.
        return set()
    return set(" ".join(element.get(key) or "" for key in (*_EPUB_TYPE_NAMES, "role")).lower().split())


def _name_of(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _is_code(preformatted: etree._Element) -> bool:
    """True if a `pre` element contains only one `code` element, as in converted documents."""
    children = list(preformatted)
    texts = [preformatted.text, *(one.tail for one in children)]
    return [_name_of(one) for one in children] == ["code"] and not any(text and text.strip() for text in texts)


def _is_page_anchor(element: etree._Element) -> bool:
    """True if an element contains only a page number, which is also part of its id."""
    page = _PAGE_ID.fullmatch(element.get("id") or element.get("name") or "")
    if page is None:
        return False
    number = re.fullmatch(r"[\[({]?(?:p|pg|page)?\.?\s*(\w+)[\])}]?", _text_of(element), re.IGNORECASE)
    return number is not None and number[1].lower() == page[1].lower().lstrip("0")


def _script_of(element: etree._Element) -> str:
    """Return "superscript", "subscript" or an empty string for the text of an element."""
    parent = element.getparent()
    if parent is not None and element.getprevious() is not None and (script := _MATH_SCRIPTS.get(_name_of(parent))):
        return script
    return _SCRIPTS.get(_name_of(element), "")


def _text_of(element: etree._Element) -> str:
    """Return the text of an element, truncated, because only short texts are compared."""
    text = ""
    for piece in element.itertext():
        text += piece[:_MAX_COMPARED_CHARS]
        if len(text) > _MAX_COMPARED_CHARS and text.strip():
            break
    return text.strip()


@dataclass(slots=True)
class _Item:
    """Paragraph, or the anchor of a chapter in the table of contents."""

    text: str
    is_heading: bool = False
    is_place: bool = False


@dataclass(slots=True)
class _Frame:
    """Collected content of an open element: a note, or a table row or cell."""

    element: etree._Element
    items: list[_Item] = field(default_factory=list)
    cells: list[list[_Item]] = field(default_factory=list)


class XhtmlReader:
    """Converter of one XHTML document to chapters of paragraphs.

    Args:
        titles: Chapter titles. The key is the id of the element at which the chapter starts, or "" for the document's
            start.
        omitted: Counter of omitted content.
        notes: List to which the paragraphs of footnotes and endnotes are appended.
    """

    def __init__(self, titles: dict[str, str], omitted: OmittedContent, notes: list[str]) -> None:
        self._titles = titles
        self._omitted = omitted
        self._notes = notes
        self._pieces: list[str] = []
        self._last = ""  # Last piece of text that was not empty.
        self._has_words = False
        self._label = ""
        self._is_heading = False
        self._is_joining = False  # True after a drop cap, because the next block continues the same word.
        self._scripts: list[etree._Element] = []  # Open elements of superscript and subscript numbers.
        self._numbers: dict[etree._Element, int] = {}

    def read(self, body: etree._Element) -> tuple[list[Chapter], bool]:
        """Convert the body element of an XHTML document to chapters.

        Returns:
            The chapters, and True if the body has text in addition to headings.
        """
        self._frames = [_Frame(body)]
        walk = etree.iterwalk(body, events=("start", "end", "comment", "pi"))
        for event, element in walk:
            if event == "start":
                if self._skips(element):
                    walk.skip_subtree()
                else:
                    self._enter(element)
            else:
                if event == "end":
                    self._leave(element)
                if element is not body:
                    self._append(element.tail or "")
        self._end_block()
        items = self._frames[0].items
        return self._chapters(items), any(not item.is_place and not item.is_heading for item in items)

    def _chapters(self, items: list[_Item]) -> list[Chapter]:
        places = {item.text for item in items if item.is_place}
        # If an anchor is missing, its chapter starts at the start of the document.
        lost = [title for place, title in self._titles.items() if place not in places]
        chapters = [Chapter(self._titles.get("") or next(iter(lost), ""))]
        for item in items:
            chapter = chapters[-1]
            if item.is_place:
                if chapter.paragraphs:
                    chapters.append(chapter := Chapter(""))
                chapter.title = self._titles[item.text]
            else:
                if item.is_heading and not chapter.title and not chapter.paragraphs:
                    chapter.title = item.text
                chapter.paragraphs.append(item.text)
        return chapters

    def _skips(self, element: etree._Element) -> bool:
        """True if an element is omitted (it is then counted)."""
        name = _name_of(element)
        if not name:  # The node is an entity reference that the parser has not expanded.
            self._omitted.count_omission("entities", element.text)
            return True
        if name in _UNSAID or (name == "case" and not isinstance(element, html.HtmlElement)):
            return True
        kind = self._kind_left_out(element, name)
        if kind:
            example = element.get("alt") or " ".join(islice(element.itertext(), MAX_EXAMPLE_CHARS))
            if kind in _SWITCHES:
                if not self._omitted.omits(_SWITCHES[kind], example, code=kind):
                    self._append(" " if kind == "note_marks" else "")
                    return False
            else:
                self._omitted.count_omission(kind, example)
        elif name == "math" and (said := element.get("alttext")) and not _UNSPOKEN_ALT.search(said):
            self._append(f" {said} ")
        else:
            return bool(kinds_of(element) & _BACK) or (name == "a" and bool(_BACK_TEXT.fullmatch(_text_of(element))))
        return True

    def _kind_left_out(self, element: etree._Element, name: str) -> str:
        if name in _PICTURES or (name == "svg" and next(element.iter("{*}text"), None) is None):
            return "pictures"
        if name in _READINGS:
            return "readings"
        if name == "nav":
            return "contents"
        if name == "pre" and _is_code(element):
            return "code"
        if name in _CAPTIONS:
            return "captions"
        kinds, classes = kinds_of(element), set((element.get("class") or "").lower().split())
        is_page = kinds & _PAGE or classes & _PAGE_CLASSES or name == "pagenum" or _is_page_anchor(element)
        if is_page and 0 < len(_text_of(element)) <= _MAX_PAGE_CHARS:
            return "printed_numbers"
        if name == "noteref" or kinds & _MARK or classes & _MARK_CLASSES or (name == "a" and self._is_mark(element)):
            return "note_marks"
        if name == "sup" and self._are_marks(element):
            return "note_marks"
        style = element.get("style") or ""
        is_hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
        return "hidden" if (is_hidden or _NOT_SHOWN.search(style)) and _text_of(element) else ""

    def _is_mark(self, link: etree._Element) -> bool:
        """True if a link is a note mark: after a word, and superscript, bracketed or a symbol."""
        if "#" not in (link.get("href") or "") or not self._has_words:
            return False
        text = _text_of(link)
        bracketed = _BRACKETED.fullmatch(text)
        mark = _MARK_TEXT.fullmatch(bracketed[1] if bracketed else text)
        parent = link.getparent()
        is_raised = (parent is not None and _name_of(parent) == "sup") or any(True for _ in link.iter("{*}sup"))
        return mark is not None and bool(bracketed or is_raised or not mark[1] or not self._last[-1:].isspace())

    def _are_marks(self, raised: etree._Element) -> bool:
        """True if superscript text consists of note marks and the commas or dashes in between."""
        links = list(raised.iter("{*}a"))
        between = [raised.text, *(one.tail for one in raised)]
        return (
            len(links) == len(raised) > 0
            and all(self._is_mark(link) for link in links)
            and not any(text and text.strip(" \n\t,;–-") for text in between)
        )

    def _enter(self, element: etree._Element) -> None:
        name = _name_of(element)
        place = element.get("id") or element.get("name") or ""
        if place and place in self._titles:
            self._end_block()
            self._frames[-1].items.append(_Item(place, is_place=True))
        if name in _BLOCKS:
            if not self._is_joining:
                self._end_block()
            self._is_heading = name in _HEADINGS
            self._is_joining = False
            is_note = kinds_of(element) & _NOTE or set((element.get("class") or "").lower().split()) & _NOTE
            if is_note or name == "tr" or name in _CELLS:
                self._frames.append(_Frame(element))
            if name == "li":
                self._label = self._list_label(element)
        elif (script := _script_of(element)) and scripted(text := _text_of(element), script) != text:
            self._scripts.append(element)
        self._append(LINE_BREAK if name == "br" else element.text or "")

    def _leave(self, element: etree._Element) -> None:
        if self._scripts and self._scripts[-1] is element:
            self._scripts.pop()
        if _name_of(element) not in _BLOCKS:
            return
        has_drop_cap = _DROP_CAP.search(element.get("class") or "") is not None
        if has_drop_cap and len("".join(self._pieces).strip()) <= _MAX_DROP_CAP_CHARS:
            self._is_joining = True
            return
        self._end_block()
        self._is_heading = False
        if len(self._frames) > 1 and self._frames[-1].element is element:
            self._close(self._frames.pop())

    def _close(self, frame: _Frame) -> None:
        name, outer = _name_of(frame.element), self._frames[-1]
        if name in _CELLS and _name_of(outer.element) == "tr":
            outer.cells.append(frame.items)
        elif name == "tr":
            cells = [*frame.cells, frame.items]
            items = [item for cell in cells for item in cell]
            has_places = any(item.is_place for item in items)
            if items and all(len(cell) <= 1 for cell in cells) and not has_places and len(frame.cells) > 1:
                text = row_text([item.text for item in items])
                items = [] if self._omitted.omits("tables", text) else [_Item(text)]
            outer.items += items  # The cells contain paragraphs, because the table is only used for layout.
        elif name in _CELLS:
            outer.items += frame.items
        else:
            self._notes += [item.text for item in frame.items if not item.is_place]

    def _append(self, text: str) -> None:
        if text:
            if self._scripts:
                text = scripted(text, _script_of(self._scripts[-1]))
            self._pieces.append(text)
            self._last = text
            self._has_words = self._has_words or not text.isspace()

    def _end_block(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._has_words = False
        for part in paragraphs_of(text) if text else ():
            label = "" if _OWN_NUMBER.match(part) else self._label
            self._frames[-1].items.append(_Item(f"{label} {part}" if label else part, self._is_heading))
            self._label = ""

    def _list_label(self, item: etree._Element) -> str:
        parent = item.getparent()
        if parent is None or _name_of(parent) != "ol" or _UNNUMBERED.search(parent.get("style") or ""):
            return ""
        step = -1 if parent.get("reversed") is not None else 1
        first = sum(1 for _ in parent.iterchildren("{*}li")) if step < 0 and parent not in self._numbers else 1
        count = self._numbers.get(parent, _whole(parent.get("start"), first) - step) + step
        count = self._numbers[parent] = _whole(item.get("value"), count)
        style = _LIST_STYLE.search(parent.get("style") or "")
        kind = _LIST_KINDS.get(style[1] if style else parent.get("type") or "", "decimal")
        label = f"{in_numerals(count, kind)}."
        is_note = any(kinds_of(frame.element) & _NOTE for frame in self._frames)
        return "" if not is_note and self._omitted.omits("list_numbers", label) else label


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,6}", text, re.ASCII) else default
