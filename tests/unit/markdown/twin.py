"""Reference for `GrowingMarkdown`: the spoken text of a complete Markdown text."""

from __future__ import annotations

import re

from runtime.markdown.addresses import Addresses
from runtime.markdown.reading import Kind, Leaf, read_blocks, read_inline, spoken_row


def spoken(text: str) -> str:
    said = []
    for leaf in read_blocks(text.replace("\r\n", "\n").replace("\r", "\n")).leaves:
        words = _words(leaf)
        if words:
            if leaf.is_sentence and not re.search(r"[.!?…:;,。！？：；，、؟।][\"'”’»)\]）」』]*$", words):
                words += "。" if re.search(r"[\u3040-\u30ff\u3400-\u9fff]$", words) else "."
            said.append(leaf.number + words)
    return "\n\n".join(said) or ("." if text.strip() else "")


def _words(leaf: Leaf) -> str:
    addresses = Addresses()
    source = spoken_row(leaf.source) if leaf.kind is Kind.ROW else read_inline(leaf.source).spoken
    return (addresses.feed_text(source) + addresses.finish()).strip()


def same_words(one: str, other: str) -> bool:
    """Return True if the two texts differ only in white space.

    At a line break, `GrowingMarkdown` has already emitted the white space.
    """
    one, other = (re.sub(r"\s+(?=[.。](?:\s|$))", "", text) for text in (one, other))
    return one.split() == other.split()
