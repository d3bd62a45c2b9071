"""Store of the studio: the database and files with the data of all owners."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.errors import InvalidConfig
from runtime.shared.files import locked, make_private
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.owned_rows import VISITOR_PREFIX, OwnedRows
from studio.store.pronunciations import Pronunciations
from studio.store.quota import Quota
from studio.store.runtime_owners import RuntimeOwners
from studio.store.scripts import Scripts
from studio.store.shares import Shares
from studio.store.take_files import TakeFiles
from studio.store.takes import Takes
from studio.store.voice_bin import VoiceBin

# File system types whose content is lost with the machine or the container.
FLEETING = {"overlay", "tmpfs", "ramfs", "aufs"}

log = logging.getLogger(__name__)

# Column with the time of the last change, by table. If a visitor does not return, the row is deleted some time after
# it.
LAST_CHANGES = {"scripts": "updated_at", "pronunciations": "updated_at", "preferences": "seen_at"}
DAY_S = 86_400
MAX_PREFERENCES = 64  # Maximum number of preferences of an owner.

ON_A_SPACE = (
    "This Space has no storage of its own: takes, scripts and voices are gone when it restarts. "
    "Download what you want to keep."
)
NO_FOLDER = (
    "The studio's data folder cannot be written: takes and scripts are gone when the studio ends. "
    "Download what you want to keep."
)
UNREADABLE = "Something that was kept could not be read and was set aside; the studio's log names it."
MOVED_ASIDE = "The list of takes was damaged and was rebuilt from their files; names and scripts may be missing."


class Store:
    """Storage of recordings, scripts, dictionaries, preferences and deleted voices.

    Calls may block on disk access.

    Thread: any, except `open` and `close`.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.folder = settings.folder
        self.temporary_note: str | None = None
        self._spare: tempfile.TemporaryDirectory[str] | None = None
        self._moved_aside = False

    def open(self) -> None:
        """Open or create the store, repair it if necessary, and delete expired items.

        If the folder is not writable, a temporary folder is used, and `temporary_note` has a warning.

        Raises:
            InvalidSetting: A newer version of Voicewright has written the folder.
        """
        try:
            self._open()
        except (OSError, sqlite3.OperationalError) as error:
            log.warning("%s cannot be used (%s); stored data is lost when the studio ends", self.folder, error)
            self._spare = tempfile.TemporaryDirectory(prefix="voicewright-")
            self.folder = Path(self._spare.name)
            self.temporary_note = NO_FOLDER
            self._open()
        if self.temporary_note is None and not is_lasting(self.folder):
            self.temporary_note = ON_A_SPACE
        self.takes.reconcile()
        self.tidy()

    @property
    def notice(self) -> str | None:
        """Return a warning for the user about damaged stored data, or None."""
        if self._moved_aside:
            return MOVED_ASIDE
        return UNREADABLE if self._database.unreadable else None

    def close(self) -> None:
        self._database.close()
        if self._spare is not None:
            self._spare.cleanup()

    def tidy(self) -> None:
        """Delete expired items from the store.

        This is called at the start and about every hour.

        Raises:
            StorageFailed: Writing to the disk failed.
        """
        self.takes.purge()
        self.voice_bin.purge()
        now = time.time()
        with self._database.writing("The cleanup") as connection:
            connection.execute("DELETE FROM scripts WHERE deleted_at < ?", (now - self.settings.bin_s,))
            for table, changed_at in LAST_CHANGES.items():
                query = f"DELETE FROM {table} WHERE owner LIKE ? AND {changed_at} < ?"  # noqa: S608  names in LAST_CHANGES are constants
                connection.execute(query, (f"{VISITOR_PREFIX}%", now - DAY_S * self.settings.visitor_days))
            connection.execute("DELETE FROM shares WHERE take NOT IN (SELECT id FROM takes)")

    def left_owners(self) -> list[str]:
        """Return the owner names of visitors with data in the runtime and no recent visit."""
        return self.runtime_owners.left_before(time.time() - DAY_S * self.settings.visitor_days)

    def bytes(self) -> int:
        """Return the total size of all stored items in bytes, including the recycle bin."""
        return Quota(self._database, self.settings).bytes()

    def preferences(self, owner: str) -> dict[str, Any]:
        """Return the preferences of an owner as a dictionary by name."""
        chosen = self._preferences.objects("owner = ?", (owner,))
        return chosen[0] if chosen else {}

    def prefer(self, owner: str, changes: dict[str, Any], *, address: str | None = None) -> dict[str, Any]:
        """Change preferences of an owner, and return all preferences of the owner.

        The value None deletes a preference.

        Raises:
            InvalidConfig: The owner would have too many preferences.
            StoreFull: A quota is exceeded.
            StorageFailed: The preferences could not be stored.
        """
        self.takes.make_room(owner, address, len(json.dumps(changes)), what="The preferences")
        with self._database.writing("The preferences") as connection:
            merged = {name: value for name, value in (self.preferences(owner) | changes).items() if value is not None}
            if len(merged) > MAX_PREFERENCES:
                why = f"there are {len(merged)}; at most {MAX_PREFERENCES} are kept"
                raise InvalidConfig(where="preferences", why=why, param="preferences")
            text = json.dumps(merged)
            row = (owner, time.time(), text, address, len(text))
            connection.execute("INSERT OR REPLACE INTO preferences VALUES (?, ?, ?, ?, ?)", row)
        return merged

    def _open(self) -> None:
        make_private(self.folder)
        files = TakeFiles(self.folder)
        with locked(self.folder):
            files.open()
            self._database = Database.open(self.folder)
        self._moved_aside = self._database.moved_aside is not None
        self.voice_bin = VoiceBin(self.folder / "deleted-voices", self.settings.bin_s)
        self._preferences = OwnedRows(self._database, "preferences", held="chosen", key="owner")
        self.takes = Takes(self._database, files, self.settings)
        self.runtime_owners = RuntimeOwners(self._database)
        self.shares = Shares(self._database, self.takes)
        self.scripts = Scripts(self._database, self.settings, self.takes.make_room)
        self.pronunciations = Pronunciations(self._database, self.takes.make_room)


def is_lasting(folder: Path, env: Mapping[str, str] | None = None, mounts: str = "/proc/self/mounts") -> bool:
    """Return True if the files in a folder are kept when the machine or container restarts.

    On a Hugging Face Space, only files on mounted volumes such as /data are kept. On other machines, all files are
    kept.
    """
    env = os.environ if env is None else env
    if not env.get("SPACE_ID"):
        return True
    try:
        lines = [line.split() for line in Path(mounts).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    kinds = {_unescaped(place): kind for _, place, kind, *_ in (line for line in lines if len(line) > 3)}
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if str(place) in kinds:
            return str(place) != "/" and kinds[str(place)] not in FLEETING
    return False


def _unescaped(place: str) -> str:
    return place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
