"""Storage quotas, and selection of old items that are deleted when space is needed.

There are quotas per visitor, per network address, and for the whole store. The database stores a keyed hash of the
address with each item. Therefore, visitors cannot avoid the quota of their address by deleting their cookie.
Thread: any.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from studio.errors import StoreFull
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import VISITOR_PREFIX
from studio.store.scripts import takes_in_scripts

_MIB = 2**20
# SQL condition for the takes of an owner that no script uses. Its parameters are the owner and a JSON list of take ids.
_LOOSE = "owner = ? AND deleted_at IS NULL AND id NOT IN (SELECT value FROM json_each(?))"


@dataclass(slots=True)
class Excess:
    """Number of bytes by which a new item would exceed one storage quota.

    If `address` is set, the quota applies only to items from this address.
    """

    bytes: int
    why: str
    address: str | None = None

    def can_shrink(self, address: str | None) -> bool:
        """Return True if deleting an item of the client at `address` would reduce the excess."""
        return self.bytes > 0 and self.address in (None, address)


class Removable(NamedTuple):
    """Recording or script in the recycle bin that may be deleted to free `freed` bytes."""

    table: Literal["takes", "scripts"]
    id: str
    freed: int
    address: str | None


class Quota:
    """Storage quotas for owners, for network addresses and for the whole store.

    Raises (every method):
        StorageFailed: The database cannot be read or written.
    """

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    def items_to_delete(self, owner: str, address: str | None, size: int, *, what: str) -> list[Removable]:
        """Select the items in the owner's recycle bin that must be deleted to store a new item.

        Old scripts come first, and then old recordings that no script uses.

        Args:
            size: Size of the new item in bytes.
            what: Name of the new item in the error message.

        Raises:
            StoreFull: Deleting the whole recycle bin would not free enough space.
        """
        excesses = self._excesses(owner, address, size)
        if not excesses:
            return []
        going: list[Removable] = []
        for thing in (*self._scripts_in_bin(owner), *self._takes_in_bin(owner)):
            if any(excess.can_shrink(thing.address) for excess in excesses):
                going.append(thing)
                for excess in excesses:
                    excess.bytes -= thing.freed if excess.can_shrink(thing.address) else 0
        for excess in excesses:
            if excess.bytes > 0:
                raise StoreFull(what=what, why=excess.why)
        return going

    def check_count(self, owner: str) -> None:
        """Check that the owner may store one more recording.

        Recordings in scripts are not counted.

        Raises:
            StoreFull: The owner has the maximum number of recordings.
        """
        query = "SELECT count(*) FROM takes WHERE owner = ? AND deleted_at IS NULL"
        ((count,),) = self._database.rows(query, (owner,))
        most = self._settings.max_takes
        if count >= most and self._outside_scripts(owner)[0] >= most:
            why = f"the limit of {most} takes outside scripts is reached; delete some in the Library"
            raise StoreFull(what="The take", why=why)

    def space(self, owner: str) -> dict[str, Any]:
        """Return the number of an owner's recordings, their size in bytes, and the limits.

        The result is a JSON object for the page.
        """
        is_visitor = owner.startswith(VISITOR_PREFIX)
        takes, removable, size, first_ms, last_ms = self._outside_scripts(owner)
        ((in_bin,),) = self._database.rows(
            "SELECT count(*) FROM takes WHERE owner = ? AND deleted_at IS NOT NULL", (owner,)
        )
        return {
            "takes": takes,
            "in_bin": in_bin,
            "max_takes": self._settings.max_takes,
            "bytes": self._sum("owner = ?", owner) if is_visitor else self.bytes(),
            "max_bytes": self._settings.visitor_store_bytes if is_visitor else self._settings.max_store_bytes,
            "removable": {
                "takes": removable,
                "bytes": size,
                "from": None if first_ms is None else first_ms / 1000,
                "until": None if last_ms is None else last_ms / 1000,
            },
            "restorable_s": self._settings.bin_s,
        }

    def oldest_removable(self, owner: str, count: int) -> list[str]:
        """Return the ids of the owner's oldest recordings, at most `count`.

        Favourites, and recordings that scripts use, are not included.
        """
        query = f"SELECT id FROM takes WHERE {_LOOSE} AND favourite = 0 ORDER BY created_ms, id LIMIT ?"  # noqa: S608
        return [take_id for (take_id,) in self._database.rows(query, (owner, self._in_scripts(owner), count))]

    def bytes(self) -> int:
        """Return the total size of all stored items in bytes, including the recycle bin."""
        return self._sum("TRUE")

    def _excesses(self, owner: str, address: str | None, size: int) -> list[Excess]:
        settings = self._settings
        shares: list[tuple[int, int, str, str | None]] = [
            (self.bytes(), settings.max_store_bytes, "all that is kept may have {n} MB; delete some", None)
        ]
        if owner.startswith(VISITOR_PREFIX):
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
        ((found,),) = self._database.rows(f"SELECT coalesce(sum(bytes), 0) FROM kept WHERE {condition}", values)  # noqa: S608  constant SQL
        return int(found)

    def _outside_scripts(self, owner: str) -> tuple[int, int, int, int | None, int | None]:
        """Return statistics of the owner's takes that no script uses.

        The first value is the number of takes. The other values do not include favourites: the number of takes, their
        size in bytes, and the creation times of the oldest and the newest take in ms.
        """
        (found,) = self._database.rows(
            f"""SELECT count(*), count(*) FILTER (WHERE favourite = 0),
                coalesce(sum(bytes) FILTER (WHERE favourite = 0), 0),
                min(created_ms) FILTER (WHERE favourite = 0), max(created_ms) FILTER (WHERE favourite = 0)
                FROM takes WHERE {_LOOSE}""",  # noqa: S608
            (owner, self._in_scripts(owner)),
        )
        takes, removable, size, first_ms, last_ms = found
        return takes, removable, size, first_ms, last_ms

    def _in_scripts(self, owner: str) -> str:
        return json.dumps(sorted(takes_in_scripts(self._database, owner)))

    def _scripts_in_bin(self, owner: str) -> list[Removable]:
        """Return the owner's scripts in the bin, the oldest first."""
        query = "SELECT id, bytes, address FROM scripts WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY deleted_at"
        rows = self._database.rows(query, (owner,))
        return [Removable("scripts", script_id, size, address) for script_id, size, address in rows]

    def _takes_in_bin(self, owner: str) -> Iterator[Removable]:
        """Yield the owner's takes in the bin, the oldest first.

        The bytes of a shared reference recording count for the last take that uses it.
        """
        in_use = takes_in_scripts(self._database, owner)
        holders = Counter(
            name for (name,) in self._database.rows("SELECT reference FROM takes WHERE owner = ?", (owner,))
        )
        for take_id, size, reference, reference_bytes, address in self._database.rows(
            """SELECT id, bytes, reference, reference_bytes, address FROM takes
               WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY deleted_at""",
            (owner,),
        ):
            if take_id in in_use:
                continue
            holders[reference] -= 1
            freed = size + (reference_bytes if not holders[reference] else 0)
            yield Removable("takes", take_id, freed, address)
