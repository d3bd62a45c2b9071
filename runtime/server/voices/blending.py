"""Blends of two voices, such as ``angus:0.6+clara:0.4``: two voice names with weights.

Before a blend is used, it is resolved: each stored voice in it is written as ``voice:`` and its id. All APIs treat a
resolved blend like the id of a stored voice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from runtime.request import BlendPart, Reference
from runtime.server.voices.voice_library import VoiceCard, VoiceLibrary
from runtime.shared.names import STORED_PREFIX, parse_blend
from runtime.voices.voice import FORBIDS_BLENDS


def forbids_blends(card: VoiceCard) -> bool:
    """True if the speaker of a stored voice does not allow blends."""
    return card.provenance.get("blend", "").strip().lower() == FORBIDS_BLENDS


def voice_reference(library: VoiceLibrary, stored: str) -> Reference:
    """Return the reference of a stored voice or of a blend.

    Args:
        stored: Id of a stored voice, or a resolved blend.

    Thread: a worker.

    Raises:
        VoiceNotFound, VoiceFileInvalid: A voice file was deleted or is damaged.
    """
    named = parse_blend(stored)
    if named is None:
        return library.reference(stored)
    parts = tuple(_part(library, name, weight) for name, weight in named)
    return Reference(samples=np.zeros(0, np.float32), x_vector_only=True, blend=parts)


def _part(library: VoiceLibrary, name: str, weight: float) -> BlendPart:
    if not name.startswith(STORED_PREFIX):
        return BlendPart(weight=weight, speaker=name)
    reference = library.reference(name.removeprefix(STORED_PREFIX))
    return BlendPart(weight=weight, reference=replace(reference, text=None, x_vector_only=True))
