"""Pronunciation dictionary as a value and as a JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from runtime.shared.names import checked_name, is_id, new_id
from runtime.shared.strict_json import parse_object

FORMAT = "voicewright.pronunciations.v1"
MAX_BYTES = 512 * 2**10  # of a file that is read
KEPT_BYTES = 256 * 2**10  # of one that is written, but for a newest version that is larger by itself
MAX_VERSIONS = 16
MAX_WORDS = 200
LONGEST_WORD, LONGEST_SAID, LONGEST_ABOUT = 80, 200, 500  # characters


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and how it is said; ``case_sensitive``: in no other case than it is written."""

    word: str
    say_as: str
    case_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """The words as they were kept at one time. ``created_at`` is in seconds since the epoch."""

    id: str
    created_at: float
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PronunciationDictionary:
    """A list of words with a name. Its versions are never changed; the last of them is the present one."""

    id: str
    name: str
    description: str = ""
    created_at: float
    archived_at: float | None = None  # since then lists leave it out that say so; it is spoken with as before
    versions: tuple[Version, ...]

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    def version(self, version_id: str | None) -> Version | None:
        """The version of that id, without one the latest; None: it is not kept, or not any more."""
        if version_id is None:
            return self.latest
        return next((version for version in self.versions if version.id == version_id), None)

    def with_words(self, words: Iterable[Word], now: float) -> PronunciationDictionary:
        """The same with a new version, unless these are its words already; the oldest versions go for it."""
        version = Version(new_id(), now, tuple(words))
        if version.words == self.latest.words:
            return self
        return replace(self, versions=(*self.versions, version)[-MAX_VERSIONS:])


def new_dictionary(name: str, words: Iterable[Word], now: float, *, description: str = "") -> PronunciationDictionary:
    """A dictionary that was never kept.

    Raises:
        InvalidConfig: its name cannot be one.
    """
    return PronunciationDictionary(
        id=new_id(),
        name=checked_name(name),
        description=description,
        created_at=now,
        versions=(Version(new_id(), now, tuple(words)),),
    )


def write(dictionary: PronunciationDictionary) -> bytes:
    """The bytes of its file, with as many of the older versions as fit in there."""
    data = json.dumps({"format": FORMAT, **asdict(dictionary)}, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > KEPT_BYTES and len(dictionary.versions) > 1:
        return write(replace(dictionary, versions=dictionary.versions[1:]))
    return data


def read(data: bytes) -> PronunciationDictionary:
    """A dictionary out of its file.

    Raises:
        ValueError: it is none, or one of a later version of the format. The text of the error says why.
    """
    fields = parse_object(data)
    if fields.pop("format", None) != FORMAT:
        raise ValueError("it is of another version")
    try:
        versions = tuple(_version(version) for version in fields.pop("versions"))
        dictionary = PronunciationDictionary(**fields, versions=versions)
    except (TypeError, KeyError, AttributeError):
        raise ValueError("it lacks fields, or has others") from None
    _check(dictionary)
    return dictionary


def _version(fields: dict[str, Any]) -> Version:
    return Version(fields["id"], fields["created_at"], tuple(Word(**word) for word in fields["words"]))


def _check(dictionary: PronunciationDictionary) -> None:
    """Check a dictionary read from a file.

    Raises:
        ValueError: a value is of another type, or out of its range.
    """
    texts = [(dictionary.name, 1, 64), (dictionary.description, 0, LONGEST_ABOUT)]
    ids, times = [dictionary.id], [dictionary.created_at, dictionary.archived_at or 0]
    for version in dictionary.versions:
        ids.append(version.id)
        times.append(version.created_at)
        for word in version.words:
            texts += [(word.word, 1, LONGEST_WORD), (word.say_as, 1, LONGEST_SAID)]
            if not isinstance(word.case_sensitive, bool):
                raise ValueError("case_sensitive is true or false")
        if len(version.words) > MAX_WORDS:
            raise ValueError(f"it has more than {MAX_WORDS} words")
    if not all(isinstance(text, str) and low <= len(text.strip()) and len(text) <= high for text, low, high in texts):
        raise ValueError("a text in it is none, or too long")
    if not 1 <= len(dictionary.versions) <= MAX_VERSIONS:
        raise ValueError("it has no version, or too many")
    if not all(isinstance(text, str) and is_id(text) for text in ids):
        raise ValueError("an id in it is none")
    if not all(isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < 2**40 for time in times):
        raise ValueError("a time in it is none")
