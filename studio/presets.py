"""Presets of the page, such as example texts and speakers, read from the folder presets/."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from runtime.shipped import shipped

FOLDER = shipped("studio", "presets")
# Purposes of designed voices. Each entry of presets/designs.toml has one, and the page translates them.
USES = ("narrator", "assistant", "broadcast", "character", "teacher")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Suggested speaking style, with a short name and a text in each language of the page."""

    name: dict[str, str]
    text: dict[str, str]


@dataclass(frozen=True, slots=True)
class SampleScript:
    """Example of a script (a dialogue or another text whose lines have voices).

    `name` has a name in each language of the page.
    """

    name: dict[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Starter:
    """Example text that the page offers when the text field of a tab is empty.

    ``name`` and ``text`` are dictionaries by language, with one or more texts. ``cast`` is True if the text is a
    dialogue of several speakers in script format.
    """

    name: dict[str, str]
    text: dict[str, list[str]]
    cast: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Example of a voice description, with a name and a sample text in the same language."""

    use: str
    language: str
    name: str
    text: str
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSpeaker:
    """Description of a speaker of the published checkpoints, in all languages of the page."""

    name: str
    language: str
    character: dict[str, str]
    sample: str
    accent: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Presets:
    """All example texts, styles, voices and speakers in the folder presets/.

    `texts` and `readings` are dictionaries by language. `texts` are initial texts of the page, and the key ``auto`` is
    the default. `readings` are texts that the user reads aloud to clone a voice.
    """

    texts: dict[str, str]
    readings: dict[str, str]
    designs: tuple[Design, ...]
    instructs: tuple[Suggestion, ...]
    scripts: tuple[SampleScript, ...]
    starters: tuple[Starter, ...]
    speakers: tuple[KnownSpeaker, ...]

    @classmethod
    def load(cls, folder: Path = FOLDER) -> Self:
        """Load all presets from a folder.

        Raises:
            TypeError, KeyError: A file lacks a documented field (a packaging error).
        """
        return cls(
            texts=_read(folder / "texts.toml")["texts"],
            readings=_read(folder / "readings.toml")["readings"],
            designs=tuple(Design(**entry) for entry in _read(folder / "designs.toml")["design"]),
            instructs=tuple(Suggestion(**entry) for entry in _read(folder / "instructs.toml")["instruct"]),
            scripts=tuple(SampleScript(**entry) for entry in _read(folder / "scripts.toml")["script"]),
            starters=tuple(Starter(**entry) for entry in _read(folder / "starters.toml")["starter"]),
            speakers=tuple(KnownSpeaker(**entry) for entry in _read(folder / "speakers.toml")["speaker"]),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))
