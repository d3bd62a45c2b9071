"""Replacement of words by pronunciation dictionaries; the page's version is assets/js/speak/pronunciation.js.

Only whole words match, the longest first, and no text is replaced twice. A match in exact case has precedence over
other cases. Growing text is held back while its end may be part of a word.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache

import regex

# A word, its replacement, and optionally True if it matches its exact case only.
Entry = tuple[str, str] | tuple[str, str, bool]

# Scripts without spaces between words, in which a word may start and end anywhere.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_A_WORD = rf"(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}]"
_WORD_LIKE = regex.compile(_IN_A_WORD)
_MAX_GAP = 8  # White space between two words of an entry.
_GAP = rf"\s{{1,{_MAX_GAP}}}"
_FLAGS = regex.V0 | regex.IGNORECASE  # V0 folds one character to one character, as JavaScript does.
_DEPTH = 8  # Maximum depth in characters of the pattern's prefix tree.
_LOOKS_BACK = 2  # Characters before a word that decide if it is a whole word.


class Dictionary:
    """Compiled replacements of words.

    Args:
        entries: Words with replacements; of duplicates the first is used.
        apart: A pattern of markup that is never replaced; empty if there is none.
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
        """Return the replacement of a match of `finder`."""
        word = found[1]
        if word is None:  # The match is markup.
            return str(found[0])
        return str(self._written.get(_spaced(word)) or self._folded.get(_fold(word)) or word)


class GrowingPronunciation:
    """Replacement in one growing text. Without flushes, the joined results do not depend on how the text is divided."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._text = ""  # Context characters that were returned, and the held text.
        self._given = 0  # Number of the returned characters in it.

    def add(self, text: str) -> str:
        """Append text and return the text that later text cannot change."""
        self._text += text
        return self._give(min(self._begun_word(), self._begun_apart()))

    def flush(self) -> str:
        """Return the held text as if the text ended here, except incomplete markup."""
        return self._give(self._begun_apart())

    def finish(self) -> str:
        """Return the held text."""
        return self._give(len(self._text))

    def _begun_word(self) -> int:
        """Return the start of the first word that later text may change; the end of the text if there is none."""
        end, begun = len(self._text), self._dictionary.begun
        starts = range(max(self._given, end - self._dictionary.longest - 1), end)
        return next((start for start in starts if begun.fullmatch(self._text, start, partial=True)), end)

    def _begun_apart(self) -> int:
        """Return the start of markup that later text may complete; the end of the text if there is none."""
        text, apart = self._text, self._dictionary.apart
        if apart is None:
            return len(text)
        starts = sorted(text.rfind(bracket, self._given) for bracket in "[<")
        begun = ((start, apart.fullmatch(text, start, partial=True)) for start in starts if start >= 0)
        return next((start for start, found in begun if found is not None and found.partial), len(text))

    def _give(self, end: int) -> str:
        """Return the replaced text before an index, including words that start before it."""
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
    """Return a text with replaced words, and the number of replacements."""
    dictionary, count = dictionary_of(tuple(entries), apart), 0

    def said(found: regex.Match[str]) -> str:
        nonlocal count
        other = dictionary.said(found)
        count += other != found[0]
        return other

    return dictionary.finder.sub(said, text), count


@lru_cache(32)
def dictionary_of(entries: tuple[Entry, ...], apart: str) -> Dictionary:
    """Return a cached dictionary for many texts."""
    return Dictionary(entries, apart)


def pattern_of(words: Iterable[tuple[str, bool]], end: Callable[[str], str]) -> str:
    """Return a pattern of words, each in exact or any case; `end` returns the pattern after a word."""
    listed = [
        (word, (f"(?<=(?-i:{_middle(word)}))" if is_exact else "") + end(word)) for word, is_exact in sorted(words)
    ]
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # Words by the conditions before and after them.
    for those in _by_first(listed):
        before, ends = _before(those[0][0][0]), {end for _, end in those}
        if len(ends) == 1:
            alike[before, ends.pop()].append(_tree([(word, "") for word, _ in those], _DEPTH))
        else:
            alike[before, ""].append(_tree(those, _DEPTH))
    return "|".join(f"{before}(?:{'|'.join(found)}){end}" for (before, end), found in alike.items()) or "(?!)"


def _tree(words: list[tuple[str, str]], depth: int) -> str:
    """Return a pattern of words, each with the condition after it, the longest first.

    Words with a common prefix share a branch, because an alternation of all words would be tried at every position. The
    depth is limited, because the regex compiler is recursive.
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
    """Group words by their case-folded first character."""
    groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for word, end in words:
        groups[_key(word[0])].append((word, end))
    return groups.values()


def _letter(cases: set[str]) -> str:
    """Return a pattern of a character in the given cases."""
    if cases == {" "}:
        return _GAP
    letters = [regex.escape(character) for character in sorted(cases)]
    return letters[0] if len(letters) == 1 else f"[{''.join(letters)}]"


def _key(character: str) -> str:
    """Return a key that is equal for all cases of a character."""
    folded = character.upper().lower()
    return folded if len(folded) == 1 else character


def _middle(word: str) -> str:
    return _GAP.join(regex.escape(part) for part in word.split(" "))


def _before(first: str) -> str:
    """Return the lookbehind for words that start with this character."""
    if not _WORD_LIKE.match(first):
        return ""
    return f"(?<!{_IN_A_WORD})" + (r"(?<!\p{N}[.,])" if _is_number(first) else "")  # Do not match the 5 of 3.5.


def _behind(word: str) -> str:
    """Return the lookahead after a word."""
    if not _WORD_LIKE.match(word[-1]):
        return ""
    return f"(?!{_IN_A_WORD})" + (r"(?![.,]\p{N})" if _is_number(word[-1]) else "")


def _may_follow(word: str) -> str:
    """Return a pattern of text after a word that does not decide yet if it is a whole word."""
    return "[.,]?" if _is_number(word[-1]) else ""


def _is_number(character: str) -> bool:
    return unicodedata.category(character).startswith("N")


def _spaced(word: str) -> str:
    return _one_spaced(unicodedata.normalize("NFC", word))


def _one_spaced(word: str) -> str:
    return " ".join(word.split())


def _fold(word: str) -> str:
    return _spaced(word).upper().lower()
