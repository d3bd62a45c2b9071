"""Markdown reader that splits the readable text of a file into chapters."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

import yaml

from runtime.markdown.growing import GrowingMarkdown
from runtime.markdown.reading import Kind, Leaf, read_blocks, read_inline
from studio.documents.values import Chapter, OmittedContent, cut_level

_BLANK = re.compile(r"\n{2,}")
_HEADING = re.compile(r" {0,3}(#{1,6})")
_UNDERLINES = {"=": 1, "-": 2}
_SILENT_RESULT = "."  # Output of the runtime's text filter for a text without spoken words.
_FRONT_MATTER = re.compile(
    r"\ufeff?(?P<fence>---|\+\+\+)[ \t]*\n(?P<rows>.*?\n)(?:(?P=fence)|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)
_SETTING = re.compile(r"^[\w-]+[ \t]*[:=].*", re.MULTILINE)
_YAML_TITLE = re.compile(r"^title[ \t]*:(?:[ \t].*)?\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)
# Maximum length of a YAML value. The parser needs more than quadratic time for nested brackets.
_MAX_YAML_CHARS = 500
_MARKUP = re.compile(r"[!-/:-@\[-`{-~]")
_LIST_NUMBER = re.compile(r"\d+[.)]")
_FENCE_ROW = re.compile(r"\s*(?:```|~~~)")
_TABLE_RULE = re.compile(r"[\s|:-]*")  # Delimiter row between the header and the body of a table.


def without_front_matter(text: str, omitted: OmittedContent) -> tuple[str, str]:
    """Split a Markdown text into its content and the title in its front matter.

    The front matter is YAML or TOML. Its other settings are counted in `omitted`.

    Returns:
        The text without front matter, and the title (an empty string if it is missing).
    """
    found = _FRONT_MATTER.match(text)
    if found is None or found["rows"].startswith("\n") or not _SETTING.search(found["rows"]):
        return text, ""
    for setting in _SETTING.findall(found["rows"]):
        omitted.count_omission("front_matter", setting)
    return text[found.end() :], _title(found["rows"], is_toml=found["fence"] == "+++")


def _title(rows: str, *, is_toml: bool) -> str:
    """Return the title in front matter, or "" if it is missing, invalid or too long."""
    setting = _YAML_TITLE.search(rows)
    try:
        if is_toml:
            title = tomllib.loads(rows).get("title")
        elif setting and len(setting[0]) <= _MAX_YAML_CHARS:
            title = yaml.load(setting[0], yaml.BaseLoader)["title"]  # noqa: S506  BaseLoader creates only strings, lists, dicts.
        else:
            return ""
    except (tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError):
        return ""
    return " ".join(title.split()) if isinstance(title, str) else ""


def markdown_chapters(text: str, omitted: OmittedContent) -> list[Chapter]:
    """Split a Markdown text into chapters at its headings.

    Omitted content is counted in `omitted`.
    """
    lines = text.split("\n")
    leaves = read_blocks(text).leaves
    _apply_choice(lines, leaves, omitted)
    headings: list[tuple[int, int, str]] = []  # Level, line and text of each heading.
    for leaf in leaves:
        if leaf.kind is Kind.UNDERLINED:
            level = _UNDERLINES.get(lines[leaf.end - 1].strip()[:1])
        else:
            found = _HEADING.match(lines[leaf.start]) if leaf.kind is Kind.HEADING else None
            level = len(found[1]) if found else None
        if level is not None:
            headings.append((level, leaf.start, " ".join(read_inline(leaf.source).spoken.split())))
    deepest = cut_level(level for level, _, _ in headings)
    begins = [(0, ""), *((line, title) for level, line, title in headings if level <= deepest)]
    ends = [line for line, _ in begins[1:]] + [len(lines)]
    return [
        Chapter(title, paragraphs)
        for (begin, title), end in zip(begins, ends, strict=True)
        if (paragraphs := _spoken("\n".join(lines[begin:end])))
    ]


def _apply_choice(lines: list[str], leaves: Sequence[Leaf], omitted: OmittedContent) -> None:
    """Remove or rewrite code, tables and list numbers as selected, and count omissions."""
    omitted_tables = False
    for leaf in leaves:
        rows = lines[leaf.start : leaf.end]
        example = " ".join(rows).strip("`~ ")
        if leaf.kind is Kind.FOOTNOTE:
            omitted.count_omission("footnotes", example)
        elif leaf.kind is Kind.FENCE and not omitted.omits("code", example):
            literal = [_MARKUP.sub(r"\\\g<0>", row.strip()) for row in rows]
            lines[leaf.start : leaf.end] = [
                "" if _FENCE_ROW.match(row) else own for row, own in zip(rows, literal, strict=True)
            ]
        elif leaf.kind is Kind.ROW and not _TABLE_RULE.fullmatch(example):
            omitted_tables |= omitted.omits("tables", example)
        if leaf.number and omitted.omits("list_numbers", leaf.number.strip()):
            lines[leaf.start] = _LIST_NUMBER.sub("-", lines[leaf.start], count=1)
    for leaf in leaves:
        if omitted_tables and leaf.kind is Kind.ROW:
            lines[leaf.start : leaf.end] = [""] * (leaf.end - leaf.start)


def _spoken(text: str) -> list[str]:
    """Return the paragraphs of a Markdown text as spoken text."""
    growing = GrowingMarkdown()
    spoken = growing.feed_text(text) + growing.finish()
    return [part for part in _BLANK.split(spoken) if part.strip() not in {"", _SILENT_RESULT}]
