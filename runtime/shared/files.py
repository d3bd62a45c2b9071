"""Atomic file writes: if the process is killed, either the old or the new file exists."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import StorageFailed
from runtime.shared import system

LOCK = ".lock"
TEMPORARY = ".tmp"

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextlib.contextmanager
def storing(what: str, owner: str) -> Iterator[None]:
    """Convert an OSError of the ``with`` block to StorageFailed.

    Args:
        what: Description of the file in the error message.
        owner: Description of the folder in the error message.

    Raises:
        StorageFailed: The disk is full or failed, or the folder is not writable.
    """
    try:
        yield
    except OSError as error:
        why = "the disk gave an error"
        if error.errno in _FULL:
            why = "the disk is full"
        elif error.errno in _CLOSED:
            why = f"the folder of the {owner} cannot be written"
        raise StorageFailed(what=what, why=why) from None


def make_private(folder: Path) -> None:
    """Create a folder that only the current user can access, and its missing parent folders.

    Raises:
        OSError: A folder cannot be created.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other writing processes while the context is active.

    The lock is released when the context exits or when the process ends.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | system.flags("O_CLOEXEC", "O_NOFOLLOW"), 0o600)
    try:
        system.lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Replace a file in a folder atomically.

    The caller must hold the lock of the folder.

    Raises:
        OSError: The file cannot be written.
    """
    temporary = folder / f".{name}.{uuid.uuid4().hex[:8]}{TEMPORARY}"
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    system.sync_folder(folder)


def _private(path: str, flags: int) -> int:
    """Open a file that only the current user can access.

    Other users may be able to list the folder.
    """
    return os.open(path, flags, 0o600)


def remove_file(folder: Path, name: str) -> None:
    """Delete a file and flush the folder to disk.

    The caller must hold the lock of the folder.

    Raises:
        OSError: The file cannot be deleted.
    """
    (folder / name).unlink(missing_ok=True)
    system.sync_folder(folder)


def sweep(folder: Path) -> None:
    """Delete the temporary files that killed processes have left in a folder.

    The caller must hold the lock of the folder, so no other writer is active.
    """
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)
