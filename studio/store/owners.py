"""Names of owners, which separate visitors' rows."""

from __future__ import annotations

from typing import Protocol

HOST = "host"  # Shared owner if visitors have no separate history.
VISITOR = "visitor:"  # Followed by a digest of the visitor's cookie.
MEMBER = "member:"  # Followed by the name of a signed-in user.


class MakeRoom(Protocol):
    """Makes room in the store, as `Takes.make_room`."""

    def __call__(self, owner: str, address: str | None, size: int, *, what: str) -> None: ...
