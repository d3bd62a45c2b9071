"""Store of the visitors who have voices or dictionaries in the runtime, with their addresses.

The runtime knows owners only. So the studio limits how many visitors of one address keep something there, and deletes
what visitors left behind. Thread: any.
"""

from __future__ import annotations

import time

from studio.errors import StoreFull
from studio.store.database import Database

SEEN_EVERY_S = 86_400.0  # A visit is written down once in this time.


class RuntimeOwners:
    """The owners and the time of their last visit.

    Raises (every method):
        StorageFailed: the database does not do it; nothing has changed then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(self, owner: str, address: str | None, max_owners: int) -> None:
        """Note that an owner stores something in the runtime.

        Args:
            owner: the visitor.
            address: the keyed hash of the visitor's address.
            max_owners: visitors of one address who may store something there; 0: any number.

        Raises:
            StoreFull: so many others of this address do.
        """
        with self._database.writing("The voice") as connection:
            query = "SELECT count(*) FROM runtime_owners WHERE address = ? AND owner != ?"
            ((others,),) = connection.execute(query, (address, owner)).fetchall()
            if 0 < max_owners <= others:
                why = f"{others} visitors from your address keep voices or dictionaries, which is the limit"
                raise StoreFull(what="What you send", why=why)
            connection.execute("INSERT OR REPLACE INTO runtime_owners VALUES (?, ?, ?)", (owner, address, time.time()))

    def note_visit(self, owner: str) -> None:
        """Keep what an owner has in the runtime for some days more."""
        now = time.time()
        query = "SELECT 1 FROM runtime_owners WHERE owner = ? AND seen_at < ?"
        if self._database.rows(query, (owner, now - SEEN_EVERY_S)):
            with self._database.writing("The visit") as connection:
                connection.execute("UPDATE runtime_owners SET seen_at = ? WHERE owner = ?", (now, owner))

    def left_before(self, moment: float) -> list[str]:
        """Return the owners whose last visit was before this time, in seconds since the epoch."""
        rows = self._database.rows("SELECT owner FROM runtime_owners WHERE seen_at < ?", (moment,))
        return [owner for (owner,) in rows]

    def forget(self, owner: str) -> None:
        """Forget an owner who has nothing in the runtime any more."""
        with self._database.writing("The visit") as connection:
            connection.execute("DELETE FROM runtime_owners WHERE owner = ?", (owner,))
