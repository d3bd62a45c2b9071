"""Pronunciation dictionaries of one owner, combined with the server's shared dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.errors import DictionaryNotFound, DictionaryNotYours, TooManyDictionaries
from runtime.pronunciations.dictionary import PronunciationDictionary, Version, Word
from runtime.pronunciations.folder import DictionaryEdit, DictionaryFolder
from runtime.shared.owning import check_owned, check_room


@dataclass(frozen=True, slots=True)
class OwnerDictionaries:
    """Pronunciation dictionaries that an owner can use: own and shared dictionaries.

    The shared dictionaries are read-only. Thread: any.
    """

    own: DictionaryFolder
    common: DictionaryFolder | None = None  # Shared dictionaries, or None if `own` is the shared folder.
    max_dictionaries: int = 0  # Maximum number of own dictionaries, or 0 if it is unlimited.

    def all(self) -> list[PronunciationDictionary]:
        """Return all usable dictionaries, starting with the owner's dictionaries."""
        return [*self.own.all(), *(() if self.common is None else self.common.all())]

    def get(self, dictionary_id: str) -> PronunciationDictionary:
        """Return the dictionary with this id.

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
        """Return a version of a dictionary, by default the latest version.

        Raises:
            DictionaryNotFound: The dictionary does not exist, or the version is not stored (any more).
        """
        version = self.get(dictionary_id).version(version_id)
        if version is None:
            raise DictionaryNotFound(what="such version of that pronunciation dictionary any more")
        return version

    def owns(self, dictionary_id: str) -> bool:
        """True if the dictionary belongs to the owner, who may change it."""
        return self.own.find(dictionary_id) is not None

    def add(self, name: str, words: Iterable[Word], *, description: str = "") -> PronunciationDictionary:
        """Add a dictionary to the owner's folder, like `DictionaryFolder.add`.

        Raises:
            TooManyDictionaries: The owner has the maximum number of dictionaries.
        """
        return self.own.add(name, words, description=description, check=self._check_room)

    def change(self, dictionary_id: str, edit: DictionaryEdit) -> PronunciationDictionary:
        """Change a dictionary of the owner, like `DictionaryFolder.change`.

        Raises:
            DictionaryNotYours: The dictionary is shared.
        """
        check_owned(dictionary_id, self.own, self.common, DictionaryNotYours)
        return self.own.change(dictionary_id, edit)

    def delete(self, dictionary_id: str) -> None:
        """Delete a dictionary of the owner, like `DictionaryFolder.delete`.

        Raises:
            DictionaryNotYours: The dictionary is shared.
        """
        check_owned(dictionary_id, self.own, self.common, DictionaryNotYours)
        self.own.delete(dictionary_id)

    def _check_room(self) -> None:
        if self.max_dictionaries:  # Without a limit, the files are not counted because counting reads all of them.
            check_room(len(self.own.all()), self.max_dictionaries, TooManyDictionaries)
