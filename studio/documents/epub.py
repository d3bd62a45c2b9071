"""Reader of EPUB 2 and EPUB 3 books.

The XHTML files are read in the order of the spine, which is EPUB's reading order. The table of contents divides the
text into chapters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lxml import etree

from runtime.shared.audio.book_container import cover_of
from studio.documents.archive import Archive, resolve_reference
from studio.documents.charset import decode
from studio.documents.prose import prose_document
from studio.documents.values import (
    DAMAGED,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    PROTECTED,
    TOO_LARGE,
    Chapter,
    Document,
    OmittedContent,
    UnreadableError,
    spaced,
)
from studio.documents.xhtml import NAV_KINDS, XhtmlReader, body_of, kinds_of

CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_DRM_FILES = ("META-INF/rights.xml", "META-INF/sinf.xml")  # Files of Adobe's and Apple's DRM.
# Algorithms of obfuscated fonts, which books without DRM may contain.
_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
_SVG = "image/svg+xml"
_NCX = "application/x-dtbncx+xml"
_NO_MARKUP = ("audio/", "font/", "video/", "application/pdf", "text/css", "text/javascript")

Titles = dict[str, dict[str, str]]  # Chapter titles by document and anchor. The anchor "" is the start of the document.


def read_epub(archive: Archive, omitted: OmittedContent) -> Document:
    """Read the text, title, authors and cover of an EPUB book.

    Raises:
        UnreadableError: The book is damaged, has DRM, or exceeds a limit.
    """
    if _is_protected(archive):
        raise UnreadableError(PROTECTED)
    container = archive.xml(CONTAINER, recover=True)
    package = next((root.get("full-path") or "" for root in container.iter("{*}rootfile")), "")
    if archive.find(package) is None:
        raise UnreadableError(DAMAGED)
    opf = archive.xml(package, recover=True)
    items = {item.get("id"): item for item in opf.iter("{*}item")}
    title = next((spaced("".join(one.itertext())) for one in opf.iter("{*}title")), "")
    book = _Book(archive, package, items, omitted)
    document = book.read(title, list(opf.iter("{*}itemref")))
    authors = [name for one in opf.iter("{*}creator") if (name := spaced("".join(one.itertext())))]
    document.author = ", ".join(authors)[:MAX_TITLE_CHARS]
    document.cover = book.cover(opf)
    return document


class _Book:
    def __init__(
        self, archive: Archive, package: str, items: dict[str | None, etree._Element], omitted: OmittedContent
    ) -> None:
        self._archive = archive
        self._package = package
        self._items = items
        self._omitted = omitted
        self._notes: list[str] = []
        self._seen: set[str] = set()
        self._encoding: str | None = None  # Encoding of pages that are not UTF-8 and declare no encoding.

    def read(self, title: str, spine: list[etree._Element]) -> Document:
        part = self._archive.check_markup(name for one in spine if (name := self._page(one)[1]) is not None)
        with suppress(UnreadableError):
            self._encoding = decode(part).encoding if part else None
        titles = self._titles()
        linear = [one for one in spine if one.get("linear") != "no"]
        aside = [one for one in spine if one.get("linear") == "no"]
        chapters = self._read_all(linear, titles)
        if any(chapter.paragraphs for chapter in chapters):
            self._omitted.count_omission("asides", count=len(aside))
        else:
            chapters = self._read_all(aside, titles)
        return prose_document(title, [*chapters, Chapter("", self._notes, is_notes=True)], self._omitted)

    def cover(self, opf: etree._Element) -> str:
        """Return the cover image as a data URL, or an empty string if it is missing or unreadable."""
        named = next((one.get("content") for one in opf.iter("{*}meta") if one.get("name") == "cover"), None)
        marked = (item for item in self._items.values() if "cover-image" in (item.get("properties") or "").split())
        item = next(marked, None)
        item = self._items.get(named) if item is None else item
        name = None if item is None else self._entry(item)
        image = None if name is None else self._archive.picture(name)
        return "" if image is None else cover_of(image)

    def _read_all(self, references: list[etree._Element], titles: Titles) -> list[Chapter]:
        chapters, chars = [], 0
        for reference in references:
            for chapter in self._chapters(reference, titles):
                chapters.append(chapter)
                chars += sum(map(len, chapter.paragraphs))
            if chars > MAX_TEXT_CHARS:
                raise UnreadableError(TOO_LARGE)
        return chapters

    def _chapters(self, reference: etree._Element, titles: Titles) -> Iterator[Chapter]:
        """Yield the chapters of one spine document, and skip repeated documents."""
        item, name = self._page(reference)
        if item is None:
            self._omitted.count_omission("missing_pages", reference.get("idref"))
        elif name is None:
            self._omitted.count_omission("pictures", item.get("href"))
        elif name in self._seen:
            self._omitted.count_omission("repeated_pages", name)
        else:
            self._seen.add(name)
            reader = XhtmlReader(titles.get(name, {}), self._omitted, self._notes)
            chapters, has_text = reader.read(body_of(self._archive.read(name), self._encoding))
            if has_text or not _is_nav(item):  # A table of contents that has only a heading is not a chapter.
                yield from chapters

    def _page(self, reference: etree._Element) -> tuple[etree._Element | None, str | None]:
        """Return the manifest item of a spine reference, and the name of its archive entry.

        The name is None for a picture. Both are None if the item or the entry is missing.
        """
        item = self._readable(self._items.get(reference.get("idref")))
        name = None if item is None else self._entry(item)
        if item is None or name is None:
            return None, None
        is_picture = _kind(item).startswith("image/") and _kind(item) != _SVG
        return item, None if is_picture else name

    def _readable(self, item: etree._Element | None) -> etree._Element | None:
        """Return the item if it is markup, or else its first fallback that is."""
        seen: list[etree._Element] = []
        while item is not None and item not in seen and _kind(item).startswith((*_NO_MARKUP, "image/")):
            seen.append(item)
            item = self._items.get(item.get("fallback"))
        return item if item is not None or not seen else seen[0]

    def _entry(self, item: etree._Element) -> str | None:
        return self._archive.find(resolve_reference(self._package, item.get("href") or "")[0])

    def _titles(self) -> Titles:
        """Return the chapter titles from the EPUB 3 table of contents, or from that of EPUB 2."""
        found: Titles = {}
        for item in sorted(self._items.values(), key=_is_nav, reverse=True):
            name = self._entry(item) if _is_nav(item) or _kind(item) == _NCX else None
            if name is None or found:
                continue
            entries = (
                _nav_entries(body_of(self._archive.read(name), self._encoding))
                if _is_nav(item)
                else self._ncx_entries(name)
            )
            for reference, title in entries:
                document, place = resolve_reference(name, reference)
                if (entry := self._archive.find(document)) is not None:
                    found.setdefault(entry, {}).setdefault(place, spaced(title))
        return found

    def _ncx_entries(self, name: str) -> Iterator[tuple[str, str]]:
        for point in self._archive.xml(name, recover=True).iter("{*}navPoint"):
            target, label = point.find("{*}content"), point.find("{*}navLabel")
            if target is not None and label is not None:
                yield target.get("src") or "", "".join(label.itertext())


def _nav_entries(body: etree._Element) -> Iterator[tuple[str, str]]:
    navs = list(body.iter("{*}nav"))
    contents = [nav for nav in navs if kinds_of(nav) & {"toc", "doc-toc"}]
    contents += [nav for nav in navs if not kinds_of(nav) & NAV_KINDS]
    for nav in contents[:1]:
        for link in nav.iter("{*}a"):
            yield link.get("href") or "", "".join(link.itertext())


def _is_nav(item: etree._Element) -> bool:
    return "nav" in (item.get("properties") or "").split()


def _kind(item: etree._Element) -> str:
    return (item.get("media-type") or "").lower()


def _is_protected(archive: Archive) -> bool:
    if any(archive.find(name) is not None for name in _DRM_FILES):
        return True
    if archive.find(_ENCRYPTION) is None:
        return False
    data = archive.xml(_ENCRYPTION, recover=True).iter("{*}EncryptedData")
    ways = [way for one in data for way in one.iterfind("{*}EncryptionMethod")]
    return any(way.get("Algorithm") not in _FONTS for way in ways)
