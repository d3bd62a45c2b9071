"""Interface of the voice library that the server uses."""

from __future__ import annotations

from typing import Protocol

from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.request import Reference
from runtime.voices.voice import VoiceCard as VoiceCard


class VoiceLibrary(Protocol):
    """Interface of a library of stored voices with an index in memory.

    `find` and `cards` do not block. `reference` reads a file.
    """

    @property
    def pronunciations(self) -> OwnerDictionaries:
        """Return the pronunciation dictionaries of the library's owner."""
        ...

    def cards(self) -> tuple[VoiceCard, ...]:
        """Return the cards of all usable voices, sorted by name."""
        ...

    def find(self, name_or_id: str) -> VoiceCard | None:
        """Return the card of the voice with this id or name, or None.

        The case of a name is ignored.
        """
        ...

    def reference(self, voice_id: str) -> Reference:
        """Return the audio, the transcript and the prompt of a voice as a `Reference`.

        Thread: a worker.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice file was deleted or is damaged.
        """
        ...
