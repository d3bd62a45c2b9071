"""Quotas of the store per visitor, per address and in total, and the deletion of old items for new ones.

All items of an owner count: the view `kept` has their bytes and the keyed hash of the sender's address. So a visitor
without the old cookie still has the same quota by address. Thread: any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from studio.errors import StoreFull
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import VISITOR
from studio.store.scripts import takes_in_scripts

_MIB = 2**20


@dataclass(slots=True)
class Excess:
    """Bytes by which a quota would be exceeded. With `address`, only items from there can make room."""

    bytes: int
    why: str
    address: str | None = None

    def can_shrink(self, address: str | None) -> bool:
        """Return True if deleting an item from this address helps."""
        return self.bytes > 0 and self.address in (None, address)


class Removable(NamedTuple):
    """Take or script that may be deleted, and the bytes that this frees."""

    table: Literal["takes", "scripts"]
    id: str
    freed: int
    is_deleted: bool
    address: str | None


class Quota:
    """Quota of an owner.

    Raises (every method):
        StorageFailed: The database cannot be read or written.
    """

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    def things_to_delete(
        self, owner: str, address: str | None, size: int, *, what: str, takes: int = 0
    ) -> list[Removable]:
        """Return the items to delete: scripts in the owner's bin, then the oldest deletable takes.

        Nothing is deleted if all of them would not be enough.

        Args:
            size: Bytes of the new item.
            what: Its name in the error.
            takes: Number of new takes.

        Raises:
            StoreFull: Too little may be deleted.
        """
        excesses = self._excesses(owner, address, size)
        surplus = self._surplus(owner) if takes else 0
        if surplus <= 0 and not excesses:
            return []
        going: list[Removable] = []
        for thing in (*self._scripts_in_bin(owner), *self._removable_takes(owner)):
            # Items in the bin count with their bytes, but not as takes.
            is_surplus = surplus > 0 and not thing.is_deleted
            if is_surplus or any(excess.can_shrink(thing.address) for excess in excesses):
                going.append(thing)
                surplus -= not thing.is_deleted
                for excess in excesses:
                    excess.bytes -= thing.freed if excess.can_shrink(thing.address) else 0
        if surplus > 0:
            why = f"{self._settings.max_takes} takes are kept, all favourites or in scripts; delete some"
            raise StoreFull(what=what, why=why)
        for excess in excesses:
            if excess.bytes > 0:
                raise StoreFull(what=what, why=excess.why)
        return going

    def bytes(self) -> int:
        """Return the bytes of all stored items including the bin."""
        return self._sum("TRUE")

    def _excesses(self, owner: str, address: str | None, size: int) -> list[Excess]:
        settings = self._settings
        shares: list[tuple[int, int, str, str | None]] = [
            (self.bytes(), settings.max_store_bytes, "all that is kept may have {n} MB; delete some", None)
        ]
        if owner.startswith(VISITOR):
            own = self._sum("owner = ?", owner)
            shares.append((own, settings.visitor_store_bytes, "a visitor may keep {n} MB; delete some", None))
        if address is not None:
            why = "visitors from your address may keep {n} MB together; delete some"
            shares.append((self._sum("address = ?", address), settings.address_store_bytes, why, address))
        return [
            Excess(kept + size - limit, why.format(n=limit // _MIB), place)
            for kept, limit, why, place in shares
            if kept + size > limit
        ]

    def _sum(self, condition: str, *values: str) -> int:
        ((found,),) = self._database.rows(f"SELECT coalesce(sum(bytes), 0) FROM kept WHERE {condition}", values)  # noqa: S608  ours, whole
        return int(found)

    def _surplus(self, owner: str) -> int:
        """Return the number of takes to delete before adding one."""
        query = "SELECT count(*) FROM takes WHERE owner = ? AND deleted_at IS NULL"
        ((count,),) = self._database.rows(query, (owner,))
        return int(count) + 1 - self._settings.max_takes

    def _scripts_in_bin(self, owner: str) -> list[Removable]:
        """Return the owner's deleted scripts, the oldest first."""
        query = "SELECT id, bytes, address FROM scripts WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY deleted_at"
        rows = self._database.rows(query, (owner,))
        return [Removable("scripts", script_id, size, True, address) for script_id, size, address in rows]

    def _removable_takes(self, owner: str) -> Iterator[Removable]:
        """Yield the deletable takes, those of the bin and the oldest first.

        A reference is deleted with its last take.
        """
        in_use = takes_in_scripts(self._database, owner)
        holders = Counter(
            name for (name,) in self._database.rows("SELECT reference FROM takes WHERE owner = ?", (owner,))
        )
        for take_id, size, reference, reference_bytes, is_deleted, address in self._database.rows(
            """SELECT id, bytes, reference, reference_bytes, deleted_at IS NOT NULL, address FROM takes
               WHERE owner = ? AND (favourite = 0 OR deleted_at IS NOT NULL) ORDER BY deleted_at IS NULL, created_ms""",
            (owner,),
        ):
            if take_id in in_use:
                continue
            holders[reference] -= 1
            freed = size + (reference_bytes if not holders[reference] else 0)
            yield Removable("takes", take_id, freed, bool(is_deleted), address)
