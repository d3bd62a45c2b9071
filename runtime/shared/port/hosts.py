"""Knows the names that a port may be called by, against pages whose names were made to lead here (DNS rebinding)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"localhost", "*.localhost"})
# Names that cannot be registered, so that no stranger's page has one: of a home, a company, a cluster.
_PRIVATE = frozenset({"*.local", "*.internal", "*.home.arpa", "*.lan", "*.test"})
ANY = "*"


class Hosts:
    """The names. An address of digits is always one: rebinding needs a name."""

    def __init__(self, names: str, address: str, env: Mapping[str, str] | None = None) -> None:
        """``names`` are the operator's, with commas between; ``address`` is what the port is bound to."""
        env = os.environ if env is None else env
        words = {word.strip().lower() for word in names.split(",") if word.strip()} | {address.lower()} | _LOOPBACK
        # What is reached from other machines is called by its machine's or its container's name as well.
        self._takes_bare = not _is_loopback(address)
        if self._takes_bare:
            words |= _PRIVATE
        self._names = words
        self._endings = tuple(word[1:] for word in words if word.startswith("*."))
        # A Space is reached through its proxy only, by names that are the host's to choose.
        self._any = ANY in self._names or bool(env.get("SPACE_ID"))

    def know(self, header: str) -> bool:
        """Whether the Host header of a request names us; a program of old may send none."""
        if self._any or not header:
            return True
        try:
            parts = urlsplit(f"//{header}")
            name = (parts.hostname or "").rstrip(".")
            _ = parts.port
        except ValueError:
            return False
        if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        is_bare = "." not in name
        return (
            name in self._names or name.endswith(self._endings) or _is_address(name) or (is_bare and self._takes_bare)
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"
