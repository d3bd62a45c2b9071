"""Validation of names, tags and ids of voices.

Names are never used as paths, because stored voices have generated ids.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterable

import regex

from runtime.errors import InvalidBlend, InvalidConfig

MAX_NAME_CHARS = 64  # Maximum number of characters of a name.
STORED_PREFIX = "voice:"  # Prefix of a name that selects a stored voice and never a speaker.
MAX_TAG_CHARS, MAX_TAGS = 32, 16
JOINERS = frozenset("\u200c\u200d")  # Invisible characters that are allowed, because Persian and emoji need them.
# Unicode categories of invisible characters: controls, bidirectional overrides, surrogates and line ends.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
_ID = re.compile(r"[0-9a-f]{32}")

_BLEND = re.compile(r"(?P<first>.+):(?P<first_weight>[^:+]*)\+(?P<second>.+):(?P<second_weight>[^:+]*)", re.DOTALL)
_WEIGHT = re.compile(r"(?:0|1|0?\.\d{1,6}|1\.0{1,6})")
_WEIGHT_SUM_TOLERANCE = 0.001  # Maximum difference between 1 and the sum of the weights.

Named = tuple[str, float]  # Name and weight of a voice in a blend.


def new_id() -> str:
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """True if the text has the format of a voice id."""
    return _ID.fullmatch(text) is not None


def checked_name(name: str) -> str:
    """Validate a name, and return it normalized (NFC) and without surrounding white space.

    Raises:
        InvalidConfig: The name is empty or too long, has invisible characters, looks like an id, or starts with
            "voice:".
    """
    name = _seen(name, MAX_NAME_CHARS, "name", "it")
    if is_id(name.lower()):
        raise InvalidConfig(where="name", why="it looks like the id of a voice", param="name")
    if name_key(name).startswith(STORED_PREFIX):
        raise InvalidConfig(where="name", why=f"it must not begin with {STORED_PREFIX}", param="name")
    return name


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Validate tags, and return them normalized (NFC), trimmed and without duplicates.

    Tags that differ only in case are duplicates.

    Raises:
        InvalidConfig: There are too many tags, or a tag is empty, too long or has invisible characters.
    """
    names_by_key: dict[str, str] = {}
    for tag in tags:
        seen = _seen(tag, MAX_TAG_CHARS, "tags", "a tag")
        names_by_key.setdefault(name_key(seen), seen)
    if len(names_by_key) > MAX_TAGS:
        raise InvalidConfig(where="tags", why=f"there are {len(names_by_key)}; the limit is {MAX_TAGS}", param="tags")
    return tuple(names_by_key.values())


def _seen(text: str, max_chars: int, field: str, noun: str) -> str:
    """Return a text normalized (NFC) and trimmed, and refuse invisible characters."""
    text = unicodedata.normalize("NFC", text).strip()
    if not 1 <= len(text) <= max_chars:
        raise InvalidConfig(where=field, why=f"{noun} must have 1 to {max_chars} characters", param=field)
    hidden = (unicodedata.category(character) in UNSEEN and character not in JOINERS for character in text)
    if any(hidden) or not _IGNORABLE.sub("", text).strip():
        raise InvalidConfig(where=field, why=f"{noun} holds characters that cannot be seen", param=field)
    return text


def name_key(name: str) -> str:
    """Return a key that is equal for names that differ only in case or compatibility forms."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def is_blend(name: str) -> bool:
    """True if a name looks like a blend of two voices, such as ``angus:0.6+clara:0.4``.

    Such a name would be ambiguous in requests.
    """
    try:
        return parse_blend(name_key(name)) is not None
    except InvalidBlend:
        return False


def parse_blend(voice: str, param: str = "voice") -> tuple[Named, Named] | None:
    """Return the names and weights of a blend, or None if the text is not a blend.

    Raises:
        InvalidBlend: A weight is not a number from 0 to 1, or the sum of the weights is not 1.
    """
    found = _BLEND.fullmatch(voice)
    if found is None:
        return None
    weights = found["first_weight"].strip(), found["second_weight"].strip()
    if not all(_WEIGHT.fullmatch(word) for word in weights):
        raise InvalidBlend(param=param)
    first, second = map(float, weights)
    if abs(first + second - 1) > _WEIGHT_SUM_TOLERANCE:
        raise InvalidBlend(param=param)
    return (found["first"].strip(), first), (found["second"].strip(), second)
