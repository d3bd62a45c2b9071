"""Records of the visitors who have stored voices or dictionaries in the runtime.

The runtime does not receive the addresses of visitors. Therefore, the studio limits the number of such visitors per
address. It also deletes the runtime's data of visitors whose last visit was a long time ago. Thread: any.
"""

from __future__ import annotations

import time

from studio.errors import StoreFull
from studio.store.database import Database

SEEN_EVERY_S = 86_400.0  # Minimum interval in seconds between two recorded visits of an owner.


class RuntimeOwners:
    """Visitors who have stored data in the runtime, with the time of their last visit.

    Raises (every method):
        StorageFailed: The database failed, and nothing was changed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(self, owner: str, address: str | None, max_owners: int) -> None:
        """Record that a visitor is going to store data in the runtime.

        Args:
            owner: Owner name of the visitor.
            address: Keyed hash of the visitor's network address, or None.
            max_owners: Maximum number of such visitors per address, or 0 if it is unlimited.

        Raises:
            StoreFull: The address has the maximum number of visitors.
        """
        with self._database.writing("The voice") as connection:
            query = "SELECT count(*) FROM runtime_owners WHERE address = ? AND owner != ?"
            ((others,),) = connection.execute(query, (address, owner)).fetchall()
            if 0 < max_owners <= others:
                why = f"{others} visitors from your address keep voices or dictionaries, which is the limit"
                raise StoreFull(what="What you send", why=why)
            connection.execute("INSERT OR REPLACE INTO runtime_owners VALUES (?, ?, ?)", (owner, address, time.time()))

    def note_visit(self, owner: str) -> None:
        """Record the time of a visit.

        The visitor's data in the runtime is then kept longer.
        """
        now = time.time()
        query = "SELECT 1 FROM runtime_owners WHERE owner = ? AND seen_at < ?"
        if self._database.rows(query, (owner, now - SEEN_EVERY_S)):
            with self._database.writing("The visit") as connection:
                connection.execute("UPDATE runtime_owners SET seen_at = ? WHERE owner = ?", (now, owner))

    def left_before(self, moment: float) -> list[str]:
        """Return the owners whose last visit was before a Unix time."""
        rows = self._database.rows("SELECT owner FROM runtime_owners WHERE seen_at < ?", (moment,))
        return [owner for (owner,) in rows]

    def forget(self, owner: str) -> None:
        """Delete the record of a visitor who has no more data in the runtime."""
        with self._database.writing("The visit") as connection:
            connection.execute("DELETE FROM runtime_owners WHERE owner = ?", (owner,))
