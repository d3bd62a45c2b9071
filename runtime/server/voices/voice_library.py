"""Voice library interface that the server needs."""

from __future__ import annotations

from typing import Protocol

from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.request import Reference
from runtime.voices.voice import VoiceCard as VoiceCard


class VoiceLibrary(Protocol):
    """Voices on disk with an index in memory. ``find`` and ``cards`` return at once; ``reference`` reads a file."""

    @property
    def pronunciations(self) -> OwnerDictionaries:
        """Its pronunciation dictionaries; to find one reads its file, where that has changed."""
        ...

    def cards(self) -> tuple[VoiceCard, ...]:
        """Return every usable voice, by name."""
        ...

    def find(self, name_or_id: str) -> VoiceCard | None:
        """Return the voice of that id, or of that name without regard to case; None if there is none."""
        ...

    def reference(self, voice_id: str) -> Reference:
        """Return the voice as a request takes it, with its prompt if one is kept. Thread: a worker.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice was deleted or damaged in the meantime.
        """
        ...
