"""Shares of the store: what one visitor, one address and all may keep, and which takes make room for something new.

Everything that belongs to an owner counts: the view `kept` has its bytes and the keyed hash of the address that it came
from. So a share lasts as long as what fills it, also for a visitor who drops the cookie. Thread: any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from studio.errors import StoreFull
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owners import VISITOR
from studio.store.scripts import takes_in_scripts

_MIB = 2**20


@dataclass(slots=True)
class Excess:
    """Bytes by which a share would be exceeded. ``address``: only what came from there makes room."""

    bytes: int
    why: str
    address: str | None = None

    def can_shrink(self, address: str | None) -> bool:
        """Return True if deleting something that came from this address helps."""
        return self.bytes > 0 and self.address in (None, address)


class _Removable(NamedTuple):
    """A take that may go, and the bytes that this frees."""

    id: str
    freed: int
    is_deleted: bool
    address: str | None


class Room:
    """Room for what an owner keeps.

    Raises (every method):
        StorageFailed: the database cannot be read or written.
    """

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    def takes_to_delete(self, owner: str, address: str | None, size: int, *, what: str, takes: int = 0) -> list[str]:
        """Return the owner's oldest takes that nobody asked to keep, as many as must go.

        Args:
            size: bytes of what is to be kept.
            what: its name in the error.
            takes: number of takes among it.

        Raises:
            StoreFull: there are not enough of them.
        """
        excesses = self._excesses(owner, address, size)
        if excesses and self._empty_bin_of_scripts(owner):
            excesses = self._excesses(owner, address, size)
        surplus = self._surplus(owner) if takes else 0
        if surplus <= 0 and not excesses:
            return []
        in_use = takes_in_scripts(self._database, owner)
        going: list[str] = []
        for take in self._removable(owner, in_use):
            # Takes in the bin have bytes but do not count as takes.
            is_surplus = surplus > 0 and not take.is_deleted
            if is_surplus or any(excess.can_shrink(take.address) for excess in excesses):
                going.append(take.id)
                surplus -= not take.is_deleted
                for excess in excesses:
                    excess.bytes -= take.freed if excess.can_shrink(take.address) else 0
        if surplus > 0:
            why = f"{self._settings.max_takes} takes are kept, all favourites or in scripts; delete some"
            raise StoreFull(what=what, why=why)
        for excess in excesses:
            if excess.bytes > 0:
                raise StoreFull(what=what, why=excess.why)
        return going

    def bytes(self) -> int:
        """Return the bytes of all that is kept, what is in the bin included."""
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
        """Return the number of takes that must go for one more."""
        query = "SELECT count(*) FROM takes WHERE owner = ? AND deleted_at IS NULL"
        ((count,),) = self._database.rows(query, (owner,))
        return int(count) + 1 - self._settings.max_takes

    def _removable(self, owner: str, in_use: Collection[str]) -> Iterator[_Removable]:
        """Yield the takes that may go, the bin's and the oldest first. A reference goes with the last that has it."""
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
            yield _Removable(take_id, freed, bool(is_deleted), address)

    def _empty_bin_of_scripts(self, owner: str) -> bool:
        """Delete the owner's scripts in the bin for good. Return True if there were any."""
        with self._database.writing("The scripts") as connection:
            query = "DELETE FROM scripts WHERE owner = ? AND deleted_at IS NOT NULL"
            return connection.execute(query, (owner,)).rowcount > 0
