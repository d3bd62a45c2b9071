"""Reads EPUB 2 and 3: the spine's documents in their order, cut into chapters where the table of contents says.

A book is a ZIP archive of XHTML; the libraries for it on PyPI are under the AGPL or have been left, so it is read by
lxml here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

from lxml import etree, html

from studio.documents.archive import Archive, beside
from studio.documents.values import DAMAGED, PROTECTED, Chapter, Document, UnreadableError, spaced

CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_RIGHTS = {"META-INF/rights.xml", "META-INF/sinf.xml"}  # of Adobe's DRM, and of Apple's
# Fonts may be scrambled in a book that is free to read.
_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}

_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "div", "dl", "dt", "figcaption"),
    *("figure", "footer", "header", "hr", "li", "main", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
}
# What an element is in a book, in XML and in HTML.
_TYPE = ("{http://www.idpf.org/2007/ops}type", "epub:type")
_NAMED = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_OF_XML = {"amp", "lt", "gt", "quot", "apos"}
_UNSAID = {"script", "style", "head", "rt", "rp", "svg", "math", "template", "object", "audio", "video"}


def read_epub(archive: Archive) -> Document:
    """
    Raises:
        UnreadableError: it is damaged or protected.
    """
    if _is_protected(archive):
        raise UnreadableError(PROTECTED)
    package = _first(archive.xml(CONTAINER), "//*[local-name()='rootfile']/@full-path")
    if package not in archive.names:
        raise UnreadableError(DAMAGED)
    opf = archive.xml(package)
    items = {item.get("id"): item for item in _found(opf, "//*[local-name()='manifest']/*[local-name()='item']")}
    titles = _contents(archive, package, opf, list(items.values()))
    chapters = [Chapter("")]
    for reference in _found(opf, "//*[local-name()='spine']/*[local-name()='itemref']"):
        item = items.get(reference.get("idref"))
        if item is None or reference.get("linear") == "no" or "nav" in (item.get("properties") or "").split():
            continue
        name, _ = beside(package, item.get("href") or "")
        if name in archive.names:
            chapters += _chapters(archive.read(name), titles.get(name, {}))
    return Document(spaced(_first(opf, "//*[local-name()='metadata']/*[local-name()='title']/text()")), chapters)


def _is_protected(archive: Archive) -> bool:
    if _RIGHTS & archive.names:
        return True
    if _ENCRYPTION not in archive.names:
        return False
    ways = _found(archive.xml(_ENCRYPTION), "//*[local-name()='EncryptedData']/*[local-name()='EncryptionMethod']")
    return any(way.get("Algorithm") not in _FONTS for way in ways)


def _contents(
    archive: Archive, package: str, opf: etree._Element, items: list[etree._Element]
) -> dict[str, dict[str, str]]:
    """Titles by document and place in it; the place "" is its beginning. EPUB 3's table before EPUB 2's."""
    found: dict[str, dict[str, str]] = {}
    for item in sorted(items, key=lambda item: "nav" not in (item.get("properties") or "").split()):
        name, _ = beside(package, item.get("href") or "")
        if name not in archive.names or found:
            continue
        if "nav" in (item.get("properties") or "").split():
            entries = [
                (link.get("href") or "", "".join(link.itertext()))
                for link in _found(archive.xml(name), "(//*[local-name()='nav'])[1]//*[local-name()='a']")
            ]
        elif item.get("media-type") == "application/x-dtbncx+xml":
            entries = [
                (
                    _first(point, "./*[local-name()='content']/@src"),
                    _first(point, "./*[local-name()='navLabel']//text()[normalize-space()]"),
                )
                for point in _found(archive.xml(name), "//*[local-name()='navPoint']")
            ]
        else:
            continue
        for reference, title in entries:
            document, place = beside(name, reference)
            found.setdefault(document, {}).setdefault(place, spaced(title))
    return found


def _chapters(markup: bytes, titles: dict[str, str]) -> Iterator[Chapter]:
    """The chapters of one XHTML document. What has no title of the contents takes its first heading's."""
    chapter = Chapter(titles.get("", ""))
    for kind, text in _blocks(_body(markup), titles):
        if kind == "place":
            if chapter.paragraphs:
                yield chapter
                chapter = Chapter("")
            chapter.title = titles[text]
        elif paragraph := spaced(text):
            if kind == "heading" and not chapter.title and not chapter.paragraphs:
                chapter.title = paragraph
            chapter.paragraphs.append(paragraph)
    yield chapter


def _body(markup: bytes) -> etree._Element:
    """The body of a document: as XML, since HTML has no empty <title/>, or as HTML where it is no XML."""
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        root = etree.fromstring(_NAMED.sub(_numbered, markup), parser)
    except etree.XMLSyntaxError:
        try:
            root = html.document_fromstring(markup, parser=html.HTMLParser(no_network=True))
        except (etree.ParserError, ValueError):  # nothing in it
            return etree.Element("body")
    bodies = _found(root, "//*[local-name()='body']")
    return bodies[0] if bodies else root


def _numbered(entity: re.Match[bytes]) -> bytes:
    """A character of HTML's names, by its number: XML knows five of them."""
    name = entity[1].decode()
    known = html5.get(f"{name};")
    if known is None or name in _OF_XML:
        return entity[0]
    return "".join(f"&#{ord(character)};" for character in known).encode()


def _blocks(body: etree._Element, titles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Texts of blocks (``text``, ``heading``) and beginnings of chapters (``place``), in the order of the document."""
    pieces: list[str] = []
    kind = "text"
    skipped = 0

    def ended() -> Iterator[tuple[str, str]]:
        if pieces:
            yield kind, "".join(pieces)
            pieces.clear()

    for event, element in etree.iterwalk(body, events=("start", "end", "comment", "pi")):
        if not isinstance(element.tag, str):  # a comment, or an entity that is not replaced
            pieces.append("" if skipped or event == "start" else element.tail or "")
            continue
        name = etree.QName(element).localname.lower()
        unsaid = name in _UNSAID or any("noteref" in (element.get(key) or "") for key in _TYPE)
        if event == "start":
            if element.get("id") in titles and not skipped:
                yield from ended()
                yield "place", element.get("id") or ""
            if name in _BLOCKS and not skipped:
                yield from ended()
                kind = "heading" if name in _HEADINGS else "text"
            skipped += unsaid
            pieces.append("" if skipped else " " if name == "br" else element.text or "")
        else:
            skipped -= unsaid
            if name in _BLOCKS and not skipped:
                yield from ended()
                kind = "text"
            if not skipped and element is not body:
                pieces.append(element.tail or "")
    yield from ended()


def _found(element: etree._Element, path: str) -> list[etree._Element]:
    found = element.xpath(path)
    return [node for node in found if isinstance(node, etree._Element)] if isinstance(found, list) else []


def _first(element: etree._Element, path: str) -> str:
    """The first text that a path finds."""
    found = element.xpath(path)
    return str(found[0]) if isinstance(found, list) and found else ""
