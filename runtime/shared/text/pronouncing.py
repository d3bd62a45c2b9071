"""Replacement of words in a text, using pronunciation dictionaries.

assets/js/speak/pronunciation.js has the same rules for the web page. Only whole words match, the longest word first,
and no text is replaced twice. An entry that matches the case exactly has precedence. The end of streamed text is held
back while it may be an incomplete word.

Text inside tags is not replaced, and a replacement never creates a tag. Therefore square brackets are removed from
replacements, and a word inside brackets is not replaced if the result would be a tag.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache

import regex

from runtime.shared.text.inline_tags import is_tag

# Word and replacement. The optional third element is True if upper and lower case must match.
Entry = tuple[str, str] | tuple[str, str, bool]

# Scripts without spaces between words, in which a word may start and end at any character.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_A_WORD = rf"(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}]"
_WORD_LIKE = regex.compile(_IN_A_WORD)
_STARTS_WORD = regex.compile(rf"(?<!{_IN_A_WORD})")
_ENDS_WORD = regex.compile(rf"(?!{_IN_A_WORD})")
# Pattern of a position at which a number can start. It prevents a match of the 5 in 3.5.
_STARTS_NUMBER = regex.compile(r"(?<!\p{N}[.,])")
_ENDS_NUMBER = regex.compile(r"(?![.,]\p{N})")
_MAX_GAP = 8  # Maximum number of white-space characters between two words of an entry.
_GAP = regex.compile(r"\s+")
# Flags of all patterns. V0 maps each character to one character when case is ignored, as JavaScript does.
_FLAGS = regex.V0 | regex.IGNORECASE
_WITHOUT_BRACKETS = str.maketrans("", "", "[]<>")
_LOOKBEHIND_CHARS = 2  # Number of characters before a match that are needed to decide if it is a whole word.


class Dictionary:
    """Pronunciation dictionary that is prepared for a fast search of its words in a text.

    Text in square brackets that matches `markup` is protected only if it is a tag, or would become a tag by
    replacements.

    Args:
        entries: Words with replacements. If a word occurs more than once, its first entry is used.
        markup: Regular expression for markup that is never replaced, or "".
    """

    def __init__(self, entries: Iterable[Entry], markup: str = "") -> None:
        listed = [entry if len(entry) == 3 else (*entry, False) for entry in entries]
        if markup:
            listed = [
                (word, replacement.translate(_WITHOUT_BRACKETS), is_exact) for word, replacement, is_exact in listed
            ]
        self._replacements = {_spaced(word): replacement for word, replacement, _ in reversed(listed)}
        self._folded_replacements = {
            _fold(word): replacement for word, replacement, is_exact in reversed(listed) if not is_exact
        }
        forms = {
            (_one_spaced(unicodedata.normalize(form, word)), is_exact)
            for word, _, is_exact in listed
            for form in ("NFC", "NFD")
        }
        self._exact = {form for form, is_exact in forms if is_exact}
        self._in_any_case = {_in_one_case(form) for form, is_exact in forms if not is_exact}
        self._sorted = sorted(self._in_any_case.union(map(_in_one_case, self._exact)))
        self._firsts = {form[0] for form in self._sorted}
        self._lengths = sorted({len(form) for form in self._sorted}, reverse=True)
        self.markup = regex.compile(markup, _FLAGS) if markup else None

    def find(self, line: Line, start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Yield the start, the end and the replacement of each word and tag in a text.

        The search begins at the index `start`. The replacement of a tag is the unchanged tag.
        """
        text = line.text
        markup = self._next_markup(text, start)
        for index, at in enumerate(line.offsets[:-1]):
            if at < start:
                continue
            if markup is not None and markup.start() < start:
                markup = self._next_markup(text, start)
            if markup is not None and at >= markup.start():
                start = markup.end()
                yield markup.start(), start, markup[0]
            elif end := self._end_of_word(line, index):
                yield at, end, self._replacement(text[at:end])
                start = end

    def incomplete_word_start(self, line: Line, start: int) -> int:
        """Return the index of the first word that may change when more text arrives.

        Words before the index `start` are ignored. If no word may change, the result is the end of the line.
        """
        longest = max(self._lengths, default=0)
        indices = range(max(0, len(line.folded) - longest - 1), len(line.folded))
        begun = (
            line.offsets[index]
            for index in indices
            if line.offsets[index] >= start and self._is_incomplete(line, index)
        )
        return next(begun, len(line.text))

    def replace_in(self, text: str) -> tuple[str, int]:
        """Replace words in a complete text.

        Returns:
            Text after the replacements, and the number of replacements.
        """
        parts: list[str] = []
        at = count = 0
        for start, end, replacement in self.find(Line(text)):
            parts += text[at:start], replacement
            count += replacement != text[start:end]
            at = end
        return "".join(parts) + text[at:], count

    def _next_markup(self, text: str, start: int) -> regex.Match[str] | None:
        while self.markup is not None and (found := self.markup.search(text, start)) is not None:
            if self._is_or_becomes_tag(found[0]):
                return found
            start = found.start() + 1
        return None

    def _is_or_becomes_tag(self, bracket: str) -> bool:
        return is_tag(bracket) or is_tag(bracket[0] + self.replace_in(bracket[1:-1])[0] + bracket[-1])

    def _end_of_word(self, line: Line, index: int) -> int:
        """Return the end index (in the text) of the longest whole word at an index of the line.

        The result is 0 if there is no word.
        """
        if line.folded[index] not in self._firsts or not _may_start(line.text, line.offsets[index]):
            return 0
        for length in self._lengths:
            stop = index + length
            if stop < len(line.offsets) and self._has(line.plain[index:stop], line.folded[index:stop]):
                end = line.offsets[stop]
                if _may_end(line.text, end):
                    return end
        return 0

    def _has(self, plain: str, folded: str) -> bool:
        return folded in self._in_any_case or plain in self._exact

    def _is_incomplete(self, line: Line, index: int) -> bool:
        """True if the rest of the line is the start of a word or of a number.

        A number may continue after `.` or `,`.
        """
        rest = line.folded[index:]
        if rest[0] not in self._firsts or not _may_start(line.text, line.offsets[index]):
            return False
        place = bisect_left(self._sorted, rest)
        if place < len(self._sorted) and self._sorted[place].startswith(rest):
            return True
        number, mark = rest[:-1], rest[-1]
        return bool(number) and mark in ".," and _is_number(number[-1]) and self._has(line.plain[index:-1], number)

    def _replacement(self, word: str) -> str:
        return self._replacements.get(_spaced(word)) or self._folded_replacements.get(_fold(word)) or word


class Line:
    """Text in two forms that are compared with dictionary entries.

    `plain` has one space between words and the original case, and `folded` is also case-folded. `offsets` maps each
    index of `plain`, including its end, to an index of the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts: list[str] = []
        self.offsets: list[int] = []
        at = 0
        for gap in _GAP.finditer(text):
            # Longer white space becomes two spaces. No entry contains two spaces, so no match extends across them.
            spaces = " " if len(gap[0]) <= _MAX_GAP else "  "
            parts += text[at : gap.start()], spaces
            self.offsets += range(at, gap.start() + len(spaces))
            at = gap.end()
        parts.append(text[at:])
        self.offsets += range(at, len(text) + 1)
        self.plain = "".join(parts)
        self.folded = _in_one_case(self.plain)


class GrowingPronunciation:
    """Incremental replacement of words in streamed text.

    If `flush` is not called, the result does not depend on how the text is divided into pieces.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        # Characters that were already returned and are kept as context, followed by the text that is held back.
        self._text = ""
        self._given = 0  # Number of returned characters at the start of `_text`.

    def feed_text(self, text: str) -> str:
        """Append text, replace words in it, and return the new text that is final.

        Text that later input could change is held back.
        """
        self._text += text
        line = Line(self._text)
        return self._give(
            line, min(self._dictionary.incomplete_word_start(line, self._given), self._incomplete_markup_start())
        )

    def flush(self) -> str:
        """Return the text that was held back, with replaced words, as if the input ended here.

        Incomplete markup is still held back.
        """
        return self._give(Line(self._text), self._incomplete_markup_start())

    def finish(self) -> str:
        """End the input and return the text that was held back, with replaced words."""
        return self._give(Line(self._text), len(self._text))

    def _incomplete_markup_start(self) -> int:
        """Return the start index of markup that later text may complete, or the end of the text."""
        text, markup = self._text, self._dictionary.markup
        if markup is None:
            return len(text)
        starts = sorted(text.rfind(bracket, self._given) for bracket in "[<")
        begun = ((start, markup.fullmatch(text, start, partial=True)) for start in starts if start >= 0)
        return next((start for start, found in begun if found is not None and found.partial), len(text))

    def _give(self, line: Line, end: int) -> str:
        """Return the replaced text up to an index of the line.

        Words that start before the index are included.
        """
        parts: list[str] = []
        at = self._given
        for word_start, word_end, replacement in self._dictionary.find(line, at):
            if word_start >= end:
                break
            parts += self._text[at:word_start], replacement
            at = word_end
        parts.append(self._text[at:end])
        at = max(at, end)
        keep_from = max(0, at - _LOOKBEHIND_CHARS)
        self._text, self._given = self._text[keep_from:], at - keep_from
        return "".join(parts)


def replace_words(text: str, entries: Iterable[Entry], markup: str = "") -> tuple[str, int]:
    """Replace words in a complete text.

    Args:
        text: Text to change.
        entries: Words with replacements.
        markup: Regular expression for markup that is never replaced, or "".

    Returns:
        Text after the replacements, and the number of replacements.
    """
    return dictionary_of(tuple(entries), markup).replace_in(text)


@lru_cache(32)
def dictionary_of(entries: tuple[Entry, ...], markup: str) -> Dictionary:
    """Return a cached `Dictionary` for these entries."""
    return Dictionary(entries, markup)


def _may_start(text: str, start: int) -> bool:
    """True if a word may start at this index.

    The character before the index must not belong to the same word.
    """
    first = text[start]
    if not _WORD_LIKE.match(first):
        return True
    return bool(_STARTS_WORD.match(text, start)) and (not _is_number(first) or bool(_STARTS_NUMBER.match(text, start)))


def _may_end(text: str, end: int) -> bool:
    """True if a word may end at this index.

    The character at the index must not belong to the same word.
    """
    last = text[end - 1]
    if not _WORD_LIKE.match(last):
        return True
    return bool(_ENDS_WORD.match(text, end)) and (not _is_number(last) or bool(_ENDS_NUMBER.match(text, end)))


def _is_number(character: str) -> bool:
    return unicodedata.category(character).startswith("N")


def _in_one_case(text: str) -> str:
    """Return a case-folded text of the same length."""
    return text.lower() if text.isascii() else "".join(map(_letter_in_one_case, text))


@lru_cache(4096)
def _letter_in_one_case(character: str) -> str:
    folded = character.upper().lower()
    # The dotless i is a separate letter and not another case of i.
    return character if character == "ı" or len(folded) > 1 else folded


def _spaced(word: str) -> str:
    return _one_spaced(unicodedata.normalize("NFC", word))


def _one_spaced(word: str) -> str:
    return " ".join(word.split())


def _fold(word: str) -> str:
    return _spaced(word).upper().lower()
