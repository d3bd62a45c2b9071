"""Text rows of a PDF page with positions and font sizes, assembled from pypdf's fragments."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pypdf import PageObject
from pypdf._cmap import _predefined_cmap
from pypdf.errors import PyPdfError
from pypdf.generic import (
    ArrayObject,
    ByteStringObject,
    ContentStream,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    StreamObject,
)

from studio.documents.values import scripted

Operation = tuple[list[Any], bytes]  # Operands and operator of a content stream.

_SHOWING = (b"Tj", b"TJ", b"'", b'"')
_PLACING = (b"BT", b"Td", b"TD", b"Tm", b"T*")
_OVERPRINT_RATIO = 0.05  # Grid cell size for detecting overprints, relative to the font size.
_MIN_SIZE = 0.1  # Minimum font size in points for detecting overprints.
_MAX_POINTS = 100_000.0
# Encodings of Chinese, Japanese and Korean fonts (ISO 32000-1, table 118) that pypdf does not support.
_CODECS = {
    "gbk": ("GBpc-EUC", "GBKp-EUC"),
    "big5hkscs": ("HKscs-B5", "ETHK-B5"),
    "cp950": ("B5pc",),
    "cp932": ("83pv-RKSJ", "90msp-RKSJ", "90pv-RKSJ", "Add-RKSJ", "Ext-RKSJ"),
    "euc_jp": ("EUC",),
    "cp949": ("KSC-EUC", "KSCms-UHC", "KSCms-UHC-HW", "KSCpc-EUC"),
    "johab": ("KSC-Johab",),
    "utf-8": ("UniCNS-UTF8", "UniGB-UTF8", "UniJIS-UTF8", "UniKS-UTF8"),
    "utf-32-be": ("UniCNS-UTF32", "UniGB-UTF32", "UniJIS-UTF32", "UniKS-UTF32"),
}
_predefined_cmap.update({"/H": "jis_pairs", "/V": "jis_pairs"})
_predefined_cmap.update(
    {f"/{name}-{direction}": codec for codec, names in _CODECS.items() for name in names for direction in "HV"}
)
_UTF_16 = re.compile(r"/\w+-(?:UCS2|UTF16)-")
_TO_SPACE = re.compile(rb">\s*<0020>")  # Entry of a table that maps a code to a space.
_MAX_SMALL_DIGIT_RATIO = 0.85  # Maximum size of raised or lowered digits relative to the letters of the same row.
_UNUSUAL = re.compile(r"/(?!a\d).*[\d_.].*")
_LIGATURE = re.compile(r"/[A-Za-z](?:_[A-Za-z])+")
_UNDRAWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_HIDDEN_FIELD = 2 | 32  # Flags of annotations that are hidden or not viewed (ISO 32000-1, table 165).
_PASSWORD_FIELD = 2**13
_FIELD_SIZE = 10.0  # Size in points of the letters of form fields on a page without text.


def _jis_pairs(name: str) -> codecs.CodecInfo | None:
    """Codec of JIS X 0208, which is EUC-JP without the high bits."""

    def decode(data: Any, errors: str = "strict") -> tuple[str, int]:
        return bytes(byte | 0x80 for byte in bytes(data)).decode("euc_jp", errors), len(data)

    return codecs.CodecInfo(codecs.lookup("euc_jp").encode, decode, name=name) if name == "jis_pairs" else None


codecs.register(_jis_pairs)


@dataclass(slots=True)
class Row:
    """Text row of a PDF page.

    `x`, `y` and the font `size` are in points. The origin is the lower left corner of the page.
    """

    text: str = ""
    x: float = 0.0
    y: float = 0.0
    size: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Return a key to find running titles, which are equal on several pages.

        The key consists of the text with placeholders for numbers, and the rounded height on the page.
        """
        return re.sub(r"\d+", "#", self.text.casefold()).strip(), round(self.y / 4)

    def is_beside(self, y: float, size: float) -> bool:
        """Return True if text at the height `y` is next to the form field of this row.

        `y` and the font `size` of the text are in points.
        """
        return self.y - size / 2 <= y <= self.y + self.size


@dataclass(slots=True)
class PageRows:
    """Collector of the text rows of one PDF page."""

    rows: list[Row] = field(default_factory=list)
    unmapped: int = 0  # Number of glyphs that the file does not map to a character.
    check_marks: int = 0  # Number of check boxes and radio buttons that are set.
    _row: Row = field(default_factory=Row)
    _fields: list[Row] = field(default_factory=list)  # Values of form fields, whose size is the height of the field.
    _printed: dict[tuple[int, int], bytes] = field(default_factory=dict)  # Texts by their position on the page.
    _font_size: float = 0.0
    _is_placed: bool = False  # False if the text directly follows the previous text.

    def read(self, page: PageObject) -> None:
        """Read the text rows of a PDF page, in the order in which the file draws them."""
        for annotation in page.annotations or ():
            try:
                self._add_field(annotation.get_object())
            except (PyPdfError, AttributeError, LookupError, TypeError, ValueError):
                self.unmapped += 1
        self._fields.sort(key=lambda field: (-field.y, field.x))
        try:
            _prepare(page)
            page.extract_text(visitor_operand_before=self._clear_overprint, visitor_text=self._add)
        finally:
            self._end_row()
        for filled in self._fields:
            self._place_field(filled)

    def _clear_overprint(self, operator: bytes, operands: list[Any], matrix: list[float], text: list[float]) -> None:
        """Remove a text that is printed again at almost the same position.

        Some programs do this to simulate bold letters.

        Args:
            matrix: Matrix of the page or form.
            text: Matrix of the text.
        """
        if operator == b"Tf" and len(operands) > 1 and isinstance(operands[1], (int, float)):
            self._font_size = operands[1]
        elif operator == b"Do":  # This operator draws a form, which has its own coordinates.
            self._printed.clear()
        self._is_placed |= operator in _PLACING
        if operator not in _SHOWING:
            return
        shown = _shown(operands)
        x, y, size = _place(matrix, text, self._font_size)
        if self._is_placed and shown and size > _MIN_SIZE and max(abs(x), abs(y)) < _MAX_POINTS:
            column, row = round(x / (_OVERPRINT_RATIO * size)), round(y / (_OVERPRINT_RATIO * size))
            near = ((column + right, row + up) for right in (-1, 0, 1) for up in (-1, 0, 1))
            printed = max((self._printed.get(place, b"") for place in near), key=len)
            self._printed[column, row] = max(shown, printed, key=len)
            if printed.startswith(shown):
                operands.clear()
            elif printed and shown.startswith(printed):
                _remove_start(operands, len(printed))
        self._is_placed = False

    def _add(self, text: str, matrix: list[float], text_matrix: list[float], font: Any, font_size: float) -> None:
        """Add a text fragment of pypdf, in which each line break ends a row."""
        if font and _has_only_glyph_numbers(font):
            self.unmapped += len(text) - text.count("\n") - text.count(" ")
            text = re.sub(r"[^\n]+", " ", text)
        if "/" in text:
            for name in _glyph_names(font):
                letters = name[1:].replace("_", "") if _LIGATURE.fullmatch(name) else ""
                self.unmapped += 0 if letters else text.count(name)
                text = text.replace(name, letters)
        x, y, size = _place(matrix, text_matrix, font_size)
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end_row()
            self._add_part(part, x, y, size)

    def _add_part(self, text: str, x: float, y: float, size: float) -> None:
        row = self._row
        if not text.strip():
            row.text += text
            return
        if not row.text.strip():
            row.x, row.y, row.size = x, y, size
        elif size < _MAX_SMALL_DIGIT_RATIO * row.size and text.strip().isdecimal():
            text = scripted(text, "superscript" if y > row.y else "subscript")
        before = [filled for filled in self._fields if filled.is_beside(y, size) and row.x <= filled.x < x]
        for filled in before if row.text else ():
            row.text += f" {' '.join(filled.text.split())} "
            self._fields.remove(filled)
        row.size = max(row.size, size)
        row.text += text

    def _add_field(self, field: DictionaryObject) -> None:
        """Collect the value of a form field, which is not part of the page's content."""
        if field.get("/Subtype") != "/Widget" or field.get("/F", 0) & _HIDDEN_FIELD:
            return
        kind, flags, value = (field.get_inherited(key) for key in ("/FT", "/Ff", "/V"))
        if kind == "/Btn":
            self.check_marks += field.get("/AS", "/Off") != "/Off"
        if kind not in {"/Tx", "/Ch"} or (flags or 0) & _PASSWORD_FIELD or not value:
            return
        if isinstance(value, StreamObject):
            value = value.get_data().decode("utf-8", "replace")
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        left, bottom, right, top = map(float, field["/Rect"])
        self._fields.append(Row(text, min(left, right), min(bottom, top), abs(top - bottom)))

    def _place_field(self, field: Row) -> None:
        """Append the text of a form field to the row on its left, or insert it as new rows."""
        before = [row for row in self.rows if field.is_beside(row.y, row.size) and row.x <= field.x]
        if before:
            row = max(before, key=lambda row: row.x)
            row.text += f" {' '.join(field.text.split())}"
            return
        above = max((number for number, row in enumerate(self.rows, 1) if row.y > field.y), default=0)
        size = self.rows[-1].size if self.rows else _FIELD_SIZE
        lines = [line.strip() for line in field.text.splitlines()]
        self.rows[above:above] = [Row(line, field.x, field.y, size) for line in lines if line]

    def _end_row(self) -> None:
        row, self._row = self._row, Row()
        text, count = _UNDRAWN.subn(" ", row.text)
        self.unmapped += count
        row.text = text.strip()
        if row.text:
            self.rows.append(row)


def _place(matrix: list[float], text: list[float], font_size: float) -> tuple[float, float, float]:
    """Return the position of a text on the page, and the size of its letters."""
    x = text[4] * matrix[0] + text[5] * matrix[2] + matrix[4]
    y = text[4] * matrix[1] + text[5] * matrix[3] + matrix[5]
    return x, y, abs(font_size * (text[3] or text[1]) * (matrix[3] or matrix[1]))


def _shown(operands: list[Any]) -> bytes:
    """Return the bytes of a text (not necessarily characters)."""
    strings = operands[0] if operands and isinstance(operands[0], list) else operands
    return b"".join(one for one in strings if isinstance(one, bytes))


def _remove_start(operands: list[Any], count: int) -> None:
    strings = operands[0] if isinstance(operands[0], list) else operands
    for at, one in enumerate(strings):
        if isinstance(one, bytes):
            strings[at] = ByteStringObject(one[count:])
            count = max(count - len(one), 0)


def _prepare(page: PageObject) -> None:
    """Correct the widths of spaces that pypdf would misinterpret."""
    with suppress(AttributeError, LookupError, TypeError):
        for font in page["/Resources"]["/Font"].values():
            _hide_false_space(font.get_object())
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        content = ContentStream(page["/Contents"], page.pdf, "bytes")
        content.operations = list(_with_word_spacing(content.operations))
        page[NameObject("/Contents")] = content


def _hide_false_space(font: Any) -> None:
    """Set the width of glyph 32 to zero if the font has no space.

    pypdf uses this width to detect spaces. XeTeX and LuaTeX write such fonts.
    """
    if font.get("/Subtype") == "/Type0" and "/ToUnicode" in font:
        of_glyphs = font["/DescendantFonts"][0]
        widths = of_glyphs.get("/W", ArrayObject()).get_object()
        no_width = [NumberObject(32), ArrayObject([NumberObject(0)])]
        if widths[-2:] != no_width and not _TO_SPACE.search(font["/ToUnicode"].get_data()):
            of_glyphs[NameObject("/W")] = ArrayObject([*widths, *no_width])


def _with_word_spacing(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Replace word spacing with character spacing of the same total width.

    pypdf ignores word spacing.
    """
    spacing, states = (0.0, 0.0), []
    for operands, operator in operations:
        if operator == b"Tc":
            spacing = (operands[0], spacing[1])
        elif operator == b"Tw":
            spacing = (spacing[0], operands[0])
        elif operator == b'"':
            spacing = (operands[1], operands[0])
        elif operator == b"q":
            states.append(spacing)
        elif operator == b"Q" and states:
            spacing = states.pop()
        text = _shown(operands) if operator in (b"Tj", b"TJ", b"'") and spacing[1] else b""
        # Word spacing does not apply to codes of two bytes.
        if text and b" " in text and b"\0" not in text:
            yield [FloatObject(spacing[0] + spacing[1] * text.count(b" ") / len(text))], b"Tc"
            yield operands, operator
            yield [FloatObject(spacing[0])], b"Tc"
        else:
            yield operands, operator


def _has_only_glyph_numbers(font: Any) -> bool:
    """True if pypdf would interpret the glyph numbers of a font as characters."""
    if font.get("/Subtype") != "/Type0" or "/ToUnicode" in font or "/Encoding" not in font:
        return False
    encoding = str(font["/Encoding"])
    is_read = encoding in _predefined_cmap and not encoding.startswith("/Identity-")
    return not is_read and not _UTF_16.match(encoding)


def _glyph_names(font: Any) -> list[str]:
    """Return the nonstandard glyph names of a font, longest first.

    pypdf returns these names as text.
    """
    # The index operator of pypdf resolves references, but `get` does not.
    encoding = font["/Encoding"] if font and "/Encoding" in font else None
    differences = encoding["/Differences"] if isinstance(encoding, dict) and "/Differences" in encoding else ()
    names = {name for name in differences if isinstance(name, str) and _UNUSUAL.fullmatch(name)}
    return sorted(names, key=len, reverse=True)
