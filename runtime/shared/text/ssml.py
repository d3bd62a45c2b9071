"""Detection of SSML tags in text, and the duration of ``<break>``.

An element that requires attributes is a tag only if it has attributes, so placeholders such as ``<voice>`` remain text.
"""

from __future__ import annotations

import regex

MAX_TAG_CHARS = 300  # Maximum number of characters of a tag. A longer match is treated as text.

_BARE_ELEMENTS = "speak|break|emphasis|prosody|p|s|spell"  # Names of elements that need no attributes.
_IN_NEED = "say-as|phoneme|sub|voice|lang|audio|mark|speed|volume|emotion|(?:amazon|google|mstts):[a-z-]{1,40}"
_NAME = f"(?:{_BARE_ELEMENTS}|{_IN_NEED})"
_ATTRIBUTE = r"""\s+[a-z_][\w:.-]*\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s"'<>]+?)"""
# Pattern of the end of a tag without a closing bracket. It is the position after a quotation mark if no attribute
# follows.
_UNCLOSED = r"""(?<=["'])(?=\s*[\w:.-]+\s+\w|\s*[\w:.-]*\s*[^\s\w:.=/>-])"""
# Pattern of a tag, which must be compiled with IGNORECASE. It has no groups, so it can be a part of another pattern.
PATTERN = (
    rf"<(?:{_NAME}(?:{_ATTRIBUTE})+(?:\s*/?>|{_UNCLOSED})|(?:{_BARE_ELEMENTS})\s*/?>|/\s*{_NAME}\s*>|\?xml\s[^<>]*\?>)"
)
TAG = regex.compile(PATTERN, regex.IGNORECASE)
# Pattern of text in angle brackets that may become a tag if its words are replaced.
MAY_BECOME_TAG = r"</?\s*(?:\p{L}[^<>\n]{0,300}|\p{N}[^<>\s]{0,300})>"
# Pattern of a tag that may be cut off by the end of the text.
IN_TAG = rf"</?{_NAME}[^<>\n]{{0,{MAX_TAG_CHARS}}}(?:>|\Z)"

_BREAK = regex.compile(r"<break\b", regex.IGNORECASE)
_SEPARATOR = regex.compile(r"</?\s*(?:break|p|s|speak)\b", regex.IGNORECASE)
_TIME = regex.compile(
    r"""\stime\s*=\s*["'“”]?\s*\+?(\d{1,6}(?:[.,]\d{1,6})?|[.,]\d{1,6})"""
    r"""\s*(ms|milliseconds?|s|secs?|seconds?)?\s*(?:["'“”/>]|\s[\w:.-]+\s*=)""",
    regex.IGNORECASE,
)
_STRENGTH = regex.compile(r"""\sstrength\s*=\s*["'“”]?\s*([a-z-]+)""", regex.IGNORECASE)
# Seconds of pause for each value of `strength`, as in Azure:
# https://learn.microsoft.com/azure/ai-services/speech-service/speech-synthesis-markup-structure
_STRENGTH_S = {"none": 0.0, "x-weak": 0.25, "weak": 0.5, "medium": 0.75, "strong": 1.0, "x-strong": 1.25}


def tag_end(text: str, at: int, *, is_whole: bool) -> int | None:
    """Return the index at which an SSML tag ends.

    Args:
        text: Text with tags.
        at: Index at which the tag starts.
        is_whole: True if no more text follows. A tag without a closing bracket then ends at the end of the text.

    Returns:
        `at` if there is no tag, or None if more text is needed to decide.
    """
    found = TAG.match(text, at, at + MAX_TAG_CHARS, partial=True)
    if found is None:
        return at
    if not found.partial:
        return found.end()
    if len(text) - at >= MAX_TAG_CHARS:
        return at
    if not is_whole:
        return None
    is_cut_off = "=" in found[0] and any(TAG.fullmatch(found[0] + end) for end in (">", '">', "'>"))
    return found.end() if is_cut_off else at


def is_separator(tag: str) -> bool:
    """True if a tag separates the words before and after the tag."""
    return _SEPARATOR.match(tag) is not None


def break_seconds(tag: str) -> float | None:
    """Return the duration of a ``<break>`` in seconds, or None for other tags.

    The default strength is medium.
    """
    if _BREAK.match(tag) is None:
        return None
    if time := _TIME.search(tag + ">"):
        return seconds_of(time[1], time[2])
    strength = _STRENGTH.search(tag)
    return _STRENGTH_S.get(strength[1].lower() if strength else "", _STRENGTH_S["medium"])


def seconds_of(number: str, unit: str | None) -> float:
    """Convert a number with a unit to seconds.

    The default unit is seconds. Decimal commas are allowed.
    """
    return float(number.replace(",", ".")) / (1000 if (unit or "").lower().startswith("m") else 1)
