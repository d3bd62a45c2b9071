"""Full-text search in the sections of the documentation pages."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_QUERY_CHARS = 200
MAX_MATCHES = 20
EXCERPT_CHARS = 160  # Approximate number of characters around the first match in an excerpt.


@dataclass(frozen=True, slots=True)
class Section:
    """Section of a page: a heading, and the paragraphs, table cells and code below it."""

    page: str  # Name of the page, which is the last part of its URL.
    anchor: str
    level: int  # Level of the heading, from 1.
    title: str
    texts: list[str]


@dataclass(frozen=True, slots=True)
class Match:
    """Section that contains all words of a query, with an excerpt in HTML."""

    section: Section
    excerpt: str


def find_sections(sections: Iterable[Section], query: str) -> list[Match]:
    """Return the sections that contain all words of a query.

    Upper and lower case are ignored. Sections with more words in the heading come first, and then sections with more
    occurrences.
    """
    words = query[:MAX_QUERY_CHARS].lower().split()
    if not words:
        return []
    found: list[tuple[int, int, Section]] = []
    for section in sections:
        title, text = section.title.lower(), "\n".join(section.texts).lower()
        if all(word in title or word in text for word in words):
            found.append((sum(word in title for word in words), sum(map(text.count, words)), section))
    found.sort(key=lambda one: one[:2], reverse=True)
    return [Match(section, _excerpt(section, words)) for *_, section in found[:MAX_MATCHES]]


def _excerpt(section: Section, words: list[str]) -> str:
    """Return the text around the first occurrence of a word as HTML, with all words marked."""
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    text = " ".join(" ".join(section.texts).split())
    first = pattern.search(text)
    start = text.rfind(" ", 0, max(0, first.start() - EXCERPT_CHARS // 2)) + 1 if first else 0
    end = start + EXCERPT_CHARS
    end = len(text) if len(text) <= end else text.rfind(" ", start + 1, end)
    marked = re.sub(pattern, lambda word: f"\0{word[0]}\1", text[start:end])
    marked = html.escape(marked).replace("\0", "<mark>").replace("\1", "</mark>")
    return f"{'… ' if start else ''}{marked}{' …' if end < len(text) else ''}"
