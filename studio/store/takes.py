"""Storage of takes (recordings of generated speech), each with a database row and a file.

A take exists if its audio file exists. At the start of the studio, missing rows are created from files, and rows
without a file are deleted. Therefore, a take is complete or missing even if the process is killed. Thread: any.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.errors import InvalidConfig, MessageTooLarge, SpeechError
from runtime.request import SAMPLE_RATE
from runtime.shared.audio.loudness import measure_loudness
from runtime.shared.names import name_key, new_id
from studio.errors import NotKept
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import VISITOR_PREFIX, OwnedRows
from studio.store.quota import Quota, Removable
from studio.store.records import TakeChanges, TakeFields
from studio.store.scripts import takes_in_scripts
from studio.store.take_files import TakeFiles, encoded_take

log = logging.getLogger(__name__)

MAX_PAGE_SIZE = 100  # Maximum number of takes in a page of the list.


@dataclass(frozen=True, slots=True)
class TakeQuery:
    """Search query for stored recordings.

    `before` is the cursor that the previous page of results returned. `loose` excludes recordings that belong to
    scripts. `script` selects the recordings of the script with this id.
    """

    search: str = ""
    room: str = ""
    favourite: bool = False
    before: str = ""
    limit: int = 30
    loose: bool = False
    script: str = ""


class Takes:
    """Storage of all owners' takes (recordings of generated speech).

    An owner can only access the owner's own takes.

    Raises (every method):
        StorageFailed: The database or the disk failed, and nothing was changed.
    """

    def __init__(self, database: Database, files: TakeFiles, settings: StoreSettings) -> None:
        self._database = database
        self._rows = OwnedRows(database, "takes", held="record", what="take")
        self._files = files
        self._settings = settings
        self._quota = Quota(database, settings)

    # --- Methods that read or change the takes of one owner.

    def store_take(
        self,
        owner: str,
        fields: TakeFields,
        pcm: bytes,
        reference: bytes | None = None,
        *,
        address: str | None = None,
    ) -> dict[str, Any]:
        """Store a recording of generated speech, and return its metadata record.

        Args:
            owner: Owner of the recording.
            fields: Metadata from the client.
            pcm: Samples (s16le, 24 kHz, mono).
            reference: Reference recording of the cloned voice, or None.
            address: Keyed hash of the visitor's network address, or None.

        Raises:
            InvalidConfig: The audio is empty, or does not match ``fields``.
            MessageTooLarge: The audio exceeds the maximum size of a recording.
            StoreFull: The owner has the maximum number of recordings, or a quota is exceeded.
        """
        record = record_of(fields, pcm, reference, self._settings.max_take_bytes)
        data = encoded_take(pcm, owner, record)
        with self._files.writing():
            self._quota.check_count(owner)
            going = self._quota.items_to_delete(owner, address, len(data) + len(reference or b""), what="The take")
            try:
                if reference is not None:
                    self._files.write_reference(record["reference"], reference)
                self._files.write(record["id"], data)
                self._insert(owner, record, address)
            except (OSError, SpeechError):
                with contextlib.suppress(OSError, SpeechError):
                    self._files.remove([record["id"]])
                    self._remove_unused_references()
                raise
            # Old takes are deleted after the new take is stored. If this deletion fails, it is repeated when the next
            # take is stored.
            with contextlib.suppress(OSError, SpeechError):
                self._remove(owner, going)
        return record

    def find(self, owner: str, take_id: str) -> dict[str, Any]:
        """Return the metadata record of a recording that is not deleted.

        Raises:
            NotKept: The owner has no such recording, or has deleted it.
        """
        return self._rows.find(owner, take_id)

    def page(self, owner: str, query: TakeQuery) -> tuple[list[dict[str, Any]], str | None]:
        """Search the owner's recordings, and return one page of metadata records, newest first.

        Returns:
            The records, and the cursor of the next page. The cursor is None on the last page.

        Raises:
            InvalidConfig: The cursor is invalid.
        """
        conditions, values = ["owner = ?", "deleted_at IS NULL"], [owner]
        for word in name_key(query.search).split():
            conditions.append("instr(words, ?) > 0")
            values.append(word)
        if query.room:
            conditions.append("room = ?")
            values.append(query.room)
        if query.favourite:
            conditions.append("favourite = 1")
        if query.loose:
            conditions.append("id NOT IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(sorted(takes_in_scripts(self._database, owner))))
        if query.script:
            conditions.append("id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(sorted(takes_in_scripts(self._database, owner, query.script))))
        if query.before:
            conditions.append("(created_ms, id) < (CAST(? AS INTEGER), ?)")
            values += _cursor(query.before)
        limit = query.limit
        where = f"{' AND '.join(conditions)} ORDER BY created_ms DESC, id DESC LIMIT"
        select = f"SELECT created_ms, id FROM takes WHERE {where} {limit + 1}"  # noqa: S608  constant SQL
        keys = self._database.rows(select, values)
        following = f"{keys[limit - 1][0]}-{keys[limit - 1][1]}" if len(keys) > limit else None
        return self._rows.objects(f"{where} {limit}", values), following

    def change(self, owner: str, take_id: str, changes: TakeChanges) -> dict[str, Any]:
        """Change metadata fields of a recording that users can edit, and return the new record.

        The audio and the request of a recording never change.

        Raises:
            NotKept: The owner has no such recording.
        """
        with self._database.writing("The change") as connection:
            record = self.find(owner, take_id) | changes.model_dump(exclude_unset=True)
            connection.execute(
                "UPDATE takes SET record = ?, words = ?, favourite = ? WHERE id = ?",
                (json.dumps(record), searchable_text(record), int(record["favourite"]), take_id),
            )
        return record

    def delete(self, owner: str, take_id: str) -> None:
        """Move a recording into the recycle bin.

        Raises:
            NotKept: The owner has no such recording.
        """
        self._rows.mark(owner, take_id, time.time(), what="The change")

    def restore(self, owner: str, take_id: str) -> dict[str, Any]:
        """Restore a recording from the recycle bin, and return its metadata record.

        Raises:
            NotKept: The recycle bin has no recording of the owner with this id.
        """
        self._rows.mark(owner, take_id, None, what="The change")
        return self.find(owner, take_id)

    def space(self, owner: str) -> dict[str, Any]:
        """Return the number of an owner's recordings, their size in bytes, and the limits.

        The result is a JSON object for the page.
        """
        return self._quota.space(owner)

    def free(self, owner: str, count: int) -> list[str]:
        """Move the owner's oldest recordings into the recycle bin, and return their ids.

        At most `count` recordings are moved. Favourites, and recordings that scripts use, are not moved.
        """
        return self.move(owner, self._quota.oldest_removable(owner, count), into_bin=True)

    def move(self, owner: str, take_ids: Iterable[str], *, into_bin: bool) -> list[str]:
        """Move recordings into the recycle bin or restore them, and return the moved ids."""
        return self._rows.mark_all(owner, take_ids, time.time() if into_bin else None, what="The change")

    def restore_bin(self, owner: str) -> list[str]:
        """Restore all recordings in the owner's recycle bin, and return their ids."""
        return self.move(owner, self._in_bin(owner), into_bin=False)

    def empty_bin(self, owner: str) -> list[str]:
        """Delete all recordings in the owner's recycle bin permanently, and return their ids."""
        with self._files.writing():
            going = self._in_bin(owner)
            if going:
                self._purge(going)
        return going

    def _in_bin(self, owner: str) -> list[str]:
        query = "SELECT id FROM takes WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY deleted_at DESC"
        return [take_id for (take_id,) in self._database.rows(query, (owner,))]

    def of_voice(self, owner: str, voice_id: str, name: str | None) -> list[str]:
        """Return the ids of all recordings with a stored voice.

        Recordings in the recycle bin are included. A request selects a stored voice by its id or, in the mode `base`,
        by its name.
        """
        key = None if name is None else name_key(name)
        query = """SELECT id, json_extract(record, '$.mode'), json_extract(record, '$.config.voice')
            FROM takes WHERE owner = ? AND CASE WHEN json_valid(record)
            THEN json_type(record, '$.config.voice') IS 'text' ELSE FALSE END"""
        return [
            take_id
            for take_id, mode, voice in self._database.rows(query, (owner,))
            if voice == voice_id or (mode == "base" and name_key(voice) == key)
        ]

    def erase(self, take_ids: list[str]) -> None:
        """Delete recordings permanently, without moving them into the recycle bin."""
        if take_ids:
            with self._files.writing():
                self._purge(take_ids)

    def pcm(self, owner: str, take_id: str) -> tuple[dict[str, Any], bytes]:
        """Return the metadata record and the samples (s16le, 24 kHz, mono) of a recording.

        Raises:
            NotKept: The owner has no such recording.
            TakeDamaged: The file is missing or damaged.
        """
        record = self.find(owner, take_id)
        return record, self._files.pcm(take_id, record["sha256"])

    def reference(self, owner: str, take_id: str) -> bytes:
        """Return the reference recording of the cloned voice that speaks in a recording.

        Raises:
            NotKept: The owner has no such recording, or it was made without a reference recording.
        """
        sha256 = self.find(owner, take_id)["reference"]
        if sha256 is None:
            raise NotKept(what="reference")
        return self._files.reference(sha256)

    # --- Methods that maintain the takes of all owners.

    def reconcile(self) -> None:
        """Make the database rows consistent with the audio files.

        The studio calls this at its start. Missing rows are created from the files, and rows without a file are
        deleted.
        """
        with self._files.writing():
            known = {take_id for (take_id,) in self._database.rows("SELECT id FROM takes")}
            found = self._files.take_ids()
            with self._database.writing("The takes") as connection:
                connection.executemany("DELETE FROM takes WHERE id = ?", [(take_id,) for take_id in known - found])
            adopted = 0
            for take_id in found - known:
                record = self._files.record(take_id)
                if record is not None:
                    self._insert(*record)
                    adopted += 1
            self._remove_unused_references()
        if known - found:
            log.warning("%d takes were removed because their files are missing", len(known - found))
        if adopted:
            log.warning("%d takes without an entry in the database were added again", adopted)

    def purge(self) -> None:
        """Delete old recordings in the recycle bin, and old recordings of visitors."""
        now = time.time()
        query = "SELECT id FROM takes WHERE deleted_at < ? OR (owner LIKE ? AND created_ms < ?)"
        old_ms = 1000 * (now - 86400 * self._settings.visitor_days)
        values = (now - self._settings.bin_s, f"{VISITOR_PREFIX}%", old_ms)
        if self._database.rows(query + " LIMIT 1", values):
            with self._files.writing():
                self._purge([take_id for (take_id,) in self._database.rows(query, values)])

    def make_room(self, owner: str, address: str | None, size: int, *, what: str) -> None:
        """Delete old items in the recycle bin so that an owner can store `size` more bytes.

        Use this for items other than recordings, because `store_take` already frees space for recordings.

        Args:
            owner: Owner of the new item.
            address: Keyed hash of the visitor's network address, or None.
            size: Number of bytes that are needed.
            what: Name of the new item in the error message.

        Raises:
            StoreFull: Deleting the allowed items would not free enough space.
        """
        if size > 0 and self._quota.items_to_delete(owner, address, size, what=what):
            with self._files.writing():
                self._remove(owner, self._quota.items_to_delete(owner, address, size, what=what))

    # --- Methods that require the lock of the audio files.

    def _insert(self, owner: str, record: dict[str, Any], address: str | None = None) -> None:
        row = (
            record["id"],
            owner,
            round(1000 * record["created_at"]),
            record["room"],
            int(record["favourite"]),
            None,
            self._files.bytes_of(record["id"]),
            record["reference"],
            self._files.reference_bytes(record["reference"]),
            searchable_text(record),
            json.dumps(record),
            address,
        )
        with self._database.writing("The take") as connection:
            connection.execute("INSERT INTO takes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _remove(self, owner: str, going: list[Removable]) -> None:
        self._purge([thing.id for thing in going if thing.table == "takes"])
        with self._database.writing("The scripts") as connection:
            scripts = [(owner, thing.id) for thing in going if thing.table == "scripts"]
            connection.executemany("DELETE FROM scripts WHERE owner = ? AND id = ?", scripts)

    def _purge(self, take_ids: list[str]) -> None:
        # Files are deleted first, because the next start deletes rows without a file but restores files without a row.
        self._files.remove(take_ids)
        with self._database.writing("The takes") as connection:
            connection.executemany("DELETE FROM takes WHERE id = ?", [(take_id,) for take_id in take_ids])
        self._remove_unused_references()

    def _remove_unused_references(self) -> None:
        rows = self._database.rows("SELECT DISTINCT reference FROM takes WHERE reference IS NOT NULL")
        self._files.remove_references(self._files.reference_names() - {name for (name,) in rows})


def _cursor(text: str) -> list[str]:
    moment, _, take_id = text.partition("-")
    if not moment.isdecimal() or len(moment) > 18:
        raise InvalidConfig(where="cursor", why="use the cursor of the previous page", param="cursor")
    return [moment, take_id]


def record_of(fields: TakeFields, pcm: bytes, reference: bytes | None, most: int) -> dict[str, Any]:
    """Create the complete metadata record of a new recording.

    Args:
        fields: Metadata from the client.
        pcm: Samples (s16le, 24 kHz, mono).
        reference: Reference recording of the cloned voice, or None.
        most: Maximum size of the samples in bytes.

    Raises:
        InvalidConfig: The audio is empty, or does not match ``fields``.
        MessageTooLarge: The audio has more than `most` bytes.
    """
    if len(pcm) > most:
        raise MessageTooLarge(what="The take's sound", size=len(pcm), limit=most)
    if not pcm or len(pcm) % 2:
        why = f"it has {len(pcm)} bytes; send whole samples of 16 bits, at least one"
        raise InvalidConfig(where="pcm", why=why, param="pcm")
    sha256 = hashlib.sha256(pcm).hexdigest()
    if fields.sha256 not in {None, sha256}:
        raise InvalidConfig(where="sha256", why="it does not match the received audio", param="sha256")
    if fields.samples not in {None, len(pcm) // 2}:
        why = f"it says {fields.samples} and {len(pcm) // 2} came"
        raise InvalidConfig(where="samples", why=why, param="samples")
    return {
        "id": new_id(),
        "created_at": round(time.time(), 3),
        **fields.model_dump(),
        "samples": len(pcm) // 2,
        "seconds": round(len(pcm) / 2 / SAMPLE_RATE, 3),
        "sha256": sha256,
        "lufs": measure_loudness(np.frombuffer(pcm, "<i2")),
        "reference": None if reference is None else hashlib.sha256(reference).hexdigest(),
    }


def searchable_text(record: dict[str, Any]) -> str:
    """Return the normalized text of a recording, in which the search looks for words."""
    config = record["config"]
    texts = [record[name] for name in ("name", "text", "label", "voice", "language", "notes")]
    texts += [config.get(name) for name in ("instruct", "instructions", "voice_description")]
    return name_key("\n".join([*(word for word in texts if isinstance(word, str)), *record["tags"]]))
