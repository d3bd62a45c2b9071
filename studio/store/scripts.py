"""Store of scripts, by owner. Thread: any."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from runtime.errors import InvalidConfig
from runtime.shared.names import name_key
from studio.errors import StoreFull
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import OwnedRows, next_version
from studio.store.owners import VISITOR, MakeRoom
from studio.store.records import ScriptFields

MAX_BYTES = 8 * 2**20  # Bytes of one script as JSON.
BEGINNING = 120  # Characters of a script's first words in the list.
_OF_THE_STORE = {"id", "updated_at"}


class Scripts:
    """The scripts of everybody, each seen by its owner only; two owners may use one id.

    Raises (every method):
        StorageFailed: the database does not do it; nothing has changed then.
    """

    def __init__(self, database: Database, settings: StoreSettings, make_room: MakeRoom) -> None:
        self._database = database
        self._make_room = make_room
        self._rows = rows_of_scripts(database)
        self._settings = settings

    def all(self, owner: str, search: str = "") -> list[dict[str, Any]]:
        """Every script that holds every word of ``search``, without its lines, the last changed first."""
        condition = "owner = ? AND deleted_at IS NULL ORDER BY updated_at DESC, id"
        scripts = self._rows.objects(condition, (owner,))
        words = name_key(search).split()
        found = [script for script in scripts if not words or _holds(script, words)]
        return [{**script, "lines": len(script["lines"]), "begins": _begins(script["lines"])} for script in found]

    def find(self, owner: str, script_id: str) -> dict[str, Any]:
        """Return the script.

        Raises:
            NotKept: the owner has no such script, or has deleted it.
        """
        return self._rows.find(owner, script_id)

    def put(self, owner: str, script_id: str, fields: ScriptFields, *, address: str | None = None) -> dict[str, Any]:
        """Keep a script in the place of what was there under its id, and return it as it is kept.

        ``updated_at`` of the fields is the version that the page knows; 0: none yet; None: whatever is there is
        replaced.

        Raises:
            ChangedMeanwhile: another version is kept by now.
            InvalidConfig: it is too large.
            StoreFull: the owner has as many as may be kept, or a share of the store is full.
        """
        script = {name: value for name, value in fields.model_dump().items() if name not in _OF_THE_STORE}
        text = _as_json(script)
        size = len(text.encode())
        if size > MAX_BYTES:
            why = f"it has {size} bytes; the limit is {MAX_BYTES}"
            raise InvalidConfig(where="The script", why=why, param="lines")
        query = "SELECT bytes FROM scripts WHERE owner = ? AND id = ?"
        before = sum(found for (found,) in self._database.rows(query, (owner, script_id)))
        self._make_room(owner, address, size - before, what="The script")
        with self._database.writing("The script") as connection:
            script = {"id": script_id, "updated_at": self._next_version(owner, script_id, fields.updated_at), **script}
            query = "SELECT count(*) FROM scripts WHERE owner = ? AND id != ? AND deleted_at IS NULL"
            ((others,),) = connection.execute(query, (owner, script_id)).fetchall()
            if others >= self._settings.max_scripts:
                why = f"{self._settings.max_scripts} scripts are kept, which is the limit; delete some"
                raise StoreFull(what="The script", why=why)
            head = json.dumps({name: script[name] for name in ("id", "updated_at")})
            connection.execute(
                "INSERT OR REPLACE INTO scripts VALUES (?, ?, ?, NULL, ?, ?, ?)",
                (owner, script_id, script["updated_at"], f"{head[:-1]}, {text[1:]}", address, size),
            )
        return script

    def delete(self, owner: str, script_id: str) -> None:
        """Put a script into the bin.

        Raises:
            NotKept: the owner has no such script.
        """
        self._rows.mark(owner, script_id, time.time(), what="The script")

    def restore(self, owner: str, script_id: str) -> dict[str, Any]:
        """Bring a script back from the bin.

        Raises:
            NotKept: the owner has none of that id there.
        """
        self._rows.mark(owner, script_id, None, what="The script")
        return self.find(owner, script_id)

    def purge(self) -> None:
        """Delete for good what has lain in the bin long enough, and what visitors left behind."""
        now = time.time()
        old = now - 86400 * self._settings.visitor_days
        with self._database.writing("The scripts") as connection:
            connection.execute(
                "DELETE FROM scripts WHERE deleted_at < ? OR (owner LIKE ? AND updated_at < ?)",
                (now - self._settings.bin_s, f"{VISITOR}%", old),
            )

    def _next_version(self, owner: str, script_id: str, known: float | None) -> float:
        query = "SELECT updated_at FROM scripts WHERE owner = ? AND id = ? AND deleted_at IS NULL"
        versions = [version for (version,) in self._database.rows(query, (owner, script_id))]
        return next_version(versions[0] if versions else None, known, what="script")


def _as_json(script: dict[str, Any]) -> str:
    """Write a script line by line: one call for a long script would hold all other threads for its whole time."""
    rest = json.dumps({name: value for name, value in script.items() if name != "lines"}, ensure_ascii=False)
    lines = ", ".join(json.dumps(line, ensure_ascii=False) for line in script["lines"])
    return f'{rest[:-1]}, "lines": [{lines}]}}'


def _begins(lines: list[Any]) -> str:
    """Return the beginning of the first text in it: what a script without a name is known by."""
    texts = (line.get("text") for line in lines if isinstance(line, dict))
    return next((text[:BEGINNING] for text in texts if isinstance(text, str) and text.strip()), "")


def _holds(script: dict[str, Any], words: list[str]) -> bool:
    """True if each word is in the script's name, lines, voices or styles."""
    said = [script["name"]]
    for line in script["lines"]:
        voice = line.get("voice")
        who = [voice.get("voice"), voice.get("description")] if isinstance(voice, dict) else []
        said += [line.get("name"), line.get("text"), line.get("instruct"), *who]
    text = name_key("\n".join(word for word in said if isinstance(word, str)))
    return all(word in text for word in words)


def rows_of_scripts(database: Database) -> OwnedRows:
    return OwnedRows(database, "scripts", held="script", what="script")


def takes_in_scripts(database: Database, owner: str, script_id: str | None = None) -> set[str]:
    """Ids of the takes that an owner's scripts speak of, or one of them."""
    condition, values = "owner = ? AND deleted_at IS NULL", [owner]
    if script_id is not None:
        condition, values = f"{condition} AND id = ?", [owner, script_id]
    scripts = rows_of_scripts(database).objects(condition, values)
    return {take for script in scripts for take in _takes_in(script["lines"])}


def _takes_in(value: object) -> Iterator[str]:
    """Whatever is called ``take``, however deep: a line may have one take or several parts."""
    if isinstance(value, list):
        for item in value:
            yield from _takes_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "take" and isinstance(item, str):
                yield item
            else:
                yield from _takes_in(item)
