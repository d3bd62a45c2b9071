"""User of the process at the other end of a local connection.

A proxy and other users of the machine connect from 127.0.0.1 as the host's browser does, but as another user.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from starlette.requests import HTTPConnection

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ROOT = 0  # May read and change everything anyway, and is the relay of WSL.


def is_own_user(connection: HTTPConnection) -> bool:
    """Return True if the client's process has the studio's user or root, or if the system does not say (not Linux)."""
    user = peer_user(connection)
    return user is None or user in {_ROOT, os.getuid()}


def peer_user(connection: HTTPConnection) -> int | None:
    """Return the user id of the client's process, or None if the system does not say."""
    client, server = connection.scope.get("client"), connection.scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    own_end, other_end = f":{client[1]:04X}", f":{server[1]:04X}"
    for table in TABLES:
        with contextlib.suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()  # Number, local address, remote address, state, queues, timers, retries, user.
                if fields[1].endswith(own_end) and fields[2].endswith(other_end):
                    return int(fields[7])
    return None
