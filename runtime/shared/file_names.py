"""Makes file names that every disk takes, and says them over HTTP."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

LONGEST = 60  # characters, without the suffix


def file_name(words: str, suffix: str, most: int = LONGEST, *, instead: str = "take") -> str:
    """A name made of what people wrote, cut between words where it has some; ``instead`` where nothing is left."""
    seen = "".join(
        " " if unicodedata.category(letter)[0] in "CZ" or letter in '<>:"/\\|?*' else letter for letter in words
    )
    words = " ".join(seen.split())
    if len(words) > most:
        head, space, _ = words[: most + 1].rpartition(" ")
        words = head if space and len(head) > most // 2 else words[:most]
    return f"{words.strip(' .,;:') or instead}.{suffix}"


def disposition(name: str, *, inline: bool = False) -> str:
    """A Content-Disposition for a name in any script."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in " ._-()") else "_" for letter in name)
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
