"""Storage of public links to recordings.

A recording has at most one link.

Thread: any.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Any

from studio.errors import NotKept
from studio.store.database import Database
from studio.store.takes import Takes

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")  # Pattern of a token, which has 256 bits.


class Shares:
    """Public links to recordings, for all owners.

    Raises (every method):
        StorageFailed: The database failed, and nothing was changed.
    """

    def __init__(self, database: Database, takes: Takes) -> None:
        self._database = database
        self._takes = takes

    def token_of(self, owner: str, take_id: str) -> str | None:
        """Return the token in the public link to a recording, or None if there is no link.

        Raises:
            NotKept: The owner has no such recording.
        """
        self._takes.find(owner, take_id)
        tokens = self._database.rows("SELECT token FROM shares WHERE owner = ? AND take = ?", (owner, take_id))
        return str(tokens[0][0]) if tokens else None

    def begin(self, owner: str, take_id: str) -> str:
        """Create a public link to a recording, and return the token in the link.

        If the recording already has a link, its token is returned.

        Raises:
            NotKept: The owner has no such recording.
        """
        with self._database.writing("The link") as connection:
            known = self.token_of(owner, take_id)
            if known is not None:
                return known
            token = secrets.token_urlsafe(32)
            connection.execute("INSERT INTO shares VALUES (?, ?, ?, ?)", (token, owner, take_id, time.time()))
        return token

    def end(self, owner: str, take_id: str) -> None:
        """Delete the public link to a recording.

        If the recording is shared again, the new link has another token.

        Raises:
            NotKept: The owner has no such recording.
        """
        self._takes.find(owner, take_id)
        with self._database.writing("The link") as connection:
            connection.execute("DELETE FROM shares WHERE owner = ? AND take = ?", (owner, take_id))

    def record_of(self, token: str) -> dict[str, Any]:
        """Return the metadata record of a shared recording.

        `token` is the token in the public link.

        Raises:
            NotKept: The link does not exist or was deleted, or the recording was deleted.
        """
        return self._takes.find(*self._meant(token))

    def pcm(self, token: str) -> tuple[dict[str, Any], bytes]:
        """Return the metadata record and the samples of a shared recording.

        The samples are s16le, 24 kHz, mono. `token` is the token in the public link.

        Raises:
            NotKept: The link does not exist or was deleted, or the recording was deleted.
            TakeDamaged: The file is missing or damaged.
        """
        return self._takes.pcm(*self._meant(token))

    def _meant(self, token: str) -> tuple[str, str]:
        found = []
        if _TOKEN.fullmatch(token):
            found = self._database.rows("SELECT owner, take FROM shares WHERE token = ?", (token,))
        if not found:
            raise NotKept(what="link")
        owner, take_id = found[0]
        return owner, take_id
