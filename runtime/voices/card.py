"""Defines a stored voice as it is listed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceCard:
    """What is known of a voice without reading its file. ``id`` never changes; ``name`` is data and never a path."""

    id: str
    name: str
    language: str = "auto"
    description: str | None = None
    tags: tuple[str, ...] = ()
    transcript: str | None = None  # None: it clones by x-vector only
    seconds: float = 0.0  # of the reference audio
    file_bytes: int = 0
    created_at: float = 0.0  # seconds since the epoch
    consent: str | None = None  # the speaker's, in the words of who uploaded it
    provenance: dict[str, str] = field(default_factory=dict)  # where it comes from: model, seed, description, ...
    advice: tuple[str, ...] = ()  # sentences of the examination's checks
