"""Download of a recording from a client's https address: public machines only, with limits.

The checked address is the one that is opened: the URL is parsed and its host resolved once, and the connection goes to
the IP address that was found to be public.
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
from dataclasses import dataclass
from typing import NoReturn

import httpx

from runtime.errors import AddressRefused, MessageTooLarge, MoreThan, SpeechError

SECONDS = 5.0  # Timeout from the first request to the last byte.
LONGEST = 2048  # Characters of an address.
PORT = 443

# Host names only, whose last label has a letter, which excludes all notations of IP addresses.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?=[a-z0-9-]*[a-z]){_LABEL})(?::443)?(?P<target>/[!-\[\]-~]*|\?[!-\[\]-~]*)?",
    re.IGNORECASE,
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

# The httpx logger would log every URL.
logging.getLogger("httpx").setLevel(logging.WARNING)

Resolve = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Parsed URL."""

    host: str
    target: bytes  # Path and query.


def web_address_of(address: str) -> WebAddress:
    """Parse a URL.

    Raises:
        AddressRefused: It is not https, or has parts other than host, path and query.
    """
    found = _ADDRESS.fullmatch(address) if len(address) <= LONGEST else None
    if found is None or "#" in address:
        _refuse("only https://host/path is taken, without user, port or bare number")
    target = found["target"] or "/"
    return WebAddress(found["host"].lower(), ("/" + target if target.startswith("?") else target).encode())


def is_public(address: str) -> bool:
    """True if an IP address is public, also when it is embedded in an IPv6 address."""
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
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not ip.is_unspecified


def resolve(host: str) -> list[str]:
    """Return all IP addresses of a host.

    Raises:
        OSError: The host has no address.
    """
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Fetcher:
    """Downloader of URLs. Tests pass another resolver, port and certificate."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        is_public: Callable[[str], bool] = is_public,
        port: int = PORT,
        context: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._resolve = resolve
        self._is_public = is_public
        self._port = port
        self._seconds = seconds
        self._context = context

    def fetch(self, address: str, *, most: int) -> bytes:
        """Download a URL.

        Raises:
            AddressRefused: The address is refused, timed out, or responded with another status than 200.
            MessageTooLarge: The response has more than `most` bytes.
        Thread: a worker; takes up to `SECONDS`.
        """
        target = web_address_of(address)
        result: list[bytes | SpeechError] = []
        # A separate thread, because resolvers have no timeout. It is abandoned at the deadline.
        reading = threading.Thread(target=lambda: result.append(self._outcome(target, most)), daemon=True)
        reading.start()
        reading.join(self._seconds)
        if not result:
            _refuse(f"it did not answer within {self._seconds:g} s")
        if isinstance(result[0], SpeechError):
            raise result[0]
        return result[0]

    def _outcome(self, address: WebAddress, most: int) -> bytes | SpeechError:
        try:
            return self._read(address, most)
        except SpeechError as error:
            return error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
            return AddressRefused(where="ref_audio", why="it could not be reached", param="ref_audio")

    def _read(self, address: WebAddress, most: int) -> bytes:
        end = time.monotonic() + self._seconds
        pinned = self._pinned(address.host)
        url = httpx.URL(scheme="https", host=pinned, port=self._port, raw_path=address.target)
        headers = {"Host": address.host, "Accept-Encoding": "identity", "User-Agent": "voicewright"}
        context = self._context or ssl.create_default_context()
        with (
            httpx.Client(verify=context, trust_env=False, follow_redirects=False, timeout=self._seconds) as client,
            client.stream("GET", url, headers=headers, extensions={"sni_hostname": address.host}) as response,
        ):
            if response.status_code != 200:
                _refuse("it answered with another status than 200; redirects are not followed")
            data = bytearray()
            for piece in response.iter_raw():
                data += piece
                if len(data) > most:
                    raise MessageTooLarge(
                        what="What lies at ref_audio", size=MoreThan(most), limit=most, param="ref_audio"
                    )
                if time.monotonic() > end:
                    _refuse(f"it did not answer within {self._seconds:g} s")
            return bytes(data)

    def _pinned(self, host: str) -> str:
        """Return the one address to connect to."""
        addresses = self._resolve(host)
        if not addresses or not all(self._is_public(address) for address in addresses):
            _refuse("its host is not a public one")
        return addresses[0]


def _refuse(why: str) -> NoReturn:
    raise AddressRefused(where="ref_audio", why=why, param="ref_audio")
