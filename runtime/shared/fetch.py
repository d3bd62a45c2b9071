"""Download from an https URL that a client has sent, with limits.

Only public machines are contacted. The host name is resolved once, and the connection is opened to the address that was
checked.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx

from runtime.errors import AddressRefused, MessageTooLarge, MoreThan, SpeechError

FETCH_TIMEOUT_S = 5.0
MAX_URL_CHARS = 2048  # Maximum number of characters of a URL.
PORT = 443

# Pattern of a label in a host name. The last label must contain a letter, which excludes IP addresses in any notation.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?=[a-z0-9-]*[a-z]){_LABEL})(?::443)?(?P<target>/[!-\[\]-~]*|\?[!-\[\]-~]*)?",
    re.IGNORECASE,
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

# The logger of httpx would log every URL.
logging.getLogger("httpx").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Host name and path of a URL."""

    host: str
    target: bytes  # Path and query of the URL.


def web_address_of(address: str, field: str = "ref_audio") -> WebAddress:
    """Parse an https URL that a client has sent.

    Args:
        address: URL to parse.
        field: Name of the request field with the URL, for error messages.

    Raises:
        AddressRefused: The URL is not https, or has parts other than host, path and query.
    """
    found = _ADDRESS.fullmatch(address) if len(address) <= MAX_URL_CHARS else None
    if found is None or "#" in address:
        _refuse("only https://host/path is supported, without user, port or IP address", field)
    target = found["target"] or "/"
    return WebAddress(found["host"].lower(), ("/" + target if target.startswith("?") else target).encode())


def is_public(address: str) -> bool:
    """True if an IP address is public.

    An IPv4 address that is embedded in an IPv6 address must also be public.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner:
            return is_public(str(inner))
        if ip.is_site_local:  # `is_global` is also true for these site-local addresses, which are deprecated.
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not ip.is_unspecified


def resolve(host: str) -> list[str]:
    """Return all IP addresses of a host name.

    Raises:
        OSError: The host has no address.
    """
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Downloader of https URLs that clients have sent.

    Args:
        field: Name of the request field with the URL, for error messages.
        redirects: Maximum number of redirects. Each redirect target is checked in the same way as the URL.
        seconds: Maximum seconds from the start of the first request to the last byte.
    """

    field: str = "ref_audio"
    redirects: int = 0
    resolve: Callable[[str], list[str]] = resolve
    is_public: Callable[[str], bool] = is_public
    port: int = PORT
    context: ssl.SSLContext | None = None
    seconds: float = FETCH_TIMEOUT_S

    def fetch(self, address: str, *, max_bytes: int) -> bytes:
        """Download the content of an https URL.

        Raises:
            AddressRefused: The address is refused, timed out, or responded with a status other than 200.
            MessageTooLarge: The response has more than `max_bytes` bytes.

        Thread: worker thread. The call takes up to `FETCH_TIMEOUT_S`.
        """
        target = web_address_of(address, self.field)
        result: list[bytes | SpeechError] = []
        sockets: list[socket.socket] = []
        # A DNS resolver has no timeout. Therefore it runs in a separate thread, which is abandoned at the deadline.
        reading = threading.Thread(target=lambda: result.append(self._outcome(target, max_bytes, sockets)), daemon=True)
        reading.start()
        reading.join(self.seconds)
        if not result:
            for connection in sockets:  # The connections are closed to end a thread that reads from a slow server.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            _refuse(self._late, self.field)
        if isinstance(result[0], SpeechError):
            raise result[0]
        return result[0]

    @property
    def _late(self) -> str:
        return f"it did not answer within {self.seconds:g} s"

    def _outcome(self, address: WebAddress, max_bytes: int, sockets: list[socket.socket]) -> bytes | SpeechError:
        try:
            end = time.monotonic() + self.seconds
            for _ in range(self.redirects + 1):
                found = self._read(address, max_bytes, end, sockets)
                if isinstance(found, bytes):
                    return found
                address = found
            _refuse("it redirects too often", self.field)
        except SpeechError as error:
            return error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
            return AddressRefused(where=self.field, why="it could not be reached", param=self.field)

    def _read(
        self, address: WebAddress, max_bytes: int, end: float, sockets: list[socket.socket]
    ) -> bytes | WebAddress:
        """Return the body of the response, or the address to which the response redirects."""
        pinned = self._pinned(address.host)
        url = httpx.URL(scheme="https", host=pinned, port=self.port, raw_path=address.target)
        headers = {"Host": address.host, "Accept-Encoding": "identity", "User-Agent": "voicewright"}
        context = self.context or ssl.create_default_context()

        def keep_socket(event: str, result: dict[str, Any]) -> None:
            if event == "connection.start_tls.complete":
                sockets.append(result["return_value"].get_extra_info("socket"))

        extensions = {"sni_hostname": address.host, "trace": keep_socket}
        with (
            httpx.Client(verify=context, trust_env=False, follow_redirects=False, timeout=self.seconds) as client,
            client.stream("GET", url, headers=headers, extensions=extensions) as response,
        ):
            if self.redirects and response.is_redirect:
                source = httpx.URL(f"https://{address.host}{address.target.decode()}")
                # Some servers send non-ASCII characters in the header Location, which `join` percent-encodes.
                target = source.join(response.headers["location"]).copy_with(fragment=None)
                return web_address_of(str(target), self.field)
            if response.status_code != 200:
                also = "" if self.redirects else "; redirects are not followed"
                _refuse(f"it answered with another status than 200{also}", self.field)
            data = bytearray()
            for piece in response.iter_raw():
                data += piece
                if len(data) > max_bytes:
                    what = f"The file at {self.field}"
                    raise MessageTooLarge(what=what, size=MoreThan(max_bytes), limit=max_bytes, param=self.field)
                if time.monotonic() > end:
                    _refuse(self._late, self.field)
            return bytes(data)

    def _pinned(self, host: str) -> str:
        """Return the IP address of the host that the connection uses."""
        addresses = self.resolve(host)
        if not addresses or not all(self.is_public(address) for address in addresses):
            _refuse("its host is not a public one", self.field)
        return addresses[0]


def _refuse(why: str, field: str) -> NoReturn:
    raise AddressRefused(where=field, why=why, param=field)
