"""Interface of the voice library for the server."""

from __future__ import annotations

from typing import Protocol

from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.request import Reference
from runtime.voices.voice import VoiceCard as VoiceCard


class VoiceLibrary(Protocol):
    """Library of stored voices with an index in memory.

    `find` and `cards` do not block. `reference` reads a file.
    """

    @property
    def pronunciations(self) -> OwnerDictionaries:
        """Return the pronunciation dictionaries.

        A lookup reads the file if it has changed.
        """
        ...

    def cards(self) -> tuple[VoiceCard, ...]:
        """Return all usable voices, sorted by name."""
        ...

    def find(self, name_or_id: str) -> VoiceCard | None:
        """Return the voice with this id or case-insensitive name, or None."""
        ...

    def reference(self, voice_id: str) -> Reference:
        """Return the voice as a request's reference, with its stored prompt if any.

        Thread: a worker.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice was deleted or damaged in the meantime.
        """
        ...
