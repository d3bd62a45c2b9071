"""HTML reader that splits a file into chapters at its headings."""

from __future__ import annotations

import re

from studio.documents.prose import prose_document
from studio.documents.values import (
    MAX_MARKUP_BYTES,
    MAX_TAGS,
    TOO_LARGE,
    Chapter,
    Document,
    OmittedContent,
    UnreadableError,
    cut_level,
    spaced,
)
from studio.documents.xhtml import XhtmlReader, body_of

_HEAD_BYTES = 4096
_HTML = re.compile(
    rb"(?:\s++|<\?xml[^>]*+>|<!--(?s:.*?)-->)*+(?:<!doctype\s+html|<(?:html|head|body)[\s>])", re.IGNORECASE
)
_BYTE_ORDER_MARKS = b"\xef\xbb\xbf\xff\xfe"  # Bytes of the UTF-8 and UTF-16 byte order marks.


def is_html(data: bytes) -> bool:
    """Return True if a file starts with HTML in UTF-8, UTF-16 or UTF-32."""
    return _HTML.match(data[:_HEAD_BYTES].replace(b"\0", b"").lstrip(_BYTE_ORDER_MARKS)) is not None


def check_size(data: bytes) -> None:
    """Raise `UnreadableError` if an HTML file has too many bytes or tags."""
    if len(data) > MAX_MARKUP_BYTES or data.count(b"<") > MAX_TAGS:
        raise UnreadableError(TOO_LARGE)


def read_html(data: bytes, omitted: OmittedContent) -> Document:
    """Read an HTML file as chapters of paragraphs.

    Raises:
        UnreadableError: The file exceeds a limit or has no text.
    """
    check_size(data)
    body = body_of(data)
    title = next((spaced("".join(one.itertext())) for one in body.getroottree().iter("{*}title")), "")
    headings = [one for one in body.iter(*(f"{{*}}h{level}" for level in range(1, 7)))]
    shown = [one for one in headings if next(one.iterancestors("{*}nav"), None) is None]
    deepest = cut_level(int(one.tag[-1]) for one in shown)
    titles = {"": title}
    for number, heading in enumerate(shown):
        if int(heading.tag[-1]) <= deepest:
            heading.set("id", place := f"chapter {number}")
            titles[place] = spaced("".join(heading.itertext()))
    notes: list[str] = []
    chapters, _ = XhtmlReader(titles, omitted, notes).read(body)
    return prose_document(title, [*chapters, Chapter("", notes, is_notes=True)], omitted)
