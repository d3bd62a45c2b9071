"""Opens the ZIP archive that a document is, and reads of it no more than the limits allow."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from urllib.parse import unquote

from lxml import etree

from studio.documents.values import (
    DAMAGED,
    LOCKED,
    MOST_FILES,
    MOST_MARKUP,
    MOST_UNPACKED,
    NO_DOCUMENT,
    OLD_OR_LOCKED,
    TOO_LARGE,
    UnreadableError,
)

COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # what Word wrote before 2007, and still does around what is locked
_PASSWORD = 0x1  # of an entry's flags


class Archive:
    """The entries of a document.

    Raises (every method):
        UnreadableError: it is damaged, locked or larger than may be.
    """

    def __init__(self, data: bytes) -> None:
        if data.startswith(COMPOUND):
            raise UnreadableError(OLD_OR_LOCKED)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise UnreadableError(DAMAGED if data.startswith(b"PK") else NO_DOCUMENT) from None
        entries = self._zip.infolist()
        # An entry gives no more bytes than the directory says, so what it says of all of them is a limit.
        if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_UNPACKED:
            raise UnreadableError(TOO_LARGE)
        if any(entry.flag_bits & _PASSWORD for entry in entries):
            raise UnreadableError(LOCKED)
        self.names = {entry.filename for entry in entries}

    def read(self, name: str) -> bytes:
        """One entry that holds markup."""
        try:
            if self._zip.getinfo(name).file_size > MOST_MARKUP:
                raise UnreadableError(TOO_LARGE)
            return self._zip.read(name)
        # ValueError: its directory says that it begins before the file does.
        except (KeyError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError):
            raise UnreadableError(DAMAGED) from None

    def xml(self, name: str) -> etree._Element:
        """One entry as XML; no entity is replaced and nothing is fetched."""
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
        root = etree.fromstring(self.read(name), parser)
        if root is None:
            raise UnreadableError(DAMAGED)
        return root


def beside(name: str, reference: str) -> tuple[str, str]:
    """The entry that a reference out of another one means, and the place in it."""
    path, _, place = unquote(reference).partition("#")
    return (posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name), place
