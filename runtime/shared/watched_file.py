"""File content that is reloaded when the file changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

POLL_INTERVAL_S = 0.5  # Minimum seconds between two checks of the file.

Value = TypeVar("Value")


class WatchedFile(Generic[Value]):
    """Text file whose content is parsed again when the file changes.

    A check for changes reads the disk and blocks. Thread: event loop.
    """

    def __init__(
        self, path: str, read: Callable[[str], Value], absent: Value, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create an object that reads a file again whenever the file changes.

        Args:
            path: Path of the file, or "" if there is no file.
            read: Parser of the file's text, which may raise ValueError.
            absent: Value if the file cannot be read or parsed.
            clock: Function that returns the time in seconds.
        """
        self._path = Path(path) if path else None
        self._read = read
        self._absent = absent
        self._clock = clock
        self._looked = float("-inf")
        self._version: tuple[int, int, int] | None = None
        self._value = absent

    def value(self) -> Value:
        """Return the parsed content of the file.

        The file is checked for changes at most every half second.
        """
        if self._path is not None and self._clock() - self._looked >= POLL_INTERVAL_S:
            self._looked = self._clock()
            self._check_file(self._path)
        return self._value

    def _check_file(self, path: Path) -> None:
        try:
            state = os.stat(path)
            version = (state.st_size, state.st_mtime_ns, state.st_ino)
            if version != self._version:
                self._value = self._read(path.read_text(encoding="utf-8"))
                self._version = version
        except (OSError, ValueError):
            self._value, self._version = self._absent, None
