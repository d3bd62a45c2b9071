"""Turns a growing Markdown text into words as soon as nothing behind them can change them.

markdown-it reads the lines that the open block depends on, and says of a new line what it is as soon as its first
characters tell. A line of a paragraph then flows on into `GrowingInline`; headings and rows are said when their line
is complete. For each line that matters to those behind it a few characters are kept: a paragraph is its first line,
code is its fence, and what is complete is forgotten. So the cost of a text grows with its length.
"""

from __future__ import annotations

import re
from dataclasses import replace

from runtime.markdown.addresses import Addresses
from runtime.markdown.growing_inline import GrowingInline
from runtime.markdown.reading import Kind, Leaf, read_blocks, spoken_row

MAX_CONTEXT = 64  # lines that the open block is read by; behind so many of nested lists the next line begins anew
_LONGEST_BEGINNING = 256  # characters that are looked at to say what a line is; else it is known at its end
_MAX_FENCED = 256  # the same in code, where beginning anew would speak it

# The beginning of a line that more characters may make a rule, an underline, an item, a fence or a definition.
_MAY_BE_BLOCK = re.compile(
    r"(?:([-*_])[ \t]*(?:\1[ \t]*)*|[-+*][ \t]*|\d{1,9}(?:[.)][ \t]*)?|=+[ \t]*|`{1,2}|~{1,2}"
    r"|\[[^\[\]]*(?:\](?::.*)?)?)",
    re.DOTALL,
)
_TEXT = re.compile(r"[^\s>]")  # Not the margin of a quotation.
_SPACE = " \t"
_MARKED = re.compile(r"[.!?…:;,。！？：；，、؟।][\"'”’»)\]）」』]*\Z")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class GrowingMarkdown:
    """One text. What the methods return, joined, is what is to be spoken, and the same for any pieces."""

    def __init__(self) -> None:
        self._context: list[str] = []  # lines before this one that say what it is
        self._line = ""  # of which nothing was said yet
        self._flows = False  # this line is a paragraph's for certain
        self._kept: str | None = None  # what the lines behind it need of this line
        self._settled = 0  # of the context, lines that are not needed
        self._waits = False  # nothing of this line is said before it is complete
        self._open: Leaf | None = None  # of which more may come
        self._inline = GrowingInline()
        self._sayings = _Sayings()
        self._ended_with_return = False
        self._has_come = False  # something but white space

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        if not text:
            return ""
        begins_with_its_newline, self._ended_with_return = self._ended_with_return, text.endswith("\r")
        text = text.removeprefix("\n") if begins_with_its_newline else text
        self._has_come = self._has_come or bool(text.strip())
        first, *lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._more(first)
        for line in lines:
            self._end_line()
            self._more(line)
        return self._sayings.take()

    def flush(self) -> str:
        """Return what there is now, as if the text ended here. The line goes on as a part of the same paragraph."""
        if not self._flows and self._line.strip():
            self._classify(is_whole=True)
        self._sayings.say(self._inline.finish())
        self._sayings.pause()
        return self._sayings.take()

    def finish(self) -> str:
        """The text is complete: return the rest. A text of which nothing is said is a pause."""
        if self._line or self._flows:
            self._end_line()
        self._close()
        rest = self._sayings.take()
        return rest if self._sayings.has_spoken or not self._has_come else "."

    def _more(self, text: str) -> None:
        """More of this line."""
        if text and not (self._flows or self._waits):
            room = max(0, _LONGEST_BEGINNING - len(self._line))
            self._line, text = self._line + text[:room], text[room:]
            if self._line.strip():
                self._classify()
            self._waits = self._waits or (bool(text) and not self._flows)
        if self._flows:
            self._sayings.say(self._inline.add(text))
        else:
            self._line += text

    def _classify(self, *, is_whole: bool = False) -> None:
        """Let the line flow if it is a paragraph's for certain, or have it wait for its end if it is none."""
        blocks = read_blocks("\n".join([*self._context, self._line]))
        leaf = blocks.at(len(self._context))
        if leaf is None or leaf.kind is Kind.UNDERLINED or not leaf.source:
            return
        if leaf.kind is Kind.PARAGRAPH or (is_whole and leaf.kind is Kind.HEADING):
            text = _last_line(leaf, self._line)
            if is_whole or not _MAY_BE_BLOCK.fullmatch(text):
                self._settled = blocks.settled
                self._flow(leaf, text)
        elif is_whole and leaf.kind is Kind.ROW:
            self._end_line()
        else:
            self._waits = True

    def _flow(self, leaf: Leaf, text: str) -> None:
        """Say this text of a paragraph's line, and what comes of the line as it comes."""
        if leaf.start < len(self._context) and self._open is not None:
            self._kept = None
            text = "\n" + text
        else:
            self._kept = f"{self._line[: len(self._line) - len(text)]}x"
            self._begin(leaf)
        self._line = ""
        self._flows = True
        self._sayings.say(self._inline.add(text))

    def _end_line(self) -> None:
        line, self._line, self._waits = self._line, "", False
        if not self._flows and line.strip():
            self._line = line
            self._take(line)
        elif not self._flows:
            self._close()
            self._keep("" if self._context and self._context[-1] else None)
        if self._flows:
            self._sayings.say(self._inline.end_line())
            self._keep(self._kept)
        self._line = ""
        self._flows = False

    def _take(self, line: str) -> None:
        """Take a whole line of which nothing was said yet."""
        blocks = read_blocks("\n".join([*self._context, line]))
        leaf, at = blocks.at(len(self._context)), len(self._context)
        self._settled = blocks.settled
        if leaf is not None and leaf.kind is Kind.PARAGRAPH:
            self._flow(leaf, _last_line(leaf, line))
            return
        if leaf is not None and leaf.kind is Kind.UNDERLINED and self._open is not None:
            self._open = replace(self._open, kind=Kind.UNDERLINED)
        self._close()
        if leaf is not None and leaf.kind in {Kind.HEADING, Kind.ROW}:
            self._begin(leaf)
            spoken = spoken_row(leaf.source) if leaf.kind is Kind.ROW else self._inline.add(leaf.source)
            self._sayings.say(spoken)
            self._close()
        if leaf is not None and leaf.kind is Kind.FOOTNOTE:
            self._keep(
                _footnote_context(line, leaf.start == at, not self._context or not _TEXT.search(self._context[-1]))
            )
            return
        is_code = leaf is not None and leaf.kind is Kind.FENCE and leaf.start < at
        self._keep(None if is_code and "```" not in line and "~~~" not in line else line, is_code=is_code)

    def _keep(self, line: str | None, *, is_code: bool = False) -> None:
        if line is not None:
            self._context.append(line)
        self._context = self._context[self._settled :]
        self._settled = 0
        if len(self._context) > (_MAX_FENCED if is_code else MAX_CONTEXT):
            self._close()
            self._context = []

    def _begin(self, leaf: Leaf) -> None:
        self._close()
        self._open = leaf
        self._inline.begin()
        self._sayings.begin(leaf)

    def _close(self) -> None:
        """Nothing more comes of what is open."""
        if self._open is not None:
            self._sayings.say(self._inline.finish())
            self._sayings.end(is_sentence=self._open.is_sentence)
            self._open = None


def _last_line(leaf: Leaf, line: str) -> str:
    """Return what the line, which is the leaf's last, holds of it, with the white space behind."""
    text = leaf.source.rpartition("\n")[2].strip(_SPACE)
    start = line.rfind(text)
    return line[start:] if text and start >= 0 else text


def _footnote_context(line: str, is_first: bool, is_after_empty: bool) -> str | None:
    """Return what the lines behind a footnote's line need of it."""
    if is_first:
        return line[: line.index("]:") + 2] + " x"
    text = _TEXT.search(line)
    return line[: text.start()] + "x" if is_after_empty and text else None


class _Sayings:
    """What is said, one leaf after the other, with what belongs between them."""

    def __init__(self) -> None:
        self.has_spoken = False
        self._taken: list[str] = []
        self._addresses = Addresses()
        self._lead = ""  # what is said before the leaf's first word
        self._is_leading = True  # nothing was said of the leaf yet
        self._was_line = False  # the leaf before was an item or a row
        self._leaf: Leaf | None = None
        self._tail = ""  # the last of what was said
        self._space = ""  # behind it, which a full stop would come before

    def take(self) -> str:
        taken, self._taken = "".join(self._taken), []
        return taken

    def begin(self, leaf: Leaf) -> None:
        is_line = leaf.in_item or leaf.kind is Kind.ROW
        gap = "\n" if is_line and self._was_line else "\n\n"
        self._lead = (gap if self.has_spoken else "") + leaf.number
        self._is_leading = True
        self._leaf = leaf

    def say(self, text: str) -> None:
        if text:
            self._give(self._addresses.add(text))

    def pause(self) -> None:
        """What is said is to be heard, even where an address may go on."""
        self._give(self._addresses.finish())

    def end(self, *, is_sentence: bool) -> None:
        self.pause()
        self._space = ""
        if is_sentence and not self._is_leading and not _MARKED.search(self._tail):
            self._taken.append("。" if _WIDE.match(self._tail[-1:]) else ".")
        if not self._is_leading and self._leaf is not None:
            self._was_line = self._leaf.in_item or self._leaf.kind is Kind.ROW

    def _give(self, text: str) -> None:
        if self._is_leading:
            text = text.lstrip()
            if not text:
                return
            text, self._is_leading, self.has_spoken = self._lead + text, False, True
        text = self._space + text
        solid = text.rstrip() if self._leaf is not None and self._leaf.is_sentence else text
        self._space = text[len(solid) :]
        self._taken.append(solid)
        self._tail = (self._tail + text).rstrip()[-16:]
