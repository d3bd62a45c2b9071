"""Helpers for WordprocessingML elements, and the styles of a DOCX document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from lxml import etree

_OFFICE = "http://schemas.openxmlformats.org/"
_STRICT = "http://purl.oclc.org/ooxml/"
_W = f"{{{_OFFICE}wordprocessingml/2006/main}}"
_W_STRICT = f"{{{_STRICT}wordprocessingml/main}}"
# XML namespaces of both variants of the DOCX standard (transitional and strict), with their usual prefix.
_PREFIXES = {
    _W[1:-1]: "w",
    _W_STRICT[1:-1]: "w",
    f"{_OFFICE}officeDocument/2006/math": "m",
    f"{_STRICT}officeDocument/math": "m",
    f"{_OFFICE}drawingml/2006/wordprocessingDrawing": "wp",
    f"{_STRICT}drawingml/wordprocessingDrawing": "wp",
    f"{_OFFICE}markup-compatibility/2006": "mc",
    "urn:schemas-microsoft-com:vml": "v",
}
_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_CONTENTS = re.compile(r"toc ?[1-9]|toc ?heading|index ?[1-9]|table of (figures|authorities)", re.IGNORECASE)
# Style names of code paragraphs in Word, pandoc and other programs.
_CODE = re.compile(r"html preformatted|((source|program) ?)?(code|listing)( ?(block|listing))?", re.IGNORECASE)
_CAPTION = re.compile(r"((image|table|figure) ?)?caption", re.IGNORECASE)
_MAX_CHAIN = 50  # Maximum number of styles of which each is based on the next one.
_BODY_OUTLINE_LEVEL = 9


@lru_cache(maxsize=4096)
def _short(tag: str) -> str:
    namespace, _, name = tag[1:].rpartition("}")
    return f"{_PREFIXES.get(namespace, '')}:{name}"


def tag_of(element: etree._Element) -> str:
    """Return the name of an XML element with its usual prefix, for example ``w:p``.

    The result is an empty string for comments and entities.
    """
    return _short(element.tag) if isinstance(element.tag, str) else ""


def descendants(element: etree._Element, *names: str) -> Iterator[etree._Element]:
    """Yield all elements of a subtree, including the root, that have one of the names."""
    return element.iter(*(f"{{{uri}}}{local}" for name in names for uri, local in _written(name)))


def contains_any(element: etree._Element, *names: str) -> bool:
    """Return True if the element itself or a descendant has one of the names."""
    return next(descendants(element, *names), None) is not None


def _written(name: str) -> Iterator[tuple[str, str]]:
    prefix, _, local = name.partition(":")
    return ((uri, local) for uri, short in _PREFIXES.items() if short == prefix)


def child(element: etree._Element | None, *path: str) -> etree._Element | None:
    """Return the element at a path of child names, or None if it does not exist.

    For each name of the path, the first child with this name is used.
    """
    for name in path:
        if element is None:
            return None
        element = next((one for one in element if tag_of(one) == name), None)
    return element


def attribute(element: etree._Element | None, name: str = "val") -> str:
    """Return the value of a WordprocessingML attribute.

    The result is an empty string if the element or the attribute does not exist.
    """
    if element is None:
        return ""
    return element.get(_W + name) or element.get(_W_STRICT + name) or ""


def value(element: etree._Element | None, *path: str) -> str:
    """Return the attribute ``w:val`` of the element at a path of child names.

    The result is an empty string if the element or the attribute does not exist.
    """
    return attribute(child(element, *path))


def number(text: str) -> int | None:
    """Parse an integer of up to nine digits, or return None for other text."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text, re.ASCII) else None


def is_on(element: etree._Element | None) -> bool | None:
    """Return the state of a toggle property such as ``w:vanish``, or None if it is not set."""
    return None if element is None else attribute(element) not in {"0", "false", "off"}


def fonts_of(properties: etree._Element | None) -> dict[str, str]:
    """Return the fonts in the properties of a run or of a style.

    The key "ascii" has the font of ASCII characters, and "hAnsi" that of other characters. The font is an empty string
    if it is defined by the theme of the document.
    """
    element = child(properties, "w:rFonts")
    return {
        slot: "" if attribute(element, f"{slot}Theme") else font
        for slot in ("ascii", "hAnsi")
        if (font := attribute(element, slot)) or attribute(element, f"{slot}Theme")
    }


@dataclass(frozen=True, slots=True)
class Style:
    """Paragraph style, including the properties that it inherits.

    `level` is the outline level, or None for body text. `script` is "superscript", "subscript" or an empty string.
    `fonts` has the font of ASCII characters ("ascii") and that of other characters ("hAnsi").
    """

    level: int | None = None
    is_title: bool = False
    is_contents: bool = False
    is_code: bool = False
    is_caption: bool = False
    is_hidden: bool = False
    list_id: str = ""
    list_level: int | None = None
    script: str = ""
    fonts: dict[str, str] = field(default_factory=dict)


class Styles:
    """Collection of the styles of a DOCX document, selected by id."""

    def __init__(self, root: etree._Element | None) -> None:
        found = [element for element in root if tag_of(element) == "w:style"] if root is not None else []
        self._elements = {attribute(element, "styleId"): element for element in found}
        self._default = next(
            (
                attribute(element, "styleId")
                for element in found
                if attribute(element, "type") == "paragraph" and attribute(element, "default") in {"1", "true", "on"}
            ),
            "",
        )
        self._known: dict[str, Style] = {}

    def of(self, style_id: str) -> Style:
        """Return the style with this id, or the default style for an empty id."""
        style_id = style_id or self._default
        if style_id not in self._known:
            self._known[style_id] = self._resolve(style_id)
        return self._known[style_id]

    def _chain(self, style_id: str) -> Iterator[tuple[str, etree._Element | None]]:
        seen: set[str] = set()
        while style_id and style_id not in seen and len(seen) < _MAX_CHAIN:
            seen.add(style_id)
            element = self._elements.get(style_id)
            # Documents without style definitions use the ids of built-in styles.
            yield value(element, "w:name") or style_id, element
            style_id = value(element, "w:basedOn")

    def _resolve(self, style_id: str) -> Style:
        chain = list(self._chain(style_id))
        names = [name for name, _ in chain]
        scripts = (value(element, "w:rPr", "w:vertAlign") for _, element in chain)
        hidden = (is_on(child(element, "w:rPr", "w:vanish")) for _, element in chain)
        lists = [child(element, "w:pPr", "w:numPr") for _, element in chain]
        return Style(
            level=next((level for level in map(_level, chain) if level is not None), None),
            is_title=any(name.casefold() == "title" for name in names),
            is_contents=any(_CONTENTS.fullmatch(name) for name in names),
            is_code=any(_CODE.fullmatch(name) for name in names),
            is_caption=any(_CAPTION.fullmatch(name) for name in names),
            is_hidden=next((state for state in hidden if state is not None), False),
            list_id=next((found for one in lists if (found := value(one, "w:numId"))), ""),
            script=next(filter(None, scripts), ""),
            fonts={
                slot: font for _, element in reversed(chain) for slot, font in fonts_of(child(element, "w:rPr")).items()
            },
            list_level=next((level for one in lists if (level := number(value(one, "w:ilvl"))) is not None), None),
        )


def _level(style: tuple[str, etree._Element | None]) -> int | None:
    name, element = style
    outline = number(value(element, "w:pPr", "w:outlineLvl"))
    heading = _HEADING.fullmatch(name)
    return outline if outline is not None else int(heading[1]) - 1 if heading else None


def heading_level(properties: etree._Element | None, style: Style) -> int | None:
    """Return the outline level of a heading, counted from 0, or None for body text."""
    outline = number(value(properties, "w:outlineLvl"))
    level = style.level if outline is None else outline
    return None if level is None or level >= _BODY_OUTLINE_LEVEL else level
