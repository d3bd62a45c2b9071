"""Lookup of the user id of the process at the other end of a local connection.

A proxy or another user of the machine also connects from 127.0.0.1. The process of such a client has a different user
id from that of the operator's browser.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from starlette.requests import HTTPConnection

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
NOBODY = -1  # User id of a socket without a process. The system reports 0, which is the user id of root.
_NETLINK_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ANY_STATE, _NO_COOKIE = 4, 20, 1, 0xFFFFFFFF, 0xFFFFFFFF
_ROOT_UID = 0  # User id of root, who has access to everything. The relay of WSL runs as root.


def is_own_user(connection: HTTPConnection) -> bool:
    """Return True if the client's process runs as the studio's user or as root.

    The result is also True if the user is unknown.
    """
    user = peer_user(connection)
    return user is None or user in {_ROOT_UID, os.getuid()}


def peer_user(connection: HTTPConnection) -> int | None:
    """Return the user id of the client's process, or None if it is unknown.

    The result is `NOBODY` if the client's socket belongs to no process.
    """
    client, server = connection.scope.get("client"), connection.scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    try:
        user, inode = _diagnosed(*client, *server)
    except (OSError, ValueError, struct.error):
        return _listed(client, server)
    return user if inode else NOBODY


def _diagnosed(client: str, client_port: int, server: str, server_port: int) -> tuple[int, int]:
    """Return the user id and the inode of a client's socket, using sock_diag(7).

    The kernel finds one socket in microseconds, but reading the table of all sockets may take 0.2 s.

    Raises:
        OSError, struct.error: The kernel has no such socket, or does not support sock_diag.
        ValueError: An address is invalid.
    """
    if sys.platform != "linux":
        raise OSError
    ends = [_plain(client), _plain(server)]
    family = socket.AF_INET6 if ends[0].version == 6 else socket.AF_INET
    packed = b"".join(end.packed.ljust(16, b"\0") for end in ends)
    socket_id = struct.pack("!HH", client_port, server_port) + packed + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + socket_id
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.setblocking(False)  # The kernel's response is available when `send` returns.
        netlink.send(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _REQUEST, 0, 0) + request)
        answer = netlink.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] != _BY_FAMILY:
        raise OSError
    user, inode = struct.unpack_from("=II", answer, 80)
    return user, inode


def _listed(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the result of `peer_user`, using the kernel's table of all sockets."""
    try:
        lines = [line.split() for table in TABLES if table.exists() for line in table.read_text("ascii").splitlines()]
        ends = [_ends(*client), _ends(*server)]
    except (OSError, ValueError):
        return None
    if not lines:
        return None
    # Columns of /proc/net/tcp: number, local and remote address, state, queues, timers, retries, user, timeout, inode.
    found = (fields for fields in lines if fields[1] in ends[0] and fields[2] in ends[1])
    return next((int(fields[7]) for fields in found if fields[9] != "0"), NOBODY)


def _ends(host: str, port: int) -> set[str]:
    """Return an address and port in the format of /proc/net/tcp.

    An IPv4 address has two formats because it may be in either table.
    """
    plain = _plain(host)
    forms = [plain.packed] if plain.version == 6 else [plain.packed, b"\0" * 10 + b"\xff\xff" + plain.packed]
    return {f"{_hex_words(packed)}:{port:04X}" for packed in forms}


def _plain(host: str) -> IPv4Address | IPv6Address:
    """Parse an IP address, and convert an IPv4-mapped IPv6 address to IPv4."""
    address = ip_address(host)
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def _hex_words(packed: bytes) -> str:
    """Return bytes in hexadecimal, in groups of four in the byte order of this machine."""
    groups = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{socket.ntohl(int.from_bytes(word)):08X}" for word in groups)
