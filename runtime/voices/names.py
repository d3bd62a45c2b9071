"""Names and ids of voices. A name is data that people read, and never becomes a path; an id is ours."""

from __future__ import annotations

import re
import unicodedata
import uuid

from runtime.errors import InvalidConfig

LONGEST = 64  # characters
JOINERS = frozenset("\u200c\u200d")  # Persian and emoji need them
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # controls, bidi overrides, half characters, line ends

_ID = re.compile(r"[0-9a-f]{32}")


def new_id() -> str:
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether the text has the form of an id, and so of a file's name in the library."""
    return _ID.fullmatch(text) is not None


def checked_name(name: str) -> str:
    """The name as it is kept: composed (NFC), without white space around it.

    Raises:
        InvalidConfig: it is empty or too long, holds what cannot be seen, or looks like an id.
    """
    name = unicodedata.normalize("NFC", name).strip()
    why = None
    if not 1 <= len(name) <= LONGEST:
        why = f"it must have 1 to {LONGEST} characters"
    elif any(unicodedata.category(one) in UNSEEN and one not in JOINERS for one in name):
        why = "it holds characters that cannot be seen"
    elif is_id(name.lower()):
        why = "it looks like the id of a voice"
    if why is not None:
        raise InvalidConfig(where="name", why=why, param="name")
    return name


def name_key(name: str) -> str:
    """What two names share that people would take for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
