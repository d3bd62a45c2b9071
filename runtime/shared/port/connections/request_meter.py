"""Limits on the size of an HTTP request's headers and on the overhead of chunked encoding."""

from __future__ import annotations

from runtime.errors import HeadersTooLarge

# Maximum size in bytes of the request line and headers. Browsers and proxies send at most 16 KiB.
MAX_HEAD_BYTES = 32 * 2**10
MAX_FIELDS = 100
MAX_FRAMING_BYTES = 64 * 2**10  # Maximum total size in bytes of chunk sizes, chunk extensions and trailers.


class RequestMeter:
    """Counter of the bytes and headers of each HTTP request on one connection.

    The block of received data in which a request starts is not counted, because the position of the request in the
    block is unknown.

    Raises:
        HeadersTooLarge: `count_field` and `end_read` raise this error if the request exceeds a limit.
    """

    def __init__(self) -> None:
        self._is_open = False  # True while a request is being received.
        self._has_begun_in_read = False
        self._is_head = False
        self._fields = 0
        self._extra_bytes = 0  # Number of received bytes that do not belong to the body's data.
        self._body_bytes = 0
        self._read_body_bytes = 0

    def begin(self) -> None:
        """Record the start of a request."""
        self._is_open = self._has_begun_in_read = self._is_head = True
        self._fields = self._extra_bytes = self._body_bytes = 0

    def count_field(self) -> bool:
        """Count a header or trailer, and return True if it is a header."""
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise headers_too_large()
        return self._is_head

    def end_head(self) -> None:
        """Record the end of the headers.

        Trailers are counted separately.
        """
        self._is_head = False
        self._fields = self._extra_bytes = 0

    def count_body(self, size: int) -> None:
        """Count `size` bytes of body data."""
        self._body_bytes += size
        self._read_body_bytes += size

    def end(self) -> None:
        """Record the end of the request."""
        self._is_open = False

    def begin_read(self) -> None:
        """Record that a block of data was received."""
        self._has_begun_in_read = False
        self._read_body_bytes = 0

    def end_read(self, size: int) -> None:
        """Record that a block of `size` bytes was parsed."""
        if self._has_begun_in_read or not self._is_open:
            return
        self._extra_bytes += size - self._read_body_bytes
        if self._extra_bytes > (MAX_HEAD_BYTES if self._is_head else MAX_FRAMING_BYTES + self._body_bytes):
            raise headers_too_large()


def headers_too_large() -> HeadersTooLarge:
    """Return a new HeadersTooLarge error with the limits on number and size of headers."""
    return HeadersTooLarge(max_fields=MAX_FIELDS, max_bytes=MAX_HEAD_BYTES)
