"""Reads and writes lexicons of the W3C's Pronunciation Lexicon Specification (PLS 1.0), as far as aliases go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex
from lxml import etree

from runtime.pronunciations.dictionary import LONGEST_SAID, LONGEST_WORD, MAX_BYTES, MOST_WORDS, Word

MEDIA_TYPE = "application/pls+xml"
_SPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_NOT_IN_XML = regex.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def read_lexicon(data: bytes) -> tuple[Word, ...]:
    """The words of a lexicon, each as it is written: a grapheme of it is not folded.

    Raises:
        ValueError: it is no lexicon, too large, or says a word in phonemes. The text of the error says which.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise ValueError("it is not XML") from None
    if root.getroottree().docinfo.doctype:
        raise ValueError("it has a DOCTYPE, which a lexicon needs none of")
    if etree.QName(root).localname != "lexicon":
        raise ValueError("its outermost element is no lexicon")
    words = tuple(word for lexeme in _inside(root, "lexeme") for word in _words(lexeme))
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"it must have 1 to {MOST_WORDS} words")
    return words


def write_lexicon(words: Iterable[Word]) -> bytes:
    """A lexicon of these words. It cannot say that a word is found in any case."""
    root = etree.Element(
        f"{{{_SPACE}}}lexicon", {"version": "1.0", "alphabet": "ipa", _LANGUAGE: "und"}, nsmap={None: _SPACE}
    )
    for word in words:
        lexeme = etree.SubElement(root, f"{{{_SPACE}}}lexeme")
        etree.SubElement(lexeme, f"{{{_SPACE}}}grapheme").text = _NOT_IN_XML.sub("", word.word)
        etree.SubElement(lexeme, f"{{{_SPACE}}}alias").text = _NOT_IN_XML.sub("", word.say_as)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def _words(lexeme: etree._Element) -> Iterator[Word]:
    said = next((_text(alias) for alias in _inside(lexeme, "alias")), None)
    if said is None:
        raise ValueError("a word in it has no alias; phonemes are not spoken here")
    for grapheme in _inside(lexeme, "grapheme"):
        written = _text(grapheme)
        if not (1 <= len(written) <= LONGEST_WORD and 1 <= len(said) <= LONGEST_SAID):
            raise ValueError(f"a word has 1 to {LONGEST_WORD} characters, and its alias 1 to {LONGEST_SAID}")
        yield Word(written, said, case_sensitive=True)


def _inside(parent: etree._Element, name: str) -> Iterator[etree._Element]:
    """Its elements of that name, whatever their namespace: few writers of lexicons say it."""
    return (child for child in parent if isinstance(child.tag, str) and etree.QName(child).localname == name)


def _text(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())
