"""Immutable listing of the voice library, for concurrent readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from runtime.shared.names import name_key
from runtime.voices.index import IndexEntry
from runtime.voices.voice import VoiceCard

SUFFIX = ".voice"
UNREADABLE_SUFFIX = ".unreadable"  # Suffix of damaged files that were renamed.


@dataclass(frozen=True, slots=True)
class VoiceFileProblem:
    """File in the voice folder that is not a valid voice.

    `file` is its name without the folder.
    """

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class VoiceListing:
    """Immutable listing of the voices and problems in a folder."""

    stamp: int | None = None  # Time in ns at which the folder was modified, or None if it does not exist.
    cards: tuple[VoiceCard, ...] = ()
    by_id: Mapping[str, VoiceCard] = field(default_factory=dict)
    by_name: Mapping[str, VoiceCard] = field(default_factory=dict)
    # For each voice id, the fingerprints of the voice's prompts.
    prompts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    problems: tuple[VoiceFileProblem, ...] = ()


def file_name_of(voice_id: str) -> str:
    return voice_id + SUFFIX


def create_listing(
    stamp: int | None, entries: Collection[IndexEntry], unreadable_files: Collection[str] = ()
) -> VoiceListing:
    """Create the listing of a voice folder from the rows of its index.

    If two voices have the same name, only the older voice is listed.

    Args:
        stamp: Modification time of the folder in ns, or None if the folder does not exist.
        entries: Rows of the index.
        unreadable_files: Names of damaged files that were renamed.
    """
    by_name: dict[str, VoiceCard] = {}
    problems = [VoiceFileProblem(entry.file, entry.problem) for entry in entries if entry.problem is not None]
    problems += [VoiceFileProblem(file, "It could not be read and was set aside.") for file in unreadable_files]
    cards = sorted(
        (entry.card for entry in entries if entry.card is not None), key=lambda card: (card.created_at, card.id)
    )
    for card in cards:
        if by_name.setdefault(name_key(card.name), card) is not card:
            problems.append(
                VoiceFileProblem(file_name_of(card.id), "Another voice has its name; rename or delete one of them.")
            )
    usable = tuple(card for _, card in sorted(by_name.items()))
    return VoiceListing(
        stamp=stamp,
        cards=usable,
        by_id={card.id: card for card in usable},
        by_name=by_name,
        prompts={entry.card.id: entry.prompts for entry in entries if entry.card is not None},
        problems=tuple(sorted(problems, key=lambda problem: problem.file)),
    )
