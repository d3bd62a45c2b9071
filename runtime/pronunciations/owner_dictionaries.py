"""Pronunciation dictionaries of one owner, combined with the server's shared dictionaries."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.errors import DictionaryNotFound, DictionaryNotYours, TooManyDictionaries
from runtime.pronunciations.dictionary import PronunciationDictionary, Version, Word
from runtime.pronunciations.folder import DictionaryEdit, DictionaryFolder
from runtime.shared.owning import Owned


class OwnerDictionaries(Owned[DictionaryFolder, PronunciationDictionary, DictionaryEdit]):
    """Pronunciation dictionaries that an owner can use."""

    __slots__ = ()
    not_yours = DictionaryNotYours
    too_many = TooManyDictionaries

    def all(self) -> list[PronunciationDictionary]:
        """Return all usable dictionaries, starting with the owner's dictionaries."""
        return [*self.own.all(), *(() if self.common is None else self.common.all())]

    def get(self, dictionary_id: str) -> PronunciationDictionary:
        """Return the dictionary with this id.

        Raises:
            DictionaryNotFound: There is no dictionary with this id.
        """
        if (dictionary := self.find(dictionary_id)) is None:
            raise DictionaryNotFound(what="pronunciation dictionary of that id")
        return dictionary

    def version(self, dictionary_id: str, version_id: str | None = None) -> Version:
        """Return a version of a dictionary, by default the latest version.

        Raises:
            DictionaryNotFound: The dictionary does not exist, or the version is not stored.
        """
        version = self.get(dictionary_id).version(version_id)
        if version is None:
            raise DictionaryNotFound(what="such version of that pronunciation dictionary any more")
        return version

    def create_dictionary(self, name: str, words: Iterable[Word], *, description: str = "") -> PronunciationDictionary:
        """Add a dictionary to the owner's folder, like `DictionaryFolder.create_dictionary`.

        Raises:
            TooManyDictionaries: The owner has the maximum number of dictionaries.
        """
        return self.own.create_dictionary(name, words, description=description, check=self._check_count)

    def _check_count(self) -> None:
        if self.max_items:  # If there is no limit, the files are not counted, because this would read all of them.
            self._check_limit(len(self.own.all()))
