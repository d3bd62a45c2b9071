"""Pronunciation dictionary, and its JSON file format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from runtime.shared.names import checked_name, is_id, new_id
from runtime.shared.strict_json import parse_object

FORMAT = "voicewright.pronunciations.v1"
MAX_BYTES = 512 * 2**10  # Maximum size of a dictionary file in bytes.
# Maximum size in bytes of a written file. A larger file is written only if the newest version alone is larger.
KEPT_BYTES = 256 * 2**10
MAX_VERSIONS = 16
MAX_WORDS = 200
# Maximum numbers of characters of a word, its replacement and a description.
MAX_WORD_CHARS, MAX_REPLACEMENT_CHARS, MAX_DESCRIPTION_CHARS = 80, 200, 500


@dataclass(frozen=True, slots=True)
class Word:
    """Entry of a pronunciation dictionary.

    With `case_sensitive`, only text in exactly the same case matches the word.
    """

    word: str
    say_as: str
    case_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """Stored version of a dictionary's words, where `created_at` is a Unix time."""

    id: str
    created_at: float
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PronunciationDictionary:
    """Named list of words, with the earlier versions of the list.

    Versions never change. The last version is the current list.
    """

    id: str
    name: str
    description: str = ""
    created_at: float
    # Unix time of archiving, or None. Archived dictionaries are hidden in filtered lists, but requests may still use
    # them.
    archived_at: float | None = None
    versions: tuple[Version, ...]

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    def version(self, version_id: str | None) -> Version | None:
        """Return the version with this id, or the latest version if no id is given.

        Return None if no stored version has this id. Old versions may have been dropped.
        """
        if version_id is None:
            return self.latest
        return next((version for version in self.versions if version.id == version_id), None)

    def with_words(self, words: Iterable[Word], now: float) -> PronunciationDictionary:
        """Return the dictionary with a new version if the words have changed.

        The number of versions is limited, so the oldest versions are dropped.
        """
        version = Version(new_id(), now, tuple(words))
        if version.words == self.latest.words:
            return self
        return replace(self, versions=(*self.versions, version)[-MAX_VERSIONS:])


def new_dictionary(name: str, words: Iterable[Word], now: float, *, description: str = "") -> PronunciationDictionary:
    """Create a dictionary that is not stored yet.

    Raises:
        InvalidConfig: The name is invalid.
    """
    return PronunciationDictionary(
        id=new_id(),
        name=checked_name(name),
        description=description,
        created_at=now,
        versions=(Version(new_id(), now, tuple(words)),),
    )


def write(dictionary: PronunciationDictionary) -> bytes:
    """Serialize a dictionary, with as many older versions as fit into `KEPT_BYTES`."""
    data = json.dumps({"format": FORMAT, **asdict(dictionary)}, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > KEPT_BYTES and len(dictionary.versions) > 1:
        return write(replace(dictionary, versions=dictionary.versions[1:]))
    return data


def read(data: bytes) -> PronunciationDictionary:
    """Parse the content of a dictionary file.

    Raises:
        ValueError: The content is invalid or has a later format. The message has the reason.
    """
    fields = parse_object(data)
    if fields.pop("format", None) != FORMAT:
        raise ValueError("it is of another version")
    try:
        versions = tuple(_version(version) for version in fields.pop("versions"))
        dictionary = PronunciationDictionary(**fields, versions=versions)
    except (TypeError, KeyError, AttributeError):
        raise ValueError("it has missing or unknown fields") from None
    _check(dictionary)
    return dictionary


def _version(fields: dict[str, Any]) -> Version:
    return Version(fields["id"], fields["created_at"], tuple(Word(**word) for word in fields["words"]))


def _check(dictionary: PronunciationDictionary) -> None:
    """Validate a dictionary that was read from a file.

    Raises:
        ValueError: A value has the wrong type or is out of range.
    """
    texts = [(dictionary.name, 1, 64), (dictionary.description, 0, MAX_DESCRIPTION_CHARS)]
    ids, times = [dictionary.id], [dictionary.created_at, dictionary.archived_at or 0]
    for version in dictionary.versions:
        ids.append(version.id)
        times.append(version.created_at)
        for word in version.words:
            texts += [(word.word, 1, MAX_WORD_CHARS), (word.say_as, 1, MAX_REPLACEMENT_CHARS)]
            if not isinstance(word.case_sensitive, bool):
                raise ValueError("case_sensitive is true or false")
        if len(version.words) > MAX_WORDS:
            raise ValueError(f"it has more than {MAX_WORDS} words")
    if not all(isinstance(text, str) and low <= len(text.strip()) and len(text) <= high for text, low, high in texts):
        raise ValueError("a text in it is not valid, or too long")
    if not 1 <= len(dictionary.versions) <= MAX_VERSIONS:
        raise ValueError("it has no version, or too many")
    if not all(isinstance(text, str) and is_id(text) for text in ids):
        raise ValueError("an id in it is not valid")
    if not all(isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < 2**40 for time in times):
        raise ValueError("a time in it is not valid")
