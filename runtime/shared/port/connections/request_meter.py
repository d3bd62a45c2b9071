"""Sizes of an HTTP request as it arrives: its head, and what a chunked body has around its data."""

from __future__ import annotations

from runtime.errors import HeadersTooLarge

MAX_HEAD_BYTES = 32 * 2**10  # Browsers and proxies stay below 16 KiB.
MAX_FIELDS = 100
MAX_FRAMING_BYTES = 64 * 2**10  # Chunk sizes, extensions and trailers, in addition to as many bytes as the body has.


class RequestMeter:
    """Count one connection's requests, one after the other.

    A request is measured from its second read on: how much of a read came before its first byte is not known, and is
    at most one read.

    Raises:
        HeadersTooLarge: `count_field` and `end_read`, if the request has more than it may have.
    """

    def __init__(self) -> None:
        self._is_open = False  # A request has begun and has not ended.
        self._has_begun_in_read = False
        self._is_head = False
        self._fields = 0
        self._extra_bytes = 0  # Received and no data of the body.
        self._body_bytes = 0
        self._read_body_bytes = 0

    def begin(self) -> None:
        """A request begins."""
        self._is_open = self._has_begun_in_read = self._is_head = True
        self._fields = self._extra_bytes = self._body_bytes = 0

    def count_field(self) -> bool:
        """Count a header or trailer; return True if it is a header."""
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise headers_too_large()
        return self._is_head

    def end_head(self) -> None:
        """The headers are complete; trailers are counted separately."""
        self._is_head = False
        self._fields = self._extra_bytes = 0

    def count_body(self, size: int) -> None:
        """Count data of the body."""
        self._body_bytes += size
        self._read_body_bytes += size

    def end(self) -> None:
        """The request is complete."""
        self._is_open = False

    def begin_read(self) -> None:
        """Bytes are about to be parsed."""
        self._has_begun_in_read = False
        self._read_body_bytes = 0

    def end_read(self, size: int) -> None:
        """Count the bytes of a read that have been parsed."""
        if self._has_begun_in_read or not self._is_open:
            return
        self._extra_bytes += size - self._read_body_bytes
        if self._extra_bytes > (MAX_HEAD_BYTES if self._is_head else MAX_FRAMING_BYTES + self._body_bytes):
            raise headers_too_large()


def headers_too_large() -> HeadersTooLarge:
    """Return the error with its limits."""
    return HeadersTooLarge(max_fields=MAX_FIELDS, max_bytes=MAX_HEAD_BYTES)
