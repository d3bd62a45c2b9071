"""Web page reader: trafilatura extracts the article without menus and notices."""

from __future__ import annotations

from lxml import html

from studio.documents.html_file import check_size, read_html
from studio.documents.values import EMPTY, NO_EXTRACTOR, Document, LeftOut, UnreadableError


def read_web_page(data: bytes, left_out: LeftOut) -> Document:
    """Read the article of a page.

    Raises:
        UnreadableError: It has no article, is larger than the limits, or trafilatura is not installed.
    """
    try:
        from trafilatura import extract, extract_metadata  # This import is slow, and the package is optional.
    except ImportError:
        raise UnreadableError(NO_EXTRACTOR) from None
    check_size(data)
    article = extract(data, output_format="html", include_formatting=True, include_comments=False)
    if not article:
        raise UnreadableError(EMPTY)
    tree = html.document_fromstring(article)
    for code in tree.xpath("//pre/pre"):  # Nested elements are trafilatura's form of a block of code.
        code.tag = "code"
    document = read_html(html.tostring(tree, encoding="utf-8"), left_out)
    metadata = extract_metadata(data)
    document.title = metadata.title or document.title
    document.author = metadata.author or ""
    return document
