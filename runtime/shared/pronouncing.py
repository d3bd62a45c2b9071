"""Says a text otherwise where a pronunciation dictionary does; the page's twin is assets/js/speak/pronunciation.js.

A word is found where it stands whole, the longest first, and nothing is replaced twice. As it is written comes before
any other case. A text that grows is held back where a word may end, or begin, that is not known yet.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache

import regex

# A word, and how it is said; True behind these: in no other case than it is written.
Entry = tuple[str, str] | tuple[str, str, bool]

# What is written without spaces between words: such a word may begin and end anywhere.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_A_WORD = rf"(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}]"
_WORD_LIKE = regex.compile(_IN_A_WORD)
_MAX_GAP = 8  # White space between two words of an entry.
_GAP = rf"\s{{1,{_MAX_GAP}}}"
_FLAGS = regex.V0 | regex.IGNORECASE  # V0: one character folds to one, as in JavaScript
_DEPTH = 8  # characters that words share a branch for
_LOOKS_BACK = 2  # characters before a word that tell whether it stands whole


class Dictionary:
    """How words are said.

    Args:
        entries: the first of one word holds.
        apart: a pattern of what is none of the text, and left alone; empty: all is text.
    """

    def __init__(self, entries: Iterable[Entry], apart: str = "") -> None:
        listed = [entry if len(entry) == 3 else (*entry, False) for entry in entries]
        self._written = {_spaced(word): said for word, said, _ in reversed(listed)}
        self._folded = {_fold(word): said for word, said, is_exact in reversed(listed) if not is_exact}
        forms = {
            (_one_spaced(unicodedata.normalize(form, word)), is_exact)
            for word, _, is_exact in listed
            for form in ("NFC", "NFD")
        }
        self.longest = max((len(form) + (_MAX_GAP - 1) * form.count(" ") for form, _ in forms), default=0)
        self.apart = regex.compile(apart, _FLAGS) if apart else None
        words = pattern_of(forms, _behind)
        self.finder = regex.compile(f"{apart}|({words})" if apart else f"({words})", _FLAGS)
        self.begun = regex.compile(pattern_of(forms, _may_follow), _FLAGS)

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
        end, begun = len(self._text), self._dictionary.begun
        starts = range(max(self._given, end - self._dictionary.longest - 1), end)
        return next((start for start in starts if begun.fullmatch(self._text, start, partial=True)), end)

    def _begun_apart(self) -> int:
        """The same of what stands apart, which begins with a bracket."""
        text, apart = self._text, self._dictionary.apart
        if apart is None:
            return len(text)
        starts = sorted(text.rfind(bracket, self._given) for bracket in "[<")
        begun = ((start, apart.fullmatch(text, start, partial=True)) for start in starts if start >= 0)
        return next((start for start, found in begun if found is not None and found.partial), len(text))

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


def pattern_of(words: Iterable[tuple[str, bool]], end: Callable[[str], str]) -> str:
    """Return what finds these words, each exactly as it is written or in any case; ``end`` is behind each."""
    listed = [
        (word, (f"(?<=(?-i:{_middle(word)}))" if is_exact else "") + end(word)) for word, is_exact in sorted(words)
    ]
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # by what has to hold around them
    for those in _by_first(listed):
        before, ends = _before(those[0][0][0]), {end for _, end in those}
        if len(ends) == 1:
            alike[before, ends.pop()].append(_tree([(word, "") for word, _ in those], _DEPTH))
        else:
            alike[before, ""].append(_tree(those, _DEPTH))
    return "|".join(f"{before}(?:{'|'.join(found)}){end}" for (before, end), found in alike.items()) or "(?!)"


def _tree(words: list[tuple[str, str]], depth: int) -> str:
    """What finds one of these, each with what has to hold behind it, the longest first.

    Words that begin alike share a branch, because a list would be tried word by word at every place of a text. It ends
    at a depth: regular expressions are compiled by recursion.
    """
    going = [(word, end) for word, end in words if word]
    if depth:
        options = [
            _letter({word[0] for word, _ in those}) + _tree([(word[1:], end) for word, end in those], depth - 1)
            for those in _by_first(going)
        ]
    else:
        options = [_middle(word) + end for word, end in sorted(going, key=lambda item: -len(item[0]))]
    options += sorted({end for word, end in words if not word})
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"


def _by_first(words: Iterable[tuple[str, str]]) -> Iterable[list[tuple[str, str]]]:
    """The words by their first character, in whatever case."""
    groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for word, end in words:
        groups[_key(word[0])].append((word, end))
    return groups.values()


def _letter(cases: set[str]) -> str:
    """What finds a character in the cases in which it was written."""
    if cases == {" "}:
        return _GAP
    letters = [regex.escape(character) for character in sorted(cases)]
    return letters[0] if len(letters) == 1 else f"[{''.join(letters)}]"


def _key(character: str) -> str:
    """What the cases of a character share."""
    folded = character.upper().lower()
    return folded if len(folded) == 1 else character


def _middle(word: str) -> str:
    return _GAP.join(regex.escape(part) for part in word.split(" "))


def _before(first: str) -> str:
    """What may not stand before a word that begins with this character."""
    if not _WORD_LIKE.match(first):
        return ""
    return f"(?<!{_IN_A_WORD})" + (r"(?<!\p{N}[.,])" if _is_number(first) else "")  # 3 is not in 3.5


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
    return _one_spaced(unicodedata.normalize("NFC", word))


def _one_spaced(word: str) -> str:
    return " ".join(word.split())


def _fold(word: str) -> str:
    return _spaced(word).upper().lower()
