"""User of the process at the other end of a local connection.

A proxy and other users of the machine connect from 127.0.0.1 as the host's browser does, but as another user.
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from starlette.requests import HTTPConnection

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
NOBODY = -1  # The socket has no process any more, and the system names root.
_ROOT = 0  # May read and change everything anyway, and is the relay of WSL.


def is_own_user(connection: HTTPConnection) -> bool:
    """Return True if the client's process has the studio's user or root, or if the system does not say (not Linux)."""
    user = peer_user(connection)
    return user is None or user in {_ROOT, os.getuid()}


def peer_user(connection: HTTPConnection) -> int | None:
    """Return the user id of the client's process, `NOBODY` if it has none, or None if the system does not say."""
    client, server = connection.scope.get("client"), connection.scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    try:
        lines = [line.split() for table in TABLES if table.exists() for line in table.read_text("ascii").splitlines()]
        ends = [_ends(*client), _ends(*server)]
    except (OSError, ValueError):
        return None
    if not lines:
        return None
    # Number, local and remote address, state, queues, timers, retries, user, timeout, inode.
    found = (fields for fields in lines if fields[1] in ends[0] and fields[2] in ends[1])
    return next((int(fields[7]) for fields in found if fields[9] != "0"), NOBODY)


def _ends(host: str, port: int) -> set[str]:
    """Return an address and port as the tables write them; IPv4 may be in either table."""
    address = ip_address(host)
    plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    forms = [plain.packed] if plain.version == 6 else [plain.packed, b"\0" * 10 + b"\xff\xff" + plain.packed]
    return {f"{_words(packed)}:{port:04X}" for packed in forms}


def _words(packed: bytes) -> str:
    """Return the bytes in hexadecimal, each four of them as a number of this machine's byte order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{socket.ntohl(int.from_bytes(word)):08X}" for word in words)
