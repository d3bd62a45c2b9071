"""Splitting of a narration into quoted speech, ``*actions*``, and the text between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

_QUOTES = (("“", "”"), ("«", "»"), ("„", "“"), ("「", "」"), ("『", "』"), ('"', '"'))
_QUOTE = re.compile("|".join(f"{first}[^{first}{last}\n]+{last}" for first, last in _QUOTES))
_ACTION = re.compile(r"(?<![*\w\\])\*(?=[^\s*])[^*\n]+(?<=[^\s*\\])\*(?![*\w])")
_MARKS = ".,!?…—–-;:。，！？"
_INTRODUCES = re.compile(r"(?:[,:：，—–-]|[.!?…。！？][\"”’»」』*]?)\s*\Z")


class PartKind(Enum):
    """Kind of a part of a narration: quoted speech, an action or other text."""

    TEXT = "text"
    QUOTE = "quote"
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a narration, such as a quotation, and the kind of this part.

    The text of an action does not include the asterisks.
    """

    kind: PartKind
    text: str


def split_narration(text: str, *, quotes: bool, actions: bool) -> list[Part]:
    """Split a complete text into quoted speech, actions and other text.

    A part without words is appended to the previous part.

    A quotation is speech if it ends with a punctuation mark, follows a punctuation mark, or starts a paragraph. A
    single "quoted" word is other text. An emphasized word within a sentence is not an action.

    Args:
        quotes: True to separate quoted speech.
        actions: True to separate actions.
    """
    patterns = [*([_QUOTE] if quotes else []), *([_ACTION] if actions else [])]
    parts = (part for paragraph in text.splitlines(keepends=True) for part in _parts(paragraph, patterns))
    merged: list[Part] = []
    for part in parts:
        has_letters = any(map(str.isalnum, part.text))
        if merged and (not has_letters or part.kind is merged[-1].kind):
            merged[-1] = Part(merged[-1].kind, merged[-1].text + part.text)
        else:
            merged.append(part)
    return merged


def _parts(paragraph: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Part]:
    done = 0
    found = sorted(chain.from_iterable(pattern.finditer(paragraph) for pattern in patterns), key=re.Match.start)
    for match in found:
        kind = PartKind.ACTION if match[0].startswith("*") else PartKind.QUOTE
        if match.start() < done or not _stands_out(match):
            continue
        if done < match.start():
            yield Part(PartKind.TEXT, paragraph[done : match.start()])
        yield Part(kind, match[0].strip("*") if kind is PartKind.ACTION else match[0])
        done = match.end()
    if done < len(paragraph):
        yield Part(PartKind.TEXT, paragraph[done:])


def _stands_out(match: re.Match[str]) -> bool:
    """True if the match is more than an emphasised or quoted word within a sentence."""
    before = match.string[: match.start()]
    inner = match[0][1:-1].strip()
    return not before.strip() or inner.endswith(tuple(_MARKS)) or _INTRODUCES.search(before[-4:]) is not None
