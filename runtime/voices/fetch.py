"""Download of a recording from a client's https address: public machines only, with limits.

What is checked is what is opened: the address is taken apart once, by us, its host is resolved once, and the
connection goes to the very address that was found public.
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

# Names only, whose last label has a letter: no form of a bare number is an address here.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?=[a-z0-9-]*[a-z]){_LABEL})(?::443)?(?P<target>/[!-\[\]-~]*|\?[!-\[\]-~]*)?",
    re.IGNORECASE,
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

# It writes every address that it opens into the log.
logging.getLogger("httpx").setLevel(logging.WARNING)

Resolve = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address, taken apart."""

    host: str
    target: bytes  # Path and query.


def web_address_of(address: str) -> WebAddress:
    """Take an address apart.

    Raises:
        AddressRefused: it is not https, or names anything but a host and a path on it.
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
    """Every address of a host.

    Raises:
        OSError: it has none.
    """
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Fetcher:
    """Opens addresses. Tests give it a resolver, a port and a certificate of their own."""

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
        """Read what lies at an address.

        Raises:
            AddressRefused: it is not opened, did not answer in time, or with anything but 200.
            MessageTooLarge: more than ``most`` bytes lie there.
        Thread: a worker; takes up to `SECONDS`.
        """
        target = web_address_of(address)
        result: list[bytes | SpeechError] = []
        # A thread of its own, because a resolver knows no deadline; what has not come by then is left to it.
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
