"""Pronunciation dictionaries of one owner, combined with the server's shared ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.errors import DictionaryNotFound, DictionaryNotYours, TooManyDictionaries
from runtime.pronunciations.dictionary import PronunciationDictionary, Version, Word
from runtime.pronunciations.folder import DictionaryEdit, DictionaryFolder
from runtime.shared.owning import check_owned, check_room


@dataclass(frozen=True, slots=True)
class OwnerDictionaries:
    """Dictionaries of one owner, and the shared dictionaries as read-only.

    Thread: any.
    """

    own: DictionaryFolder
    common: DictionaryFolder | None = None  # Shared dictionaries. None if `own` is the shared folder.
    most: int = 0  # Maximum number of own dictionaries; 0: unlimited.

    def all(self) -> list[PronunciationDictionary]:
        """Return all usable dictionaries, the owner's first."""
        return [*self.own.all(), *(() if self.common is None else self.common.all())]

    def get(self, dictionary_id: str) -> PronunciationDictionary:
        """Return a dictionary by its id.

        Raises:
            DictionaryNotFound: There is no dictionary with this id.
        """
        found = self.own.find(dictionary_id)
        if found is None and self.common is not None:
            found = self.common.find(dictionary_id)
        if found is None:
            raise DictionaryNotFound(what="pronunciation dictionary of that id")
        return found

    def version(self, dictionary_id: str, version_id: str | None = None) -> Version:
        """Return a version of a dictionary.

        Without an id, the latest version is returned.

        Raises:
            DictionaryNotFound: The dictionary does not exist, or the version is not stored (any more).
        """
        version = self.get(dictionary_id).version(version_id)
        if version is None:
            raise DictionaryNotFound(what="such version of that pronunciation dictionary any more")
        return version

    def owns(self, dictionary_id: str) -> bool:
        """True if the client may change this dictionary."""
        return self.own.find(dictionary_id) is not None

    def add(self, name: str, words: Iterable[Word], *, description: str = "") -> PronunciationDictionary:
        """Add a dictionary like `DictionaryFolder.add`.

        Raises:
            TooManyDictionaries: The owner has reached the limit.
        """
        return self.own.add(name, words, description=description, check=self._check_room)

    def change(self, dictionary_id: str, edit: DictionaryEdit) -> PronunciationDictionary:
        """Change a dictionary like `DictionaryFolder.change`.

        Raises:
            DictionaryNotYours: The dictionary is shared.
        """
        check_owned(dictionary_id, self.own, self.common, DictionaryNotYours)
        return self.own.change(dictionary_id, edit)

    def delete(self, dictionary_id: str) -> None:
        """Delete a dictionary like `DictionaryFolder.delete`.

        Raises:
            DictionaryNotYours: The dictionary is shared.
        """
        check_owned(dictionary_id, self.own, self.common, DictionaryNotYours)
        self.own.delete(dictionary_id)

    def _check_room(self) -> None:
        if self.most:  # Without a limit, the files are not counted, because counting reads all of them.
            check_room(len(self.own.all()), self.most, TooManyDictionaries)
