"""Markdown parsing with markdown-it: blocks of a text, and the spoken text of each block.

The dialect is CommonMark with strikethrough and check boxes. Some rules differ, because each line must be classified
before later lines arrive, and no text may be lost. A line that begins with ``|`` is a table row. Indented text and HTML
are text, and only fences are code. A reference definition is one line with an address.

The first line ``> [!NOTE]`` of a quotation is spoken as a heading. Footnotes and their marks are not spoken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline import image as any_image
from markdown_it.token import Token

_DEFINITION = re.compile(
    r"\[[^\[\]]+\]:[ \t]*(?:<[^<>]*>|\S*[/#.:]\S*)(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*"
)
# Pattern of a footnote mark. It does not match a character class of a regular expression, such as [^a-z].
_FOOTNOTE_MARK = re.compile(r"\[\^(?!\w-\w)\w[\w.:-]{0,63}\]")
_FOOTNOTE = re.compile(_FOOTNOTE_MARK.pattern + ":")
_FOOTNOTE_INDENT_COLUMNS = 4  # Minimum indentation in columns of the second and later paragraphs of a footnote.
# Start of an alert block. The optional + or - is Obsidian's mark of a foldable block.
_ALERT = re.compile(r"\[!([A-Za-z][A-Za-z-]{0,31})\][+-]?[ \t]*")
_DELIMITER_ROW = re.compile(r"[\s|:-]*")
_BEFORE_IMAGES = "([*_~\"'“‘«>"  # Characters that may precede an image, in addition to white space.
_ENTITY_TAIL = re.compile(r"&#?[0-9A-Za-z]{0,32}\Z")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?]|\Z)")
# White space that CommonMark removes from the start of a paragraph's lines, even in code spans.
_LINE_START = re.compile(r"\n[ \t]+")
_LINE_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_BREAK_TAG = re.compile(r"<break\b", re.IGNORECASE)  # Pattern of the tag <break>, which is an inline tag of the engine.


def may_precede_image(character: str) -> bool:
    """True if ``![`` can start an image after this character.

    The character is "" at the start of the text.
    """
    return not character or character.isspace() or character in _BEFORE_IMAGES


class Kind(Enum):
    PARAGRAPH = auto()
    HEADING = auto()  # Heading that starts with the character #.
    UNDERLINED = auto()  # Paragraph that is a heading because the line after it underlines it.
    ROW = auto()
    FENCE = auto()
    FOOTNOTE = auto()


@dataclass(frozen=True, slots=True)
class Leaf:
    """Markdown block that contains no other blocks, such as a paragraph or a heading.

    The block consists of the lines from ``start`` up to but not including ``end``. ``source`` is its text without the
    markers of enclosing blocks.
    """

    kind: Kind
    start: int
    end: int
    source: str
    number: str = ""  # Numbers of the list items that start at this leaf.
    in_item: bool = False

    @property
    def is_sentence(self) -> bool:
        """True if a full stop is spoken after this block."""
        return self.in_item or self.kind is not Kind.PARAGRAPH


@dataclass(frozen=True, slots=True)
class Blocks:
    """Parsed blocks of a Markdown text.

    The lines before the line number ``settled`` do not affect later lines.
    """

    leaves: list[Leaf]
    settled: int

    def at(self, line: int) -> Leaf | None:
        """Return the last block if it contains this line, or None otherwise."""
        last = self.leaves[-1] if self.leaves else None
        return last if last is not None and last.start <= line < last.end else None


_SILENT_BLOCKS = {"fence": Kind.FENCE, "footnote": Kind.FOOTNOTE}


def read_blocks(text: str) -> Blocks:
    """Parse a Markdown text and return its blocks."""
    tokens: list[Token] = []
    _MARKDOWN.block.parse(text, _MARKDOWN, {}, tokens)
    leaves: list[Leaf] = []
    numbers: list[str] = []  # Numbers of the enclosing list items that were not output yet.
    settled, is_quoted = 0, False
    for index, token in enumerate(tokens):
        if token.level == 0:
            is_quoted = token.type == "blockquote_open"
        # A top-level block, a top-level list item and a block of a top-level quotation do not depend on earlier lines.
        if token.map is not None and (
            token.level == 0 or (token.level == 1 and (is_quoted or token.type == "list_item_open"))
        ):
            settled = token.map[0]
        if token.type == "list_item_open":
            numbers.append(f"{token.info}{token.markup} " if token.info else "")
        elif token.type == "list_item_close":
            numbers.pop()
        elif token.type in {"inline", "row"}:
            head = token if token.type == "row" else tokens[index - 1]
            start, end = head.map or (0, 0)
            source = _LINE_START.sub("\n", token.content)
            leaves.append(Leaf(_kind(head), start, end, source, "".join(numbers), bool(numbers)))
            numbers = [""] * len(numbers)
        elif token.type in _SILENT_BLOCKS:
            start, end = token.map or (0, 0)
            leaves.append(Leaf(_SILENT_BLOCKS[token.type], start, end, ""))
    return Blocks(leaves, settled)


def _kind(head: Token) -> Kind:
    if head.type == "row":
        return Kind.ROW
    if head.type == "heading_open":
        return Kind.HEADING if head.markup.startswith("#") else Kind.UNDERLINED
    return Kind.PARAGRAPH


@dataclass(frozen=True, slots=True)
class Inline:
    """Spoken text of a piece of a paragraph.

    ``is_decided`` is True if later text cannot change the spoken text.
    """

    spoken: str
    is_decided: bool


def read_inline(source: str) -> Inline:
    """Return the spoken text of the source of a block."""
    tokens: list[Token] = []
    state = StateInline(source, _MARKDOWN, {}, tokens)
    _MARKDOWN.inline.tokenize(state)
    for rule in _MARKDOWN.inline.ruler2.getRules(""):
        rule(state)
    return Inline(_spoken(tokens), not (_is_marked_open(state) or _is_text_open(tokens)))


def spoken_row(source: str) -> str:
    """Return the spoken text of a table row.

    The row that separates the table's head from its body has no spoken text.
    """
    if _DELIMITER_ROW.fullmatch(source):
        return ""
    cells = (read_inline(cell.strip()).spoken.strip() for cell in escapedSplit(source))
    return ", ".join(cell for cell in cells if cell)


def _spoken(tokens: list[Token]) -> str:
    return "".join(map(_spoken_token, tokens))


def _spoken_token(token: Token) -> str:
    match token.type:
        case "text" | "text_special" | "code_inline":
            return token.content
        case "softbreak" | "hardbreak":
            return "\n"
        case "image":
            return _spoken(token.children or [])
        case "html_inline":
            if _BREAK_TAG.match(token.content):
                return token.content
            return " " if _LINE_BREAK.match(token.content) else ""
    return ""


def _is_marked_open(state: StateInline) -> bool:
    """True if an emphasis mark has no closing mark yet.

    Marks inside a closed pair are ignored.
    """
    marks = state.delimiters
    last = -1  # Index after the last character of the last pair.
    for index, mark in enumerate(marks):
        if index <= last:
            continue
        if mark.end >= 0:
            last = mark.end
        elif mark.open:
            return True
    return False


def _is_text_open(tokens: list[Token]) -> bool:
    """True if literal text may become markup together with later text.

    Escaped characters are tokens of another type.
    """
    depth = 0  # Number of square brackets that are open.
    for token in tokens:
        if token.type == "image" and _is_text_open(token.children or []):
            return True
        if token.type != "text":
            continue
        text = token.content
        if "`" in text or _TAG_START.search(text):
            return True
        for index, character in enumerate(text):
            if character == "[":
                depth += 1
            elif character == "]" and depth:
                depth -= 1
                if text[index + 1 : index + 2] == "(":
                    return True
    last = tokens[-1] if tokens else None
    return depth > 0 or (last is not None and last.type == "text" and _ENTITY_TAIL.search(last.content) is not None)


def _row(state: StateBlock, line: int, _: int, silent: bool) -> bool:
    """Block rule: a line that begins with ``|`` is a table row."""
    source = _line(state, line)
    if not source.startswith("|"):
        return False
    if not silent:
        token = state.push("row", "", 0)
        token.content = source
        token.map = [line, line + 1]
        state.line = line + 1
    return True


def _definition(state: StateBlock, line: int, _: int, silent: bool) -> bool:
    """Block rule: ``[label]: address "title"`` is not spoken."""
    if silent or not _DEFINITION.fullmatch(_line(state, line)):
        return False
    state.line = line + 1
    return True


def _footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule: ``[^1]: text`` and the lines that belong to it are a footnote."""
    if not _FOOTNOTE.match(_line(state, start)):
        return False
    if silent:
        return True
    terminators = state.md.block.ruler.getRules("paragraph")
    around, state.parentType = state.parentType, "paragraph"
    line, after = start + 1, start + 1
    while line < end:
        if not state.isEmpty(line):
            is_inside = state.sCount[line] - state.blkIndent >= _FOOTNOTE_INDENT_COLUMNS
            goes_on = line == after and not any(rule(state, line, end, True) for rule in terminators)
            if not (is_inside or goes_on):
                break
            after = line + 1
        line += 1
    state.line, state.parentType = after, around
    state.push("footnote", "", 0).map = [start, after]
    return True


def _alert(state: StateBlock, line: int, _: int, silent: bool) -> bool:
    """Block rule: ``[!NOTE]`` at the beginning of a quotation is a heading."""
    found = _ALERT.fullmatch(_line(state, line))
    if found is None or silent or not state.tokens or state.tokens[-1].type != "blockquote_open":
        return False
    state.line = line + 1
    head = state.push("heading_open", "h6", 1)
    head.markup, head.map = "#", [line, line + 1]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = found[1].capitalize(), [line, line + 1], []
    state.push("heading_close", "h6", -1)
    return True


def _footnote_mark(state: StateInline, silent: bool) -> bool:
    """Inline rule: ``[^1]`` is not spoken."""
    found = _FOOTNOTE_MARK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("footnote_ref", "", 0)
    state.pos = found.end()
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _image(state: StateInline, silent: bool) -> bool:
    """Inline rule: the exclamation mark after a word does not start an image."""
    return may_precede_image(state.src[state.pos - 1 : state.pos] if state.pos else "") and any_image(state, silent)


def _markdown_parser() -> MarkdownIt:
    markdown = MarkdownIt("js-default", {"html": True, "tasklists": True})
    markdown.disable(["table", "code", "html_block", "reference"])
    markdown.block.ruler.before("paragraph", "definition", _definition, {"alt": []})
    markdown.block.ruler.before("fence", "row", _row, {"alt": ["paragraph", "blockquote"]})
    markdown.block.ruler.before("fence", "footnote", _footnote, {"alt": ["paragraph", "blockquote"]})
    markdown.block.ruler.before("fence", "alert", _alert, {"alt": []})
    markdown.inline.ruler.before("link", "footnote_mark", _footnote_mark)
    markdown.inline.ruler.at("image", _image)
    return markdown


_MARKDOWN = _markdown_parser()
