"""Says a text otherwise where a pronunciation dictionary does; the page's twin is assets/js/pronouncing.js.

A word is found where it stands whole, the longest first, and nothing is replaced twice. As it is written comes before
any other case. A text that grows is held back where a word may end, or begin, that is not known yet.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import regex

Entry = tuple[str, str]  # a word, and how it is said

# What is written without spaces between words: such a word may begin and end anywhere.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_A_WORD = rf"(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}]"
_WORD_LIKE = regex.compile(_IN_A_WORD)
_FLAGS = regex.V0 | regex.IGNORECASE  # V0: one character folds to one, as in JavaScript
_LOOKS_BACK = 2  # characters before a word that tell whether it stands whole


class Dictionary:
    """How words are said.

    Args:
        entries: the first of one word holds.
        apart: a pattern of what is none of the text, and left alone; empty: all is text.
    """

    def __init__(self, entries: Iterable[Entry], apart: str = "") -> None:
        listed = list(entries)
        self._written = {_spaced(word): said for word, said in reversed(listed)}
        self._folded = {_fold(word): said for word, said in reversed(listed)}
        forms = {unicodedata.normalize(form, word) for word, _ in listed for form in ("NFC", "NFD")}
        longest_first = sorted(forms, key=len, reverse=True)
        self.longest = max((len(" ".join(form.split())) for form in forms), default=0)
        self.apart = regex.compile(apart, _FLAGS) if apart else None
        words = "|".join(_before(word) + _middle(word) + _behind(word) for word in longest_first) or "(?!)"
        self.finder = regex.compile(f"{apart}|({words})" if apart else f"({words})", _FLAGS)
        begun = "|".join(_before(word) + _middle(word) + _may_follow(word) for word in longest_first) or "(?!)"
        self.begun = regex.compile(begun, _FLAGS)

    def said(self, found: regex.Match[str]) -> str:
        """What is said in the place of what ``finder`` found."""
        word = found[1]
        if word is None:  # it stands apart
            return str(found[0])
        return str(self._written.get(_spaced(word)) or self._folded.get(_fold(word)) or word)


class GrowingPronunciation:
    """One text. What the methods return, joined, is the same for any pieces, as long as nothing is flushed between."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._text = ""  # the last that was given out, and what was not
        self._given = 0  # characters of it

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        self._text += text
        return self._give(min(self._begun_word(), self._begun_apart()))

    def flush(self) -> str:
        """Return what was held back, as if the text ended here, but for what is no text."""
        return self._give(self._begun_apart())

    def finish(self) -> str:
        """Return what was held back."""
        return self._give(len(self._text))

    def _begun_word(self) -> int:
        """Where the first word begins that more text may make another; the end of the text where none does."""
        start, room, was_space = len(self._text), self._dictionary.longest + 1, False
        first = start
        while start > self._given and room >= 0:
            start -= 1
            is_space = self._text[start].isspace()
            room -= not (is_space and was_space)
            was_space = is_space
            if self._dictionary.begun.fullmatch(self._text, start, partial=True):
                first = start
        return first

    def _begun_apart(self) -> int:
        """The same of what stands apart, which begins with a bracket."""
        start = self._text.rfind("[", self._given)
        apart = self._dictionary.apart
        if apart is None or start < 0:
            return len(self._text)
        found = apart.fullmatch(self._text, start, partial=True)
        return start if found is not None and found.partial else len(self._text)

    def _give(self, end: int) -> str:
        """Return all before a place, and the words that begin there."""
        parts: list[str] = []
        at = self._given
        for found in self._dictionary.finder.finditer(self._text, at):
            if found.start() >= end:
                break
            parts += self._text[at : found.start()], self._dictionary.said(found)
            at = found.end()
        parts.append(self._text[at:end])
        at = max(at, end)
        kept = max(0, at - _LOOKS_BACK)
        self._text, self._given = self._text[kept:], at - kept
        return "".join(parts)


def pronounced(text: str, entries: Iterable[Entry], apart: str = "") -> tuple[str, int]:
    """Return a text as it is to be spoken, and how many places of it are said otherwise."""
    dictionary, count = dictionary_of(tuple(entries), apart), 0

    def said(found: regex.Match[str]) -> str:
        nonlocal count
        other = dictionary.said(found)
        count += other != found[0]
        return other

    return dictionary.finder.sub(said, text), count


@lru_cache(32)
def dictionary_of(entries: tuple[Entry, ...], apart: str) -> Dictionary:
    """Return a dictionary, read once for many texts."""
    return Dictionary(entries, apart)


def _middle(word: str) -> str:
    return r"\s+".join(regex.escape(part) for part in word.split())


def _before(word: str) -> str:
    """What may not stand before a word."""
    if not _WORD_LIKE.match(word[0]):
        return ""
    return f"(?<!{_IN_A_WORD})" + (r"(?<!\p{N}[.,])" if _is_number(word[0]) else "")  # 3 is not in 3.5


def _behind(word: str) -> str:
    """What may not stand behind it."""
    if not _WORD_LIKE.match(word[-1]):
        return ""
    return f"(?!{_IN_A_WORD})" + (r"(?![.,]\p{N})" if _is_number(word[-1]) else "")


def _may_follow(word: str) -> str:
    """What may come behind it and tell nothing yet."""
    return "[.,]?" if _is_number(word[-1]) else ""


def _is_number(character: str) -> bool:
    return unicodedata.category(character).startswith("N")


def _spaced(word: str) -> str:
    return " ".join(unicodedata.normalize("NFC", word).split())


def _fold(word: str) -> str:
    return _spaced(word).upper().lower()
