"""Conversion of characters in the symbol fonts of a DOCX file to Unicode.

Word stores a character of a symbol font as U+F000 plus its code. Other programs store it as an ASCII character. Both
forms are converted to the same Unicode character, as in pandoc and LibreOffice.
"""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from studio.documents.docx.styles import Styles, child, descendants, fonts_of, tag_of, value

# Characters of Adobe's Symbol font from U+0020 and from U+00A0 on. U+F0F0 has no character.
_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\uf0f0〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
_SYMBOLS = dict(enumerate(_LOW, 0x20)) | dict(enumerate(_HIGH, 0xA0))
_PICTURE_FONTS = frozenset({"wingdings", "wingdings 2", "wingdings 3", "webdings", "zapfdingbats", "zapf dingbats"})
_PRIVATE = 0xF000  # Code point of the first character of a symbol font.


def symbol_of(font: str, code: int) -> str:
    """Return the Unicode character that a symbol font shows for a character code.

    The result is a private-use character if Unicode has no character for the symbol.
    """
    return (_SYMBOLS.get(code) if font.lower() == "symbol" else None) or chr(_PRIVATE + code)


def convert_symbols(root: etree._Element, styles: Styles) -> None:
    """Replace all characters in symbol fonts by Unicode characters, in the XML tree `root`."""
    for run in dict.fromkeys(_runs_with_symbols(root, styles)):
        paragraph = next((one for one in run.iterancestors() if tag_of(one) == "w:p"), None)
        fonts = (
            styles.of(value(paragraph, "w:pPr", "w:pStyle")).fonts
            | (styles.of(style).fonts if (style := value(run, "w:rPr", "w:rStyle")) else {})
            | fonts_of(child(run, "w:rPr"))
        )
        for element in run:
            if tag_of(element) == "w:t" and element.text:
                element.text = "".join(_converted(character, fonts) for character in element.text)


def _runs_with_symbols(root: etree._Element, styles: Styles) -> Iterator[etree._Element]:
    """Yield the runs with a symbol font, set directly or by a style."""
    for element in descendants(root, "w:rFonts", "w:rStyle", "w:pStyle"):
        properties = element.getparent()
        owner = None if properties is None else properties.getparent()
        if owner is None or tag_of(properties) not in {"w:rPr", "w:pPr"}:
            continue
        is_direct = tag_of(element) == "w:rFonts"
        if has_symbols(fonts_of(properties) if is_direct else styles.of(value(element)).fonts):
            yield from (owner,) if tag_of(owner) == "w:r" else descendants(owner, "w:r")


def has_symbols(fonts: dict[str, str]) -> bool:
    return any(font == "symbol" or font in _PICTURE_FONTS for font in map(str.lower, fonts.values()))


def _converted(character: str, fonts: dict[str, str]) -> str:
    code = ord(character)
    if character.isascii():
        font = fonts.get("ascii", "")
        is_shown = not character.isspace() and has_symbols({"ascii": font})
        return symbol_of(font, code) if is_shown else character
    is_private = _PRIVATE + 0x20 <= code < _PRIVATE + 0x100
    return symbol_of(fonts.get("hAnsi") or fonts.get("ascii", ""), code - _PRIVATE) if is_private else character
