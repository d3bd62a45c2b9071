"""Small tmpfs that a test can fill or make read-only, if the process may mount it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

FILLER = "filler"


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """Mounted temporary file system (tmpfs) with a size limit."""

    folder: Path

    def fill(self) -> None:
        """Write data until the disk has no free space."""
        with (self.folder / FILLER).open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def make_room(self) -> None:
        (self.folder / FILLER).unlink()

    def allow_writing(self, is_allowed: bool) -> None:
        """Remount the disk as writable or read-only.

        No file on the disk may be open for writing.
        """
        _mount("-o", f"remount,{'rw' if is_allowed else 'ro'}", str(self.folder))


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs of `kib` KiB at `folder`, and yield the disk.

    If this process may not mount a file system, the test is skipped.
    """
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={kib}k,mode=700", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    if os.geteuid() != 0:
        raise PermissionError("mounting is for root")
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
