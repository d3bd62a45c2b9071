"""Storage of speech scripts (lines of text, each with a voice) by owner.

A script is stored as the text of a JSON object. SQLite parses the JSON texts, because its functions release the GIL.
Python's parser would block the event loop for a script with thousands of lines. Thread: any.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from runtime.errors import InvalidConfig, InvalidMessage
from runtime.shared.names import name_key
from runtime.shared.strict_json import MAX_DEPTH, parse_object
from studio.errors import NotKept, StoreFull
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import MakeRoom, OwnedRows, next_version
from studio.store.records import MAX_SCRIPT_LINES, ScriptHead, ScriptLine, read

MAX_BYTES = 8 * 2**20  # Maximum size of a script in bytes of JSON.
MAX_PART_BYTES = 2**20  # Maximum size in bytes of one line, and of all other fields together.
PREVIEW_CHARS = 120  # Number of characters of a script's first text in the list of scripts.

_IS_READABLE = "CASE WHEN json_valid(script) THEN json_type(script, '$.lines') IS 'array' ELSE FALSE END"
# SQL expression for a script with the number of its lines and the start of its first text, but without lines and
# cover. The result is empty for an unreadable script.
_SUMMARY = f"""CASE WHEN {_IS_READABLE} THEN json_set(
    json_remove(script, '$.lines', '$.cover'),
    '$.lines', json_array_length(script, '$.lines'),
    '$.begins', coalesce((
        SELECT substr(json_extract(line.value, '$.text'), 1, {PREVIEW_CHARS})
        FROM json_each(script, '$.lines') AS line
        WHERE trim(json_extract(line.value, '$.text'), char(9, 10, 13, 32, 160, 12288)) != '' LIMIT 1
    ), '')
) ELSE '' END"""  # noqa: S608  constant SQL
_EVERY_VALUE = f"scripts, json_tree(CASE WHEN {_IS_READABLE} THEN script ELSE '[]' END) AS item"
_OF_THE_STORE = {"id", "updated_at", "lines"}


class Scripts:
    """Stored speech scripts (lines of text, each with a voice) of all owners.

    An owner can only access the owner's own scripts. Different owners may use the same ids.

    Raises (every method):
        StorageFailed: The database failed, and nothing was changed.
    """

    def __init__(self, database: Database, settings: StoreSettings, make_room: MakeRoom) -> None:
        self._database = database
        self._make_room = make_room
        self._rows = OwnedRows(database, "scripts", held="script", what="script")
        self._settings = settings

    def all(self, owner: str, search: str = "", *, is_deleted: bool = False) -> list[dict[str, Any]]:
        """Return the owner's scripts that contain every word of `search`, without their lines.

        The scripts are sorted by the time of the last change, the newest first. If `is_deleted` is true, these are the
        scripts in the recycle bin.
        """
        state = "IS NOT NULL" if is_deleted else "IS NULL"
        condition = f"owner = ? AND deleted_at {state} ORDER BY updated_at DESC, id"
        scripts = self._rows.objects(condition, (owner,), shown=_SUMMARY)
        search_words = name_key(search).split()
        return [script for script in scripts if not search_words or self._holds(owner, script["id"], search_words)]

    def find(self, owner: str, script_id: str) -> bytes:
        """Return a stored speech script as JSON text.

        Raises:
            NotKept: The owner has no such script, or has deleted it.
        """
        query = f"SELECT {_IS_READABLE}, CAST(script AS BLOB) FROM scripts WHERE owner = ? AND id = ?"  # noqa: S608
        for is_readable, text in self._database.rows(f"{query} AND deleted_at IS NULL", (owner, script_id)):
            if is_readable:
                return bytes(text)
            self._rows.set_aside(owner, script_id, "it is not a script")
        raise NotKept(what="script")

    def put(self, owner: str, script_id: str, body: bytes, *, address: str | None = None) -> bytes:
        """Store or replace a speech script, and return it as JSON text.

        The field `updated_at` in the body is the version that the page has read, 0 if it has read no version, or None
        to replace any version.

        Raises:
            InvalidMessage: The body is not a JSON object.
            ChangedMeanwhile: The stored version differs from the version that the page has read.
            InvalidConfig: A field is invalid, or the script is too large.
            StoreFull: The owner has the maximum number of scripts, or a quota is exceeded.
        """
        script = parse_script(body)
        if script.size > MAX_BYTES:
            why = f"it has {script.size} bytes; the limit is {MAX_BYTES}"
            raise InvalidConfig(where="The script", why=why, param="lines")
        query = "SELECT bytes FROM scripts WHERE owner = ? AND id = ? AND deleted_at IS NULL"
        before = sum(found for (found,) in self._database.rows(query, (owner, script_id)))
        self._make_room(owner, address, script.size - before, what="The script")
        with self._database.writing("The script") as connection:
            updated_at = self._next_version(owner, script_id, script.known_version)
            query = "SELECT count(*) FROM scripts WHERE owner = ? AND id != ? AND deleted_at IS NULL"
            ((others,),) = connection.execute(query, (owner, script_id)).fetchall()
            if others >= self._settings.max_scripts:
                why = f"{self._settings.max_scripts} scripts are stored, which is the limit; delete some"
                raise StoreFull(what="The script", why=why)
            text = script.as_json(script_id, updated_at)
            connection.execute(
                "INSERT OR REPLACE INTO scripts VALUES (?, ?, ?, NULL, CAST(? AS TEXT), ?, ?)",
                (owner, script_id, updated_at, text, address, script.size),
            )
        return text

    def delete(self, owner: str, script_id: str) -> None:
        """Move a script into the recycle bin.

        Raises:
            NotKept: The owner has no such script.
        """
        self._rows.mark(owner, script_id, time.time(), what="The script")

    def restore(self, owner: str, script_id: str) -> bytes:
        """Restore a script from the recycle bin, and return it as JSON text.

        Raises:
            NotKept: The recycle bin has no script of the owner with this id.
        """
        self._rows.mark(owner, script_id, None, what="The script")
        return self.find(owner, script_id)

    def _holds(self, owner: str, script_id: str, words: list[str]) -> bool:
        """True if every word occurs in the script's name, lines, voices or styles."""
        query = f"""SELECT item.atom FROM {_EVERY_VALUE} WHERE owner = ? AND scripts.id = ? AND item.type = 'text'
            AND item.key IN ('name', 'text', 'instruct', 'voice', 'description')"""  # noqa: S608  constant SQL
        text = "\n".join(name_key(value) for (value,) in self._database.rows(query, (owner, script_id)))
        return all(word in text for word in words)

    def _next_version(self, owner: str, script_id: str, known: float | None) -> float:
        query = "SELECT updated_at FROM scripts WHERE owner = ? AND id = ? AND deleted_at IS NULL"
        versions = [version for (version,) in self._database.rows(query, (owner, script_id))]
        return next_version(versions[0] if versions else None, known, what="script")


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """Speech script after validation: its fields, and each line as JSON text."""

    head: dict[str, Any]
    lines: list[bytes]
    known_version: float | None

    @property
    def size(self) -> int:
        return len(json.dumps(self.head, ensure_ascii=False).encode()) + sum(len(line) + 2 for line in self.lines)

    def as_json(self, script_id: str, updated_at: float) -> bytes:
        head = json.dumps({"id": script_id, "updated_at": updated_at, **self.head}, ensure_ascii=False).encode()
        return b"".join([head[:-1], b', "lines": [', b", ".join(self.lines), b"]}"])


def parse_script(body: bytes) -> ParsedScript:
    """Validate a speech script that a client has sent, and return its fields and its lines.

    Raises:
        InvalidMessage: The body is not a JSON object, or cannot be stored (runtime/shared/strict_json.py).
        InvalidConfig: A field is invalid.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.text_factory = bytes
        connection.execute("CREATE TABLE body (script TEXT)")
        connection.execute("INSERT INTO body VALUES (CAST(? AS TEXT))", (body.removeprefix(b"\xef\xbb\xbf"),))
        ((is_valid,),) = connection.execute("SELECT json_valid(script) FROM body")
        if not is_valid:
            raise InvalidMessage(why="it cannot be read as JSON")
        query = """SELECT json_remove(script, '$.lines'), json_type(script, '$.lines'),
            json_array_length(script, '$.lines') FROM body"""
        ((rest, kind, count),) = connection.execute(query)
        fields = _parse_part(rest, "body", MAX_DEPTH)
        if "lines" in fields:  # SQLite removes only the first of two equal keys.
            raise InvalidMessage(why="it contains a key twice")
        head = read(ScriptHead, fields)
        if kind not in {None, b"array"}:
            raise InvalidConfig(where="lines", why="it must be a list", param="lines")
        if (count or 0) > MAX_SCRIPT_LINES:
            raise InvalidConfig(where="lines", why=f"it must have at most {MAX_SCRIPT_LINES} entries", param="lines")
        rows = connection.execute("SELECT item.type, item.value FROM body, json_each(script, '$.lines') AS item")
        lines = [_line(number, *row) for number, row in enumerate(rows)]
    head_fields = {name: value for name, value in head.model_dump().items() if name not in _OF_THE_STORE}
    return ParsedScript(head_fields, lines, head.updated_at)


def _line(number: int, kind: bytes, text: bytes) -> bytes:
    where = f"lines.{number}"
    if kind != b"object":
        raise InvalidConfig(where=where, why="it must be an object", param=where)
    line = read(ScriptLine, _parse_part(text, where, MAX_DEPTH - 2), within=where)
    return json.dumps(line.model_dump(), ensure_ascii=False).encode()


def _parse_part(text: bytes, where: str, max_depth: int) -> dict[str, Any]:
    if len(text) > MAX_PART_BYTES:
        why = f"it has {len(text)} bytes; the limit is {MAX_PART_BYTES}"
        raise InvalidConfig(where=where, why=why, param=where)
    try:
        return parse_object(text, max_depth)
    except ValueError as error:
        raise InvalidMessage(why=str(error)) from None


def takes_in_scripts(database: Database, owner: str, script_id: str | None = None) -> set[str]:
    """Return the ids of the recordings that an owner's scripts use.

    If `script_id` is given, only this script is searched. The ids are the values of the key ``take`` at any depth of
    the JSON object, because a line may have several parts.
    """
    query = f"""SELECT item.atom FROM {_EVERY_VALUE} WHERE owner = ? AND deleted_at IS NULL
        AND item.key = 'take' AND item.type = 'text'"""  # noqa: S608  constant SQL
    values = [owner]
    if script_id is not None:
        query, values = f"{query} AND scripts.id = ?", [owner, script_id]
    return {take for (take,) in database.rows(query, values)}
