"""Web page reader that extracts the article of a page with trafilatura.

Menus and other boilerplate text are not part of the article.
"""

from __future__ import annotations

from lxml import html

from studio.documents.html_file import check_size, read_html
from studio.documents.values import EMPTY, NO_EXTRACTOR, Document, OmittedContent, UnreadableError
from studio.documents.xhtml import decoded


def read_web_page(data: bytes, omitted: OmittedContent) -> Document:
    """Read only the article of a web page.

    Raises:
        UnreadableError: The page has no article or exceeds a limit, or trafilatura is not installed.
    """
    try:
        # The import is inside the function, because it is slow and the package is optional.
        from trafilatura import bare_extraction, extract_metadata, load_html
        from trafilatura.htmlprocessing import convert_to_html
    except ImportError:
        raise UnreadableError(NO_EXTRACTOR) from None
    check_size(data)
    text = decoded(data)  # The function `decoded` uses the encoding that the page declares, but trafilatura does not.
    page = load_html(text)
    lists = {} if page is None else {_first_item(ordered): dict(ordered.attrib) for ordered in page.iter("ol")}
    article = None if page is None else bare_extraction(page, include_formatting=True, include_comments=False)
    if article is None or article.body is None:
        raise UnreadableError(EMPTY)
    # Set the tag and attributes of numbered lists, because the conversion to HTML would drop their numbers.
    for ordered in article.body.xpath(".//list[@rend='ol']"):
        ordered.tag = "ol"
        ordered.attrib.update(lists.get(_first_item(ordered), {}))
    tree = convert_to_html(article.body)
    for code in tree.xpath("//pre/pre"):  # Trafilatura represents a block of code as nested `pre` elements.
        code.tag = "code"
    document = read_html(html.tostring(tree, encoding="utf-8"), omitted)
    metadata = extract_metadata(text)
    document.title = metadata.title or document.title
    document.author = metadata.author or ""
    return document


def _first_item(ordered: html.HtmlElement) -> str:
    """Return the text of a list's first item, which is the same in the page and the article."""
    return " ".join("".join(ordered[0].itertext()).split()) if len(ordered) else ""
