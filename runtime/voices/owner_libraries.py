"""Voices and pronunciation dictionaries of owners, combined with the shared ones.

A gateway in front of the server, such as the studio, sends the id of an owner in a header. The owner's library is a
folder whose name is a digest of this id.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from runtime.errors import TooManyVoices, VoiceNotYours
from runtime.pronunciations.folder import DictionaryFolder
from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.request import Reference
from runtime.shared.names import name_key
from runtime.shared.owning import Owned
from runtime.voices.library import Library
from runtime.voices.listing import VoiceFileProblem
from runtime.voices.voice import Voice, VoiceCard, VoiceChanges

FOLDER = "owners"
PRONUNCIATIONS = "pronunciations"
MAX_OPEN_LIBRARIES = 256


@dataclass(frozen=True, slots=True)
class OwnerLibrary(Owned[Library, VoiceCard, VoiceChanges]):
    """Voices that an owner can use.

    The owner can change the owner's voices. The shared voices are read-only.
    """

    not_yours = VoiceNotYours
    too_many = TooManyVoices

    max_pronunciations: int = 0  # Maximum number of own pronunciation dictionaries, or 0 for no limit.

    @property
    def pronunciations(self) -> OwnerDictionaries:
        """Return the pronunciation dictionaries that the owner can use."""
        common = None if self.common is None else DictionaryFolder(self.common.folder / PRONUNCIATIONS)
        return OwnerDictionaries(DictionaryFolder(self.own.folder / PRONUNCIATIONS), common, self.max_pronunciations)

    def cards(self) -> tuple[VoiceCard, ...]:
        """Return the usable voices of the owner and the shared voices, sorted by name."""
        return _by_name(self.own.cards(), () if self.common is None else self.common.cards())

    def search(self, words: str) -> tuple[VoiceCard, ...]:
        """Search the owner's voices and the shared voices, like `Library.search`."""
        return _by_name(self.own.search(words), () if self.common is None else self.common.search(words))

    def problems(self) -> tuple[VoiceFileProblem, ...]:
        """Return the owner's unusable voice files, with the reason for each file."""
        return self.own.problems()

    def reference(self, voice_id: str) -> Reference:
        """Return a voice as a `Reference` for a speech request, like `Library.reference`."""
        return self._holder(voice_id).reference(voice_id)

    def export(self, voice_id: str) -> bytes:
        """Return the content of a voice's file as bytes, like `Library.export`."""
        return self._holder(voice_id).export(voice_id)

    # --- Methods that change the owner's voices.

    def register_voice(self, voice: Voice, *, replace_id: str | None = None) -> VoiceCard:
        """Add a voice to the owner's library, like `Library.register_voice`.

        Raises:
            TooManyVoices: The owner has the maximum number of voices.
        """
        if replace_id is None:
            self._check_limit(len(self.own.cards()))
        return self.own.register_voice(voice, replace_id=replace_id)

    def import_(self, voice: Voice) -> VoiceCard:
        """Import a voice into the owner's library, like `Library.import_`.

        Raises:
            TooManyVoices: The owner has the maximum number of voices.
        """
        self._check_limit(len(self.own.cards()))
        return self.own.import_(voice)

    def _holder(self, voice_id: str) -> Library:
        return self.own if self.common is None or self.owns(voice_id) else self.common


class OwnerLibraries:
    """Cache of the owners' voice libraries, by owner.

    Only one thread may use the cache.
    """

    def __init__(self, common: Library, max_voices: int, max_pronunciations: int = 0) -> None:
        """Create an empty cache.

        Args:
            common: Library with the shared voices.
            max_voices: Maximum number of voices per owner, or 0 for no limit.
            max_pronunciations: Maximum number of pronunciation dictionaries per owner, or 0 for no limit.
        """
        self._common = common
        self._max_voices = max_voices
        self._max_pronunciations = max_pronunciations
        self._owned: OrderedDict[str, Library] = OrderedDict()

    def library_of(self, owner: str) -> OwnerLibrary:
        """Return the library of an owner, or the shared library if `owner` is empty."""
        if not owner:
            return OwnerLibrary(self._common)
        name = hashlib.sha256(owner.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        library = self._owned.setdefault(name, Library(self._common.folder / FOLDER / name))
        library.fingerprint = self._common.fingerprint
        self._owned.move_to_end(name)
        if len(self._owned) > MAX_OPEN_LIBRARIES:
            self._owned.popitem(last=False)[1].close()
        return OwnerLibrary(library, self._common, self._max_voices, self._max_pronunciations)

    def libraries(self) -> tuple[Library, ...]:
        """Return the shared library and the recently used libraries of owners."""
        return (self._common, *self._owned.values())

    def close(self) -> None:
        for library in self.libraries():
            library.close()


def _by_name(own: tuple[VoiceCard, ...], common: tuple[VoiceCard, ...]) -> tuple[VoiceCard, ...]:
    return tuple(sorted((*own, *common), key=lambda card: name_key(card.name))) if common else own
