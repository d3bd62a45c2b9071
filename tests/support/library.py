"""Voice library that stores its voices in memory."""

from __future__ import annotations

from pathlib import Path

from runtime.errors import VoiceNotFound
from runtime.pronunciations.folder import DictionaryFolder
from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.request import Reference
from runtime.voices.voice import VoiceCard


class MemoryLibrary:
    """In-memory replacement of the voice library, in which all voices have a voice prompt."""

    def __init__(self, *voices: tuple[VoiceCard, Reference]) -> None:
        self.fingerprint: str | None = None
        self.folder = Path("/nowhere")
        self.pronunciations = OwnerDictionaries(DictionaryFolder(self.folder))
        self._cards = tuple(card for card, _ in voices)
        self._references = {card.id: reference for card, reference in voices}

    def open(self) -> None: ...

    def close(self) -> None: ...

    def cards(self) -> tuple[VoiceCard, ...]:
        return self._cards

    def find(self, name_or_id: str) -> VoiceCard | None:
        return next((card for card in self._cards if name_or_id.lower() in {card.id, card.name.lower()}), None)

    def without_prompt(self, fingerprint: str) -> tuple[str, ...]:
        return ()

    def reference(self, voice_id: str) -> Reference:
        if voice_id not in self._references:
            raise VoiceNotFound
        return self._references[voice_id]
