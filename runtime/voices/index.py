"""SQLite index of voice files, so that listing voices does not read all files.

The index can be rebuilt from the files and may be deleted at any time. If a file has changed, its row is rebuilt. If
the index cannot be stored on disk, it is kept in memory.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from runtime.shared.names import name_key
from runtime.voices.voice import VoiceCard

FILE = "index.sqlite"
LOCK_TIMEOUT_S = 2.0  # Timeout in seconds for the write lock.

_SCHEMA = """
CREATE TABLE IF NOT EXISTS voices_2 (
    file TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    words TEXT NOT NULL,
    card TEXT,
    prompts TEXT NOT NULL,
    problem TEXT
)
"""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Row of the index for one voice file: metadata of the voice, or an error."""

    file: str
    version: str  # Version of the file. It changes whenever the file changes.
    card: VoiceCard | None = None
    prompts: frozenset[str] = frozenset()  # Fingerprints of the checkpoints for which the voice has a prompt.
    problem: str | None = None


class VoiceIndex:
    """SQLite index with one row per voice file.

    All methods except `open` can raise `sqlite3.Error`.

    Thread: any. One thread at a time uses the index.

    Raises:
        sqlite3.Error: The disk is full or damaged, or another process has locked the index.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(_SCHEMA)

    @classmethod
    def open(cls, folder: Path) -> VoiceIndex:
        """Open the index in a folder, or create the index.

        A damaged index is replaced by a new index. If the disk refuses the index, it is kept in memory.
        """
        path = folder / FILE
        for attempt in range(2):
            try:
                with contextlib.suppress(OSError):
                    path.touch(mode=0o600)
                connection = sqlite3.connect(
                    path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
                )
                connection.execute("PRAGMA journal_mode = WAL")
                # The index is not protected against a crash, because it can be rebuilt from the files.
                connection.execute("PRAGMA synchronous = OFF")
                return cls(connection)
            except sqlite3.OperationalError:  # The database is read-only or locked, or the disk is full.
                break
            except sqlite3.DatabaseError:  # The file is not a database or is damaged.
                if attempt == 0:
                    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
                        with contextlib.suppress(OSError):
                            (folder / name).unlink(missing_ok=True)
        return cls.in_memory()

    @classmethod
    def in_memory(cls) -> VoiceIndex:
        return cls(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))

    def entries(self) -> list[IndexEntry]:
        rows = self._connection.execute("SELECT file, version, card, prompts, problem FROM voices_2")
        return [
            IndexEntry(file, version, _card(card), frozenset(json.loads(prompts)), problem)
            for file, version, card, prompts, problem in rows
        ]

    def update(self, changed: Iterable[IndexEntry], gone: Iterable[str]) -> None:
        """Write the rows of changed files and delete the rows of missing files in one transaction."""
        rows = [
            (
                entry.file,
                entry.version,
                _searchable_text(entry.card),
                None if entry.card is None else json.dumps(asdict(entry.card)),
                json.dumps(sorted(entry.prompts)),
                entry.problem,
            )
            for entry in changed
        ]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM voices_2 WHERE file = ?", [(file,) for file in gone])
            self._connection.executemany("INSERT OR REPLACE INTO voices_2 VALUES (?, ?, ?, ?, ?, ?)", rows)

    def search(self, words: str) -> set[str]:
        """Return the ids of the voices that match a search.

        All words must occur in the name, description, tags, language or transcript of the voice.
        """
        parts = [f"%{_escaped(word)}%" for word in name_key(words).split()]
        condition = " AND ".join(["card IS NOT NULL", *["words LIKE ? ESCAPE '\\'"] * len(parts)])
        rows = self._connection.execute(f"SELECT card FROM voices_2 WHERE {condition}", parts)  # noqa: S608  The SQL text is constant.
        return {json.loads(card)["id"] for (card,) in rows}

    def close(self) -> None:
        self._connection.close()


def _card(text: str | None) -> VoiceCard | None:
    if text is None:
        return None
    values = json.loads(text)
    return VoiceCard(**{**values, "tags": tuple(values["tags"]), "advice": tuple(values["advice"])})


def _searchable_text(card: VoiceCard | None) -> str:
    if card is None:
        return ""
    return name_key(" ".join([card.name, card.language, card.description or "", *card.tags, card.transcript or ""]))


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
