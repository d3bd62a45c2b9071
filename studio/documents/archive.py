"""Reader for ZIP-based documents (EPUB, DOCX) with limits on sizes and tags."""

from __future__ import annotations

import io
import posixpath
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import unquote

from lxml import etree

from studio.documents.charset import SAMPLE_BYTES, sample
from studio.documents.values import (
    DAMAGED,
    LOCKED,
    MAX_COVER_FILE_BYTES,
    MAX_FILES,
    MAX_MARKUP_BYTES,
    MAX_TAGS,
    MAX_TOTAL_MARKUP_BYTES,
    MAX_UNPACKED_BYTES,
    NO_DOCUMENT,
    OLD_OR_LOCKED,
    TOO_LARGE,
    UnreadableError,
)

COMPOUND_FILE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # First bytes of .doc files and of encrypted .docx files.
_ENCRYPTED_FLAG = 0x1
# Exceptions for damaged files. ValueError is raised if an offset in the directory is negative.
_DAMAGES = (KeyError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError)


class Archive:
    """Reader for the files in a ZIP-based document (EPUB or DOCX).

    Raises (every method):
        UnreadableError: The document is damaged, encrypted or exceeds a limit.
    """

    def __init__(self, data: bytes) -> None:
        if data.startswith(COMPOUND_FILE_MAGIC):
            raise UnreadableError(OLD_OR_LOCKED)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise UnreadableError(DAMAGED if data.startswith(b"PK") else NO_DOCUMENT) from None
        entries = self._zip.infolist()
        # The zipfile module never reads more than the sizes in the directory, so limiting their sum is sufficient.
        if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
            raise UnreadableError(TOO_LARGE)
        if any(entry.flag_bits & _ENCRYPTED_FLAG for entry in entries):
            raise UnreadableError(LOCKED)
        self._names = {_folded(entry.filename): entry.filename for entry in reversed(entries)}
        self._names |= {entry.filename: entry.filename for entry in entries}
        self._markup_bytes = 0
        self._tags = 0

    def find(self, name: str) -> str | None:
        """Return the exact name of an archive entry, or None if there is no such entry.

        The search ignores upper and lower case, the Unicode normalization form, the direction of slashes, and a query
        string.
        """
        for each in (name, _folded(name), _folded(name.partition("?")[0])):
            if each in self._names:
                return self._names[each]
        return None

    def check_markup(self, names: Iterable[str]) -> bytes:
        """Check that the markup entries are within the limits on size and number of tags.

        Call this method before the entries are parsed.

        Returns:
            Sample of the bytes of all entries that are not UTF-8, for the detection of their character encoding.
        """
        entries = [self._zip.getinfo(name) for name in dict.fromkeys(names)]
        if sum(entry.file_size for entry in entries) > MAX_TOTAL_MARKUP_BYTES:
            raise UnreadableError(TOO_LARGE)
        tags, samples = 0, b""
        for entry in entries:
            with suppress(*_DAMAGES):  # The method `read` reports the damage later.
                markup = self._zip.read(entry)
                tags += markup.count(b"<")
                if len(samples) < SAMPLE_BYTES and b"\0" not in markup and not _is_utf8(markup):
                    samples += sample(markup)
            if tags > MAX_TAGS:
                raise UnreadableError(TOO_LARGE)
        return samples

    def read(self, name: str) -> bytes:
        """Return the bytes of an XML or HTML entry of the archive."""
        entry = self.find(name)
        if entry is None:
            raise UnreadableError(DAMAGED)
        try:
            size = self._zip.getinfo(entry).file_size
            self._markup_bytes += size
            if size > MAX_MARKUP_BYTES or self._markup_bytes > MAX_TOTAL_MARKUP_BYTES:
                raise UnreadableError(TOO_LARGE)
            markup = self._zip.read(entry)
        except _DAMAGES:
            raise UnreadableError(DAMAGED) from None
        self._tags += markup.count(b"<")
        if self._tags > MAX_TAGS:
            raise UnreadableError(TOO_LARGE)
        return markup

    def picture(self, name: str) -> bytes | None:
        """Return the bytes of an image entry, or None if it is missing, damaged or too large."""
        entry = self.find(name)
        if entry is None or self._zip.getinfo(entry).file_size > MAX_COVER_FILE_BYTES:
            return None
        try:
            return self._zip.read(entry)
        except _DAMAGES:
            return None

    def xml(self, name: str, *, recover: bool = False) -> etree._Element:
        """Parse an archive entry as XML, without expanding entities or loading external files."""
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=recover)
        try:
            root = etree.fromstring(self.read(name), parser)
        except etree.XMLSyntaxError:
            raise UnreadableError(DAMAGED) from None
        if root is None:
            raise UnreadableError(DAMAGED)
        return root


def resolve_reference(name: str, reference: str) -> tuple[str, str]:
    """Resolve a relative link to a pair: the name of the target file, and the anchor in it.

    `name` is the archive entry that contains the link `reference`.
    """
    path, _, place = reference.partition("#")
    path = unquote(path)
    joined = path[1:] if path.startswith("/") else posixpath.join(posixpath.dirname(name), path)
    return (posixpath.normpath(joined) if path else name), unquote(place)


def _is_utf8(markup: bytes) -> bool:
    try:
        markup.decode()
    except UnicodeDecodeError:
        return False
    return True


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./")).casefold()
