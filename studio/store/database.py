"""SQLite database of the studio: opening, migration, and replacement of a damaged file.

Thread: any, but only one thread at a time may use the connection.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runtime.errors import InvalidSetting, StorageFailed
from studio.errors import StoreBusy

log = logging.getLogger(__name__)

FILE = "studio.sqlite"
LOCK_TIMEOUT_S = 5.0  # Timeout in seconds if another process has the write lock.

# Migrations. PRAGMA user_version is the number of applied migrations. New migrations are only appended.
MIGRATIONS = (
    """
    CREATE TABLE takes (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        room TEXT NOT NULL,
        favourite INTEGER NOT NULL,
        deleted_at REAL,
        bytes INTEGER NOT NULL,
        reference TEXT,
        reference_bytes INTEGER NOT NULL,
        words TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX takes_of_owner ON takes (owner, created_ms, id);
    CREATE INDEX takes_with_reference ON takes (reference);
    CREATE TABLE scripts (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        updated_at REAL NOT NULL,
        deleted_at REAL,
        script TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT;
    CREATE TABLE preferences (
        owner TEXT PRIMARY KEY,
        seen_at REAL NOT NULL,
        chosen TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE set_aside (
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        held TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE pronunciations (
        owner TEXT PRIMARY KEY,
        updated_at REAL NOT NULL,
        dictionary TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE shares (
        token TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        take TEXT NOT NULL UNIQUE,
        created_at REAL NOT NULL
    ) STRICT;
    """,
    # Size in bytes, and keyed hash of the visitor's address, for quotas. The hash is NULL for owners without an
    # address.
    """
    ALTER TABLE takes ADD COLUMN address TEXT;
    ALTER TABLE scripts ADD COLUMN address TEXT;
    ALTER TABLE scripts ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE scripts SET bytes = length(CAST(script AS BLOB));
    ALTER TABLE pronunciations ADD COLUMN address TEXT;
    ALTER TABLE pronunciations ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE pronunciations SET bytes = length(CAST(dictionary AS BLOB));
    ALTER TABLE preferences ADD COLUMN address TEXT;
    ALTER TABLE preferences ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE preferences SET bytes = length(CAST(chosen AS BLOB));
    CREATE INDEX kept_takes ON takes (address, owner, reference, reference_bytes, bytes);
    CREATE INDEX kept_scripts ON scripts (address, owner, bytes);
    CREATE VIEW kept (owner, address, bytes) AS
        SELECT owner, address, bytes FROM takes
        UNION ALL SELECT owner, address, max(reference_bytes) FROM takes
            WHERE reference IS NOT NULL GROUP BY owner, address, reference
        UNION ALL SELECT owner, address, bytes FROM scripts
        UNION ALL SELECT owner, address, bytes FROM pronunciations
        UNION ALL SELECT owner, address, bytes FROM preferences;
    """,
    """
    CREATE TABLE runtime_owners (
        owner TEXT PRIMARY KEY,
        address TEXT,
        seen_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX runtime_owners_of_address ON runtime_owners (address);
    """,
)
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FULL, _CLOSED = {sqlite3.SQLITE_FULL}, {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}


class Database:
    """Connection to the studio's SQLite database.

    `moved_aside` is the path to which a damaged file was moved, or None.
    """

    def __init__(self, connection: sqlite3.Connection, moved_aside: Path | None = None) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self.moved_aside = moved_aside
        self.unreadable = 0  # Number of unreadable rows moved to `set_aside` by this object.

    @classmethod
    def open(cls, folder: Path) -> Database:
        """Open the database file in a folder, or create the file.

        Raises:
            InvalidSetting: A newer version of Voicewright has written the file.
            sqlite3.OperationalError: The file is locked, or cannot be written.
        """
        path = folder / FILE
        try:
            return cls(_opened(path))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # The file is not a database, or is damaged.
            aside = _move_aside(path)
        log.warning("%s was damaged; it was moved to %s and a new one was created", path, aside.name)
        return cls(_opened(path), aside)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run an SQL query and return its rows.

        Raises:
            StorageFailed: The database file cannot be read.
        """
        with self._lock, _storage_errors("Storage"):
            return self._connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[sqlite3.Connection]:
        """Run the block of the ``with`` statement in a transaction.

        If a transaction is already open, the block becomes a part of it. `what` names the data in error messages.

        Raises:
            StorageFailed: The data could not be stored.
            StoreBusy: Another process has locked the database for too long.
        """
        with self._lock, _storage_errors(what):
            if self._connection.in_transaction:  # This thread started the transaction, so it has the lock.
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()


@contextlib.contextmanager
def _storage_errors(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        log.warning("the studio's database: %s", error)
        why = "the database reported an error"
        if code in _FULL:
            why = "the disk is full"
        elif code in _CLOSED:
            why = "the folder of the takes cannot be written"
        elif code in _BUSY:
            raise StoreBusy(what=what, retry_after_s=LOCK_TIMEOUT_S) from None
        raise StorageFailed(what=what, why=why) from None


def _opened(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)  # SQLite creates its journals with the mode of this file.
    path.chmod(0o600)
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")  # A damaged text must not make a list fail.
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise sqlite3.DatabaseError(f"{found}")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        why = (
            f"{path} was written by a newer Voicewright; use that one, another folder, or the copy "
            f"{_copy_of(path, len(MIGRATIONS)).name} that the newer one made, if it is there"
        )
        raise InvalidSetting(name="VOICEWRIGHT_DATA", value=repr(str(path.parent)), why=why)
    if 0 < version < len(MIGRATIONS):
        copy = _copy_of(path, version)
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)  # VACUUM INTO would create the file with the mode of the umask.
        connection.execute("VACUUM INTO ?", (str(copy),))
        log.info("%s is migrated to this version; the previous version was copied to %s", path, copy.name)
    for number, migration in enumerate(MIGRATIONS[version:], version + 1):
        # Each migration is one transaction, so the old schema remains if the process is killed.
        connection.executescript(f"BEGIN IMMEDIATE; {migration} PRAGMA user_version = {number}; COMMIT;")


def _copy_of(path: Path, version: int) -> Path:
    """Return the path of the backup that is made before a migration from this schema version."""
    return path.with_name(f"{FILE}.form-{version}")


def _move_aside(path: Path) -> Path:
    """Rename a damaged file and its journals, and return the new path of the file."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{FILE}.damaged-{stamp}-{time.time_ns() % 1_000_000:06d}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside
