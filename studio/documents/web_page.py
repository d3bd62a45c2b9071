"""Web page reader that extracts the article with trafilatura, without menus and notices."""

from __future__ import annotations

from lxml import html

from studio.documents.html_file import check_size, read_html
from studio.documents.values import EMPTY, NO_EXTRACTOR, Document, LeftOut, UnreadableError
from studio.documents.xhtml import decoded


def read_web_page(data: bytes, left_out: LeftOut) -> Document:
    """Read only the article of a web page.

    Raises:
        UnreadableError: The page has no article or exceeds a limit, or trafilatura is not installed.
    """
    try:
        from trafilatura import extract, extract_metadata  # This import is slow, and the package is optional.
    except ImportError:
        raise UnreadableError(NO_EXTRACTOR) from None
    check_size(data)
    text = decoded(data)  # Unlike trafilatura, this uses the declared encoding.
    article = extract(text, output_format="html", include_formatting=True, include_comments=False)
    if not article:
        raise UnreadableError(EMPTY)
    tree = html.document_fromstring(article)
    for code in tree.xpath("//pre/pre"):  # Trafilatura represents a block of code as nested `pre` elements.
        code.tag = "code"
    document = read_html(html.tostring(tree, encoding="utf-8"), left_out)
    metadata = extract_metadata(text)
    document.title = metadata.title or document.title
    document.author = metadata.author or ""
    return document
