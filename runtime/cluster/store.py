"""Synchronisation of voices, dictionaries and keys between replicas through one store.

The store is any location that fsspec supports. Each synchronisation uploads the changes in the replica's folder and
downloads the changes of other replicas. Files are replaced atomically on both sides. If two replicas change the same
voice between two synchronisations, the last upload replaces the other change everywhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from platformdirs import user_data_dir

from runtime.settings import Settings

log = logging.getLogger(__name__)

VOICES = "voices"
KEYS_FILE = "keys.txt"  # File with one API key per line.
_SUFFIXES = (".voice", ".pronunciations")
_PARTIAL_SUFFIX = ".part"  # Suffix of a file that is being written.


class Store(Protocol):
    """Store of voices and keys that several runtimes use."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that make a runtime use the store."""
        ...

    async def run(self) -> None: ...

    async def close(self) -> None: ...


def store_of(settings: Settings) -> Store:
    """Return the store in the settings, or else the shared voice folder of this machine.

    Raises:
        OSError: The store cannot be reached.
        ValueError: fsspec does not support the store's protocol.
    """
    return Mirror.open(settings.cluster.store, settings.cluster.store_s) if settings.cluster.store else Folder()


class Folder:
    """Local folder of voices and keys that all runtimes of a machine share.

    No synchronisation is needed.
    """

    environment: Mapping[str, str] = {}

    async def run(self) -> None:
        """Do nothing, because the folder needs no synchronisation."""

    async def close(self) -> None:
        """Do nothing, because the folder needs no synchronisation."""


@dataclass(slots=True)
class Mirror:
    """Two-way synchronisation between a local folder and the store.

    Thread: one worker thread at a time.
    """

    files: Any  # File system object of fsspec.
    root: str  # Root folder of the store in this file system.
    local: Path
    interval_s: float
    # Remote and local version of each file at the last synchronisation.
    _synced: dict[str, tuple[str, str]] = field(default_factory=dict)
    _has_keys: bool = False  # True if the store had a key file at the start, so every request needs a key.
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, url: str, interval_s: float) -> Self:
        """Download the store into a new local folder.

        Raises:
            OSError: The store cannot be reached.
            ValueError: fsspec does not support the store's protocol.
        """
        import fsspec

        files, root = fsspec.core.url_to_fs(url)
        files.makedirs(f"{root}/{VOICES}", exist_ok=True)
        # The mirror is not in a temporary folder. If a cleanup of temporary files deleted a file of the mirror, the
        # next synchronisation would also delete the file from the store.
        mirrors = Path(user_data_dir("voicewright")) / "mirrors"
        mirrors.mkdir(parents=True, exist_ok=True)
        mirror = cls(files, root, Path(tempfile.mkdtemp(prefix="store-", dir=mirrors)), interval_s)
        (mirror.local / VOICES).mkdir()
        mirror.synchronise()
        mirror._has_keys = (mirror.local / KEYS_FILE).exists()
        return mirror

    @property
    def environment(self) -> Mapping[str, str]:
        keys = {"VOICEWRIGHT_API_KEYS_FILE": str(self.local / KEYS_FILE)} if self._has_keys else {}
        return {"VOICEWRIGHT_VOICES": str(self.local / VOICES), **keys}

    async def run(self) -> None:
        """Synchronise at regular intervals until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while not self._closed:
            try:
                await loop.run_in_executor(None, self.synchronise)
            except Exception:
                log.warning("the store cannot be reached; trying again", exc_info=True)
            await asyncio.sleep(self.interval_s)

    async def close(self) -> None:
        """Synchronise the last changes, and delete the local folder."""
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self) -> None:
        with suppress(Exception):
            self.synchronise()
        # The lock prevents a scan of a folder that is being removed. Such a scan would find no files and delete all
        # files from the store.
        with self._lock:
            self._closed = True
            shutil.rmtree(self.local, ignore_errors=True)

    def synchronise(self) -> None:
        """Upload the changes in the local folder, and download the changes in the store.

        Raises:
            OSError: The store cannot be reached. The next call continues with the remaining files.
        """
        with self._lock:
            if not self._closed:
                self._synchronise()

    def _synchronise(self) -> None:
        remote, local = self._remote_versions(), self._local_versions()
        for name in sorted(remote.keys() | local.keys() | self._synced.keys()):
            was_there, was_here = self._synced.get(name, (None, None))
            is_there, is_here = remote.get(name), local.get(name)
            now: tuple[str, str] | None = None
            # Key files are copied from the store to the local folder, but never to the store.
            if name != KEYS_FILE and is_here != was_here:
                if is_here is None:
                    self._delete(name)
                else:
                    now = self._upload(name), is_here
            elif is_there != was_there:
                if is_there is None:
                    (self.local / name).unlink(missing_ok=True)
                elif (fetched := self._download(name)) is not None:
                    now = is_there, fetched
                else:
                    continue
            else:
                continue
            # If the file changes again after this comparison, the next synchronisation finds the change.
            if now is None:
                self._synced.pop(name, None)
            else:
                self._synced[name] = now

    def _remote_versions(self) -> dict[str, str]:
        """Return the versions of the store's files by name relative to the root."""
        self.files.invalidate_cache()
        files = self.files.find(self.root, detail=True)
        return {
            name: _sent(facts)
            for path, facts in files.items()
            if is_synchronised(name := path.removeprefix(self.root.rstrip("/")).lstrip("/"))
        }

    def _remote_version(self, name: str) -> str | None:
        self.files.invalidate_cache()
        try:
            return _sent(self.files.info(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None

    def _local_versions(self) -> dict[str, str]:
        versions: dict[str, str] = {}
        for path in self.local.rglob("*"):
            name = path.relative_to(self.local).as_posix()
            if is_synchronised(name):
                with suppress(OSError):  # The file was replaced in the meantime.
                    versions[name] = _version(path)
        return versions

    def _upload(self, name: str) -> str:
        """Upload a file under a temporary name and rename it.

        Returns:
            Version in the store, or "" if another replica has changed the file in the meantime.
        """
        data = (self.local / name).read_bytes()
        target = f"{self.root}/{name}"
        self.files.makedirs(target.rpartition("/")[0], exist_ok=True)
        part = f"{target}.{os.getpid()}{_PARTIAL_SUFFIX}"
        self.files.pipe_file(part, data)
        self.files.mv(part, target)
        version = self._remote_version(name)
        with suppress(FileNotFoundError):
            if version is not None and self.files.cat_file(target) == data:
                return version
        return ""

    def _download(self, name: str) -> str | None:
        """Download a file and return its local version, or None if it was deleted from the store."""
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}{_PARTIAL_SUFFIX}")
        try:
            part.write_bytes(self.files.cat_file(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None
        version = _version(part)  # Renaming the file does not change its version.
        part.replace(path)
        return version

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.files.rm_file(f"{self.root}/{name}")


def is_synchronised(name: str) -> bool:
    """True if a file is a voice, a pronunciation dictionary or the key file."""
    return name == KEYS_FILE or (name.startswith(f"{VOICES}/") and name.endswith(_SUFFIXES) and "/." not in name)


def _sent(facts: Mapping[str, Any]) -> str:
    """Return a version string from the metadata that the fsspec file system provides."""
    names = ("ETag", "etag", "md5Hash", "ino", "mtime", "LastModified", "last_modified", "created", "size")
    return " ".join(str(facts[name]) for name in names if name in facts)


def _version(path: Path) -> str:
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
