"""What the server needs of the voice library, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from runtime.errors import VoiceNotFound
from runtime.request import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceCard:
    """A stored voice as it is listed. ``id`` is generated and never changes; ``name`` is data and never a path."""

    id: str
    name: str
    language: str = "auto"
    description: str | None = None
    transcript: str | None = None  # None: it clones by x-vector only
    seconds: float = 0.0  # of the reference audio
    file_bytes: int = 0
    created_at: float = 0.0  # seconds since the epoch
    consent: str | None = None  # the speaker's, in the words of who uploaded it
    provenance: dict[str, str] = field(default_factory=dict)  # where it comes from: model, seed, description, ...
    advice: tuple[str, ...] = ()  # sentences of the intake's checks


class VoiceLibrary(Protocol):
    """Voices on disk with an index in memory. ``find`` and ``cards`` return at once; ``reference`` reads a file."""

    def cards(self) -> tuple[VoiceCard, ...]:
        """Every voice that can be used, by name."""
        ...

    def find(self, name_or_id: str) -> VoiceCard | None:
        """The voice of that id, or of that name without regard to case; None if there is none."""
        ...

    def reference(self, voice_id: str) -> Reference:
        """The voice as a request takes it, with its prompt if one is kept. Thread: a worker.

        Raises:
            VoiceNotFound, VoiceFileInvalid: it was deleted or damaged meanwhile.
        """
        ...


class EmptyLibrary:
    """The library of a host that keeps no voices."""

    def cards(self) -> tuple[VoiceCard, ...]:
        return ()

    def find(self, name_or_id: str) -> VoiceCard | None:
        return None

    def reference(self, voice_id: str) -> Reference:
        raise VoiceNotFound(param="voice")
