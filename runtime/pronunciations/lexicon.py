"""Parser and writer of W3C pronunciation lexicons (PLS 1.0).

Only aliases are supported, not phonemes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex
from lxml import etree

from runtime.pronunciations.dictionary import MAX_BYTES, MAX_REPLACEMENT_CHARS, MAX_WORD_CHARS, MAX_WORDS, Word

MEDIA_TYPE = "application/pls+xml"
_SPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_TRUE = {"true", "1"}  # Values of an XML Schema boolean that mean true.
_MAX_NAMED = 10  # Maximum number of words that are listed in a message.
_UNUSABLE = (
    f"words without an alias (phonemes are not supported), of more than {MAX_WORD_CHARS} characters, with an "
    f"alias of more than {MAX_REPLACEMENT_CHARS}, or with another alias before"
)
_NOT_IN_XML = regex.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Usable and unusable words of a lexicon.

    Only text in exactly the same case matches `words`. `left_out` has the unusable words without duplicates.
    """

    words: tuple[Word, ...]
    left_out: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """Return a note about the words that were left out, or None."""
        return None if not self.left_out else f"Left out {_UNUSABLE}: {_listed(self.left_out)}."


def read_lexicon(data: bytes) -> Lexicon:
    """Parse a lexicon and return its usable words.

    Raises:
        ValueError: The file is not a lexicon, is too large, or has no usable words. The message has the reason.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise ValueError("it is not XML") from None
    if root.getroottree().docinfo.doctype:
        raise ValueError("it has a DOCTYPE, which is not allowed")
    if etree.QName(root).localname != "lexicon":
        raise ValueError("its outermost element is not lexicon")
    entries: dict[str, Word] = {}
    left_out: list[str] = []
    for lexeme in _inside(root, "lexeme"):
        aliases = sorted(_inside(lexeme, "alias"), key=lambda alias: alias.get("prefer") not in _TRUE)
        say_as = _text(aliases[0]) if aliases else ""
        for written in map(_text, _inside(lexeme, "grapheme")):
            entry = Word(written, say_as, case_sensitive=True)
            is_usable = 1 <= len(written) <= MAX_WORD_CHARS and 1 <= len(say_as) <= MAX_REPLACEMENT_CHARS
            # If a word has several entries, the first one is used, because a request does not say which one it needs.
            if not is_usable or entries.setdefault(written, entry) != entry:
                left_out.append(written)
    lexicon = Lexicon(tuple(entries.values()), tuple(dict.fromkeys(left_out)))
    if not entries and left_out:
        raise ValueError(f"it has no word that can be used, only {_UNUSABLE}: {_listed(lexicon.left_out)}")
    if not 1 <= len(entries) <= MAX_WORDS:
        raise ValueError(f"it must have 1 to {MAX_WORDS} words")
    return lexicon


def write_lexicon(words: Iterable[Word]) -> bytes:
    """Return the words as the content of a W3C pronunciation lexicon (PLS) in XML.

    The format cannot express that a word matches in any case.
    """
    root = etree.Element(
        f"{{{_SPACE}}}lexicon", {"version": "1.0", "alphabet": "ipa", _LANGUAGE: "und"}, nsmap={None: _SPACE}
    )
    for word in words:
        lexeme = etree.SubElement(root, f"{{{_SPACE}}}lexeme")
        etree.SubElement(lexeme, f"{{{_SPACE}}}grapheme").text = _NOT_IN_XML.sub("", word.word)
        etree.SubElement(lexeme, f"{{{_SPACE}}}alias").text = _NOT_IN_XML.sub("", word.say_as)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def _listed(words: Sequence[str]) -> str:
    """Return the first words, shortened, and the number of further words."""
    named = [word[:MAX_WORD_CHARS] or "(empty)" for word in words[:_MAX_NAMED]]
    more = len(words) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _inside(parent: etree._Element, name: str) -> Iterator[etree._Element]:
    """Yield the child elements with this name in any namespace.

    Many lexicons declare no namespace.
    """
    return (child for child in parent if isinstance(child.tag, str) and etree.QName(child).localname == name)


def _text(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())
