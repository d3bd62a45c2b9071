"""Automatic numbers of lists and headings in a DOCX document."""

from __future__ import annotations

import re
from functools import cached_property

from lxml import etree

from studio.documents.docx.styles import Styles, attribute, child, is_on, number, tag_of, value

_ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl"}
_ROMAN |= {10: "x", 9: "ix", 5: "v", 4: "iv", 1: "i"}
_MAX_ROMAN = 4999
_HAN_DIGITS = "〇一二三四五六七八九"
_MAX_HAN = 99
_MAX_LETTERS = 26 * 3


class _List:
    """Numbered list, which is defined by one ``w:num`` element.

    Lists with the same definition share their counters.
    """

    def __init__(self, levels: dict[int, etree._Element], starts: dict[int, int], counters: dict[int, int]) -> None:
        self.levels = levels
        self.starts = starts
        self.counters = counters

    def start(self, level: int) -> int:
        found = number(value(self.levels.get(level), "w:start"))
        return 1 if found is None else found


class Numbering:
    """Counters that compute the automatic numbers of lists and headings in a DOCX document.

    Paragraphs must be counted in document order.
    """

    def __init__(self, root: etree._Element | None, styles: Styles) -> None:
        self._root = root
        self._styles = styles
        self._lists: dict[str, _List | None] = {}
        self._counters: dict[str, dict[int, int]] = {}

    def label(self, properties: etree._Element | None, style_id: str) -> str:
        """Increment the counter of a numbered paragraph, and return the number that Word shows.

        The result is an empty string for a bullet or a paragraph without a number.
        """
        style, own = self._styles.of(style_id), child(properties, "w:numPr")
        list_id = value(own, "w:numId") or style.list_id
        numbered = self._list(list_id)
        if numbered is None:
            return ""
        level = number(value(own, "w:ilvl"))
        if level is None:
            level = style.list_level
        if level is None:  # If the paragraph states no level, the list definition may assign its style to a level.
            level = next((at for at, one in numbered.levels.items() if value(one, "w:pStyle") == style_id), 0)
        self._count(numbered, level)
        return _format_level(numbered, level)

    @cached_property
    def _found(self) -> dict[tuple[str, str], etree._Element]:
        ids = {"w:num": "numId", "w:abstractNum": "abstractNumId"}
        elements = list(self._root) if self._root is not None else []
        return {
            (name, attribute(element, ids[name])): element for element in elements if (name := tag_of(element)) in ids
        }

    def _list(self, list_id: str) -> _List | None:
        if list_id not in self._lists:
            self._lists[list_id] = self._defined(list_id)
        return self._lists[list_id]

    def _defined(self, list_id: str) -> _List | None:
        num = self._found.get(("w:num", list_id))
        abstract_id = value(num, "w:abstractNumId")
        abstract = self._found.get(("w:abstractNum", abstract_id))
        if linked := value(abstract, "w:numStyleLink"):
            abstract_id = value(self._found.get(("w:num", self._styles.of(linked).list_id)), "w:abstractNumId")
            abstract = self._found.get(("w:abstractNum", abstract_id))
        if num is None or abstract is None:
            return None
        levels = _levels(abstract)
        starts: dict[int, int] = {}
        for override in num:
            level = number(attribute(override, "ilvl"))
            if level is not None:
                levels |= _levels(override)
                if (start := number(value(override, "w:startOverride"))) is not None:
                    starts[level] = start
        return _List(levels, starts, self._counters.setdefault(abstract_id, {}))

    def _count(self, numbered: _List, level: int) -> None:
        counters = numbered.counters
        for above in range(level):
            counters.setdefault(above, numbered.start(above))
        if level in numbered.starts:
            counters[level] = numbered.starts.pop(level)
        else:
            counters[level] = counters.get(level, numbered.start(level) - 1) + 1
        for below in [one for one in counters if one > level]:
            if value(numbered.levels.get(below), "w:lvlRestart") != "0":
                del counters[below]


def _levels(element: etree._Element) -> dict[int, etree._Element]:
    return {
        level: one
        for one in element
        if tag_of(one) == "w:lvl" and (level := number(attribute(one, "ilvl"))) is not None
    }


def _format_level(numbered: _List, level: int) -> str:
    definition = numbered.levels.get(level)
    if value(definition, "w:numFmt") == "bullet":
        return ""
    is_decimal = is_on(child(definition, "w:isLgl"))

    def counted(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        kind = "decimal" if is_decimal else value(numbered.levels.get(at), "w:numFmt")
        return in_numerals(numbered.counters.get(at, numbered.start(at)), kind)

    shown = re.sub(r"%([1-9])", counted, value(definition, "w:lvlText"))
    return shown if any(character.isalnum() for character in shown) else ""


def in_numerals(count: int, kind: str) -> str:
    """Format a number in a WordprocessingML number format such as ``lowerRoman``.

    Unknown formats return decimal digits.
    """
    if kind == "none":
        return ""
    text = str(count)
    if kind.endswith("Roman") and 0 < count <= _MAX_ROMAN:
        text, rest = "", count
        for worth, letters in _ROMAN.items():
            text += letters * (rest // worth)
            rest %= worth
    elif kind.endswith("Letter") and 0 < count <= _MAX_LETTERS:
        text = chr(ord("a") + (count - 1) % 26) * ((count + 25) // 26)
    elif "ounting" in kind and 0 < count <= _MAX_HAN:
        tens, ones = divmod(count, 10)
        text = (_HAN_DIGITS[tens] if tens > 1 else "") + "十" * (tens > 0) + (_HAN_DIGITS[ones] if ones else "")
    elif kind == "decimalZero":
        text = f"{count:02}"
    elif kind == "ordinal":
        teens = 10 < count % 100 < 14
        text += "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return text.upper() if kind.startswith("upper") else text
