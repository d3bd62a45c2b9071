"""Speakers that a client may name: of the checkpoints here, and of others behind the same port.

Replicas of a cluster may serve different checkpoints. A listing is answered by one of them and has to hold the speakers
of all; no voice may be kept anywhere under the name of one. The cluster writes what the others serve into a file, as
``/v1/models`` lists it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.request import Mode, ModelCard
from runtime.shared.watched_file import WatchedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A voice that a CustomVoice checkpoint was trained with."""

    name: str
    model: str
    language: str  # The first language of its checkpoint; empty if it has none.
    created: int  # Creation time of the checkpoint, in seconds since the epoch.


class Speakers:
    """Those of all checkpoints. Thread: the event loop."""

    def __init__(self, elsewhere: str) -> None:
        """``elsewhere`` is the path of the file that tells of other checkpoints; empty: there are none."""
        self._elsewhere: WatchedFile[tuple[Speaker, ...]] = WatchedFile(elsewhere, speakers_of, ())

    def beside(self, cards: Sequence[ModelCard]) -> dict[str, Speaker]:
        """Speakers by name: of these cards first, then those of other checkpoints."""
        ours = (
            speaker
            for card in cards
            for speaker in _speakers(card.name, card.modes, card.speakers, card.languages, card.created)
        )
        found: dict[str, Speaker] = {}
        for speaker in (*ours, *self._elsewhere.value()):
            found.setdefault(speaker.name, speaker)
        return found


def speakers_of(text: str) -> tuple[Speaker, ...]:
    """Return the speakers of a JSON list of checkpoints, each as ``/v1/models`` describes it.

    Raises:
        ValueError: it is none.
    """
    try:
        return tuple(
            speaker
            for model in json.loads(text)
            for speaker in _speakers(
                *(str(model["id"]), model["modes"], map(str, model["speakers"]), model["languages"]),
                int(model["created"]),
            )
        )
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from None


def _speakers(
    model: str, modes: Iterable[str], names: Iterable[str], languages: Sequence[str], created: int
) -> list[Speaker]:
    language = languages[0] if languages else ""
    can_speak = Mode.CUSTOM_VOICE in modes
    return [Speaker(name=name, model=model, language=language, created=created) for name in names if can_speak]
