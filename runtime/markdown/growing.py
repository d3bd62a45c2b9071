"""Incremental conversion of Markdown to plain text for speech.

Text is returned as soon as later text cannot change it. To classify a new line, markdown-it parses the first characters
of the line together with the stored lines of the open blocks. Text of a paragraph is passed to `GrowingInline` as it
arrives. Headings and table rows are processed when their line is complete.

Of an open paragraph, only the first line is stored, and of an open code block, only the fence. Completed blocks are
discarded. Therefore the total cost is linear in the length of the text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from runtime.markdown.addresses import Addresses
from runtime.markdown.growing_inline import GrowingInline
from runtime.markdown.reading import Kind, Leaf, read_blocks, spoken_row

# Maximum number of earlier lines with which a new line is parsed. If there are more, they are dropped, and the next
# line is parsed as the start of a text. Only deeply nested lists need more lines.
MAX_CONTEXT_LINES = 64
# Maximum length in characters of a line start that does not identify the kind of the line. A longer line is held back
# until it is complete.
MAX_PREFIX_CHARS = 256
# Maximum number of earlier lines that are kept while a code block is open. If the block has more lines, they are
# spoken.
MAX_FENCED_LINES = 256

# Pattern of a line start that further characters may turn into a rule, an underline, a list item, a fence or a
# definition.
_MAY_BE_BLOCK = re.compile(
    r"(?:([-*_])[ \t]*(?:\1[ \t]*)*|[-+*][ \t]*|\d{1,9}(?:[.)][ \t]*)?|=+[ \t]*|`{1,2}|~{1,2}"
    r"|\[[^\[\]]*(?:\](?::.*)?)?)",
    re.DOTALL,
)
_TEXT = re.compile(r"[^\s>]")  # First character of the text in a line, after the markers of quotations.
_SPACE = " \t"
_MARKED = re.compile(r"[.!?…:;,。！？：；，、؟।][\"'”’»)\]）」』]*\Z")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class GrowingMarkdown:
    """Incremental converter of one Markdown text to spoken text.

    The text to speak is the concatenation of all results of `feed_text`, `flush` and `finish`. If `flush` is not
    called, the result does not depend on how the text is divided into pieces.
    """

    def __init__(self) -> None:
        self._context: list[str] = []  # Earlier lines that are needed to classify the current line.
        self._line = ""  # Text of the current line that has not been processed yet.
        self._is_paragraph = False  # True if the current line is known to belong to a paragraph.
        self._stored_line: str | None = None  # Line that represents the current line in `_context`, or None.
        self._settled = 0  # Number of lines in `_context` that are not needed any more.
        self._must_be_complete = False  # True if the current line must be complete before it is spoken.
        self._open: Leaf | None = None  # Block that may continue in the next line.
        self._inline = GrowingInline()
        self._output = _Output()
        self._ended_with_return = False
        self._has_begun = False  # True after the first character that is not white space.

    def feed_text(self, text: str) -> str:
        """Append Markdown text and return the new spoken text that is final.

        Spoken text that later input could change is held back.
        """
        if not text:
            return ""
        begins_with_its_newline, self._ended_with_return = self._ended_with_return, text.endswith("\r")
        text = text.removeprefix("\n") if begins_with_its_newline else text
        self._has_begun = self._has_begun or bool(text.strip())
        for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
            if number:
                self._end_line()
            if line and not (self._is_paragraph or self._must_be_complete):
                free_chars = max(0, MAX_PREFIX_CHARS - len(self._line))
                self._line, line = self._line + line[:free_chars], line[free_chars:]
                if self._line.strip():
                    line = self._classify() + line
                self._must_be_complete = self._must_be_complete or (bool(line) and not self._is_paragraph)
            if self._is_paragraph:
                self._output.append_text(self._inline.feed_text(line))
            else:
                self._line += line
        return self._output.pop_text()

    def flush(self) -> str:
        """Return the spoken text that was held back, as if the input ended here.

        The current paragraph may continue later.
        """
        if not self._is_paragraph and self._line.strip():
            self._output.append_text(self._inline.feed_text(self._classify(is_whole=True)))
        self._output.append_text(self._inline.finish())
        self._output.pause()
        return self._output.pop_text()

    def finish(self) -> str:
        """End the input and return the spoken text that was held back.

        If the whole text has no words, the result is a full stop, which is spoken as a pause.
        """
        if self._line or self._is_paragraph:
            self._end_line()
        self._close()
        rest = self._output.pop_text()
        return rest if self._output.has_spoken or not self._has_begun else "."

    def _classify(self, *, is_whole: bool = False) -> str:
        """Classify the current line, and return its text if it is known to belong to a paragraph.

        Text of a paragraph is output as it arrives. Other lines are processed when they are complete.
        """
        blocks = read_blocks("\n".join([*self._context, self._line]))
        leaf = blocks.at(len(self._context))
        if leaf is None or leaf.kind is Kind.UNDERLINED or not leaf.source:
            return ""
        if leaf.kind is Kind.PARAGRAPH or (is_whole and leaf.kind is Kind.HEADING):
            text = _last_line(leaf, self._line)
            if is_whole or not _MAY_BE_BLOCK.fullmatch(text):
                self._settled = blocks.settled
                return self._begin_paragraph_line(leaf, text)
        elif is_whole and leaf.kind is Kind.ROW:
            self._end_line()
        else:
            self._must_be_complete = True
        return ""

    def _begin_paragraph_line(self, leaf: Leaf, text: str) -> str:
        """Start a line of a paragraph, and return the text of the line so far."""
        if leaf.start < len(self._context) and self._open is not None:
            self._stored_line = None
            text = "\n" + text
        else:
            self._stored_line = f"{self._line[: len(self._line) - len(text)]}x"
            self._begin(leaf)
        self._line = ""
        self._is_paragraph = True
        return text

    def _end_line(self) -> None:
        line, self._line, self._must_be_complete = self._line, "", False
        if not self._is_paragraph and line.strip():
            self._line = line
            self._process_line(line)
        elif not self._is_paragraph:
            self._close()
            self._store_line("" if self._context and self._context[-1] else None)
        if self._is_paragraph:
            self._output.append_text(self._inline.end_line())
            self._store_line(self._stored_line)
        self._line = ""
        self._is_paragraph = False

    def _process_line(self, line: str) -> None:
        """Process a complete line that has not been output yet."""
        blocks = read_blocks("\n".join([*self._context, line]))
        leaf, at = blocks.at(len(self._context)), len(self._context)
        self._settled = blocks.settled
        if leaf is not None and leaf.kind is Kind.PARAGRAPH:
            text = self._begin_paragraph_line(leaf, _last_line(leaf, line))
            self._output.append_text(self._inline.feed_text(text))
            return
        if leaf is not None and leaf.kind is Kind.UNDERLINED and self._open is not None:
            self._open = replace(self._open, kind=Kind.UNDERLINED)
        self._close()
        if leaf is not None and leaf.kind in {Kind.HEADING, Kind.ROW}:
            self._begin(leaf)
            spoken = spoken_row(leaf.source) if leaf.kind is Kind.ROW else self._inline.feed_text(leaf.source)
            self._output.append_text(spoken)
            self._close()
        if leaf is not None and leaf.kind is Kind.FOOTNOTE:
            self._store_line(
                _footnote_context(line, leaf.start == at, not self._context or not _TEXT.search(self._context[-1]))
            )
            return
        is_code = leaf is not None and leaf.kind is Kind.FENCE and leaf.start < at
        self._store_line(None if is_code and "```" not in line and "~~~" not in line else line, is_code=is_code)

    def _store_line(self, line: str | None, *, is_code: bool = False) -> None:
        if line is not None:
            self._context.append(line)
        self._context = self._context[self._settled :]
        self._settled = 0
        if len(self._context) > (MAX_FENCED_LINES if is_code else MAX_CONTEXT_LINES):
            self._close()
            self._context = []

    def _begin(self, leaf: Leaf) -> None:
        self._close()
        self._open = leaf
        self._inline.begin()
        self._output.begin(leaf)

    def _close(self) -> None:
        """End the open block."""
        if self._open is not None:
            self._output.append_text(self._inline.finish())
            self._output.end(is_sentence=self._open.is_sentence)
            self._open = None


def _last_line(leaf: Leaf, line: str) -> str:
    """Return the part of a leaf that is in its last line, with the white space after it."""
    text = leaf.source.rpartition("\n")[2].strip(_SPACE)
    start = line.rfind(text)
    return line[start:] if text and start >= 0 else text


def _footnote_context(line: str, is_first: bool, is_after_empty: bool) -> str | None:
    """Return the context line that replaces a footnote's line for later lines, or None."""
    if is_first:
        return line[: line.index("]:") + 2] + " x"
    text = _TEXT.search(line)
    return line[: text.start()] + "x" if is_after_empty and text else None


class _Output:
    """Output buffer that separates leaves with line breaks and full stops."""

    def __init__(self) -> None:
        self.has_spoken = False
        self._pieces: list[str] = []
        self._addresses = Addresses()
        self._lead = ""  # Item number and separator to output before the first word of the leaf.
        self._is_leading = True  # True until the first word of the leaf.
        self._was_line = False  # True if the previous leaf was a list item or a table row.
        self._leaf: Leaf | None = None
        self._tail = ""  # Last characters of the output.
        # White space after `_tail`, which is held back because a full stop may have to be inserted before it.
        self._space = ""

    def pop_text(self) -> str:
        text, self._pieces = "".join(self._pieces), []
        return text

    def begin(self, leaf: Leaf) -> None:
        is_line = leaf.in_item or leaf.kind is Kind.ROW
        gap = "\n" if is_line and self._was_line else "\n\n"
        self._lead = (gap if self.has_spoken else "") + leaf.number
        self._is_leading = True
        self._leaf = leaf

    def append_text(self, text: str) -> None:
        if text:
            self._give(self._addresses.feed_text(text))

    def pause(self) -> None:
        """Release all text, even if it may be the start of an address."""
        self._give(self._addresses.finish())

    def end(self, *, is_sentence: bool) -> None:
        self._give(self._addresses.finish())
        self._space = ""
        if is_sentence and not self._is_leading and not _MARKED.search(self._tail):
            self._pieces.append("。" if _WIDE.match(self._tail[-1:]) else ".")
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
        self._pieces.append(solid)
        self._tail = (self._tail + text).rstrip()[-16:]
