"""Database table whose rows have an owner and a JSON object.

Deleted rows stay in a recycle bin for a time. Thread: any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from runtime.shared.strict_json import parse_object
from studio.errors import ChangedMeanwhile, NotKept
from studio.store.database import Database

HOST_OWNER = "host"  # Owner of all rows if visitors have no separate history.
VISITOR_PREFIX = "visitor:"  # Prefix of a visitor's owner name. A digest of the visitor's cookie follows.
MEMBER_PREFIX = "member:"  # Prefix of a signed-in user's owner name. The user's id at the provider follows.


class MakeRoom(Protocol):
    """Callback that deletes old items to free storage space for `size` bytes of an owner.

    `what` names the new item in error messages.
    """

    def __call__(self, owner: str, address: str | None, size: int, *, what: str) -> None: ...


log = logging.getLogger(__name__)


class OwnedRows:
    """Database table with a column `owner` and a column with a JSON object.

    If the table has a recycle bin, its column `deleted_at` has the time of the deletion.

    Args:
        held: Name of the column with the JSON object.
        key: Name of the column that identifies a row among the rows of an owner.
        what: Noun for a row in the error message for a missing row.

    Raises (every method):
        StorageFailed: The database cannot be read or written.
    """

    def __init__(self, database: Database, table: str, *, held: str, key: str = "id", what: str = "") -> None:
        self._database = database
        self._table = table
        self._held = held
        self._key = key
        self._what = what

    def objects(self, condition: str, values: Sequence[Any], *, shown: str = "") -> list[dict[str, Any]]:
        """Return the JSON objects of the rows that match a condition.

        Unreadable rows are moved to the table `set_aside`.

        Args:
            condition: SQL text after WHERE.
            values: Values of the SQL placeholders.
            shown: SQL expression to select instead of the column with the object.
        """
        query = f"SELECT owner, {self._key}, {shown or self._held} FROM {self._table} WHERE {condition}"  # noqa: S608  constant SQL
        found = []
        for owner, row_id, text in self._database.rows(query, values):
            try:
                found.append(parse_object(text))
            except ValueError as error:
                self.set_aside(owner, row_id, str(error))
        return found

    def find(self, owner: str, row_id: str) -> dict[str, Any]:
        """Return the JSON object of a row that is not deleted.

        Raises:
            NotKept: The owner has no such row, or has deleted it.
        """
        found = self.objects("owner = ? AND id = ? AND deleted_at IS NULL", (owner, row_id))
        if not found:
            raise NotKept(what=self._what)
        return found[0]

    def mark(self, owner: str, row_id: str, deleted_at: float | None, *, what: str) -> None:
        """Move a database row into the recycle bin, or restore it.

        Args:
            deleted_at: Unix time of the deletion, or None to restore the row.
            what: Name of the row in the message of StorageFailed.

        Raises:
            NotKept: The owner has no such row.
        """
        if not self.mark_all(owner, [row_id], deleted_at, what=what):
            raise NotKept(what=self._what)

    def mark_all(self, owner: str, row_ids: Iterable[str], deleted_at: float | None, *, what: str) -> list[str]:
        """Move rows into the recycle bin or restore them, and return the ids of the moved rows.

        `deleted_at` is the Unix time of the deletion, or None to restore the rows.
        """
        state = "IS NOT NULL" if deleted_at is None else "IS NULL"
        change = f"UPDATE {self._table} SET deleted_at = ? WHERE owner = ? AND id = ? AND deleted_at {state}"  # noqa: S608
        with self._database.writing(what) as connection:
            return [
                row_id for row_id in row_ids if connection.execute(change, (deleted_at, owner, row_id)).rowcount > 0
            ]

    def set_aside(self, owner: str, row_id: str, why: str) -> None:
        """Move a row that cannot be parsed to the table `set_aside`, with the reason `why`."""
        table, key = self._table, f"owner = ? AND {self._key} = ?"
        with self._database.writing("Storage") as connection:
            connection.execute(
                f"INSERT INTO set_aside SELECT ?, ?, owner, {self._key}, {self._held} FROM {table} WHERE {key}",  # noqa: S608
                (time.time(), table, owner, row_id),
            )
            connection.execute(f"DELETE FROM {table} WHERE {key}", (owner, row_id))  # noqa: S608
        self._database.unreadable += 1
        log.warning("%s %s of the studio's database cannot be read (%s); it was set aside", table, row_id, why)


def next_version(before: float | None, known: float | None, *, what: str) -> float:
    """Return the new version of a database row that is about to be written.

    A version is the Unix time of a change. It is always greater than the stored version.

    Args:
        before: The stored version, or None if there is no row.
        known: The version that the page has read, 0 if it has read no version, or None to accept any stored version.

    Raises:
        ChangedMeanwhile: The stored version differs from the version that the page has read.
    """
    if known is not None and before not in (None, known):
        raise ChangedMeanwhile(what=what)
    return round(max(time.time(), (before or 0) + 0.001), 3)
