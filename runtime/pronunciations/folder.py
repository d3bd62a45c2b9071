"""Folder of pronunciation dictionaries, with one file per dictionary.

Several processes may share the folder. Thread: any.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from runtime.errors import DictionaryNotFound
from runtime.pronunciations.dictionary import MAX_BYTES, PronunciationDictionary, Word, new_dictionary, read, write
from runtime.shared.files import locked, make_private, remove_file, replace_file, storing, sweep
from runtime.shared.names import checked_name, is_id
from runtime.shared.system import flags

log = logging.getLogger(__name__)

SUFFIX = ".pronunciations"
_MAX_CACHED_DICTIONARIES = 32


@dataclass(frozen=True, slots=True)
class DictionaryEdit:
    """Changes to a dictionary, where None means no change."""

    name: str | None = None
    description: str | None = None
    is_archived: bool | None = None
    # Function that maps the current words to the new words.
    words: Callable[[tuple[Word, ...]], Iterable[Word]] | None = None

    def apply_to(self, dictionary: PronunciationDictionary, now: float) -> PronunciationDictionary:
        """Return a copy of the dictionary with these changes.

        Args:
            now: Current Unix time in seconds.

        Raises:
            InvalidConfig: The name is invalid, or there are too many words.
        """
        changed = replace(
            dictionary,
            name=dictionary.name if self.name is None else checked_name(self.name),
            description=dictionary.description if self.description is None else self.description,
            archived_at=self._archived_at(dictionary.archived_at, now),
        )
        return changed if self.words is None else changed.with_words(self.words(dictionary.latest.words), now)

    def _archived_at(self, before: float | None, now: float) -> float | None:
        if self.is_archived is None:
            return before
        return (before or now) if self.is_archived else None


class DictionaryFolder:
    """Stored pronunciation dictionaries of one owner.

    The folder is created with the first dictionary. The files are authoritative: each lookup checks the file and reads
    it again if it has changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, dictionary_id: str) -> PronunciationDictionary | None:
        """Return the dictionary with this id, or None if it does not exist or is unusable."""
        if not is_id(dictionary_id):
            return None
        path = self.folder / (dictionary_id + SUFFIX)
        try:
            state = path.stat(follow_symlinks=False)
            if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
                return None
            dictionary = _parsed(path, (state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            return None
        except ValueError as error:
            log.warning("%s cannot be used: %s", path.name, error)
            return None
        return dictionary if dictionary.id == dictionary_id else None

    def all(self) -> list[PronunciationDictionary]:
        """Return all usable dictionaries, the newest first."""
        try:
            names = [name.removesuffix(SUFFIX) for name in os.listdir(self.folder) if name.endswith(SUFFIX)]
        except OSError:
            return []
        dictionaries = [dictionary for name in names if (dictionary := self.find(name)) is not None]
        return sorted(dictionaries, key=lambda dictionary: (-dictionary.created_at, dictionary.id))

    # --- Methods that change dictionaries. If the disk refuses a write, they change nothing and raise StorageFailed.

    def create_dictionary(
        self, name: str, words: Iterable[Word], *, description: str = "", check: Callable[[], None] = lambda: None
    ) -> PronunciationDictionary:
        """Store a new dictionary and return it.

        Args:
            check: Function that is called under the lock and may raise an error.

        Raises:
            InvalidConfig: The name is invalid.
        """
        dictionary = new_dictionary(name, words, time.time(), description=description)
        with self._writing():
            check()
            return self._put(dictionary)

    def change(self, dictionary_id: str, edit: DictionaryEdit) -> PronunciationDictionary:
        """Change a dictionary and return the new version.

        The dictionary is read and written under the lock, so no concurrent change is lost.

        Raises:
            DictionaryNotFound: There is no dictionary with this id.
            InvalidConfig: A value is invalid.
        """
        with self._writing():
            return self._put(edit.apply_to(self._known(dictionary_id), time.time()))

    def delete(self, dictionary_id: str) -> None:
        """Delete a dictionary permanently.

        Raises:
            DictionaryNotFound: There is no dictionary with this id.
        """
        with self._writing():
            self._known(dictionary_id)
            remove_file(self.folder, dictionary_id + SUFFIX)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Context manager that locks the folder for writing.

        It also deletes temporary files that killed processes left.
        """
        with storing("The pronunciation dictionary", "voices"):
            make_private(self.folder)
            with locked(self.folder):
                sweep(self.folder)
                yield

    def _known(self, dictionary_id: str) -> PronunciationDictionary:
        if (dictionary := self.find(dictionary_id)) is None:
            raise DictionaryNotFound(what="pronunciation dictionary of that id")
        return dictionary

    def _put(self, dictionary: PronunciationDictionary) -> PronunciationDictionary:
        data = write(dictionary)
        written = read(data)  # Check that the written dictionary can be read.
        replace_file(self.folder, dictionary.id + SUFFIX, data)
        return written


@lru_cache(_MAX_CACHED_DICTIONARIES)
def _parsed(path: Path, _version: tuple[int, int, int]) -> PronunciationDictionary:
    """Read and parse a dictionary file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a dictionary.
    """
    descriptor = os.open(path, os.O_RDONLY | flags("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    with open(descriptor, "rb") as file:
        return read(file.read(MAX_BYTES + 1))
