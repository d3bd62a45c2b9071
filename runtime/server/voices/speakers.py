"""Speakers of the local checkpoints and of the other replicas in a cluster.

Replicas may serve different checkpoints, but every replica must list all speakers. Therefore, the cluster writes the
checkpoints of the other replicas to a file in the format of ``/v1/models``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.request import Mode, ModelCard
from runtime.shared.watched_file import WatchedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Built-in voice of a CustomVoice checkpoint."""

    name: str
    model: str
    language: str  # First language of the checkpoint, or an empty string if it has none.
    created: int  # Unix time at which the checkpoint was created.


class Speakers:
    """Built-in voices, called speakers, of the checkpoints on all replicas.

    Thread: event loop.
    """

    def __init__(self, elsewhere: str) -> None:
        """Create a list of speakers that is updated when the file changes.

        Args:
            elsewhere: Path of the file that lists the checkpoints of other replicas, or "" if there is no file.
        """
        self._elsewhere: WatchedFile[tuple[Speaker, ...]] = WatchedFile(elsewhere, speakers_of, ())

    def by_name(self, cards: Sequence[ModelCard]) -> dict[str, Speaker]:
        """Return the speakers of `cards` and of other replicas, by name."""
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
    """Return the speakers of the checkpoints in a JSON text.

    Args:
        text: List of checkpoints in the format of ``/v1/models``.

    Raises:
        ValueError: The text has another format.
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
