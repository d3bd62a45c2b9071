"""Text rows of a PDF page with positions and font sizes, assembled from pypdf's fragments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from studio.documents.values import scripted

_MAX_SMALL_DIGIT_RATIO = 0.85  # Maximum size of raised or lowered digits relative to the letters of the same row.
_UNUSUAL = re.compile(r"/(?!a\d).*[\d_.].*")
_LIGATURE = re.compile(r"/[A-Za-z](?:_[A-Za-z])+")
_UNDRAWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(slots=True)
class Row:
    """Text row of a page, with coordinates and font size in points from the lower left corner."""

    text: str = ""
    x: float = 0.0
    y: float = 0.0
    size: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Return the text without digits and the rounded height, equal for all running titles."""
        return re.sub(r"\d+", "#", self.text.casefold()).strip(), round(self.y / 4)


@dataclass(slots=True)
class PageRows:
    """Collector of a page's text rows, whose method `add` is a visitor for pypdf."""

    rows: list[Row] = field(default_factory=list)
    unmapped: int = 0  # Number of glyphs that the file does not map to a character.
    _row: Row = field(default_factory=Row)

    def add(self, text: str, matrix: list[float], text_matrix: list[float], font: Any, font_size: float) -> None:
        """Add a text fragment of pypdf, in which each line break ends a row."""
        if "/" in text:
            for name in _glyph_names(font):
                letters = name[1:].replace("_", "") if _LIGATURE.fullmatch(name) else ""
                self.unmapped += 0 if letters else text.count(name)
                text = text.replace(name, letters)
        x = text_matrix[4] * matrix[0] + text_matrix[5] * matrix[2] + matrix[4]
        y = text_matrix[4] * matrix[1] + text_matrix[5] * matrix[3] + matrix[5]
        size = abs(font_size * (text_matrix[3] or text_matrix[1]) * (matrix[3] or matrix[1]))
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end_row()
            self._add_part(part, x, y, size)

    def finish(self) -> list[Row]:
        """Return all rows of the page, in the order of the file."""
        self._end_row()
        return self.rows

    def _add_part(self, text: str, x: float, y: float, size: float) -> None:
        row = self._row
        if not text.strip():
            row.text += text
            return
        if not row.text.strip():
            row.x, row.y, row.size = x, y, size
        elif size < _MAX_SMALL_DIGIT_RATIO * row.size and text.strip().isdecimal():
            text = scripted(text, "superscript" if y > row.y else "subscript")
        row.size = max(row.size, size)
        row.text += text

    def _end_row(self) -> None:
        row, self._row = self._row, Row()
        text, count = _UNDRAWN.subn(" ", row.text)
        self.unmapped += count
        row.text = text.strip()
        if row.text:
            self.rows.append(row)


def _glyph_names(font: Any) -> list[str]:
    """Return the unusual glyph names of a font, which pypdf returns as text, longest first."""
    # The index operator of pypdf resolves references, but `get` does not.
    encoding = font["/Encoding"] if font and "/Encoding" in font else None
    differences = encoding["/Differences"] if isinstance(encoding, dict) and "/Differences" in encoding else ()
    names = {name for name in differences if isinstance(name, str) and _UNUSUAL.fullmatch(name)}
    return sorted(names, key=len, reverse=True)
