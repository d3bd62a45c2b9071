"""File names that are valid on every system, and the Content-Disposition header."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

MAX_NAME_CHARS = 60  # Maximum number of characters of a name without its suffix.
# Names of Windows devices. Windows opens the device even if the name has a suffix.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE)


def file_name(words: str, suffix: str, max_chars: int = MAX_NAME_CHARS, *, instead: str = "take") -> str:
    """Return a valid file name for a text that a user has written.

    A long text is cut, if possible between two words.

    Args:
        words: Text of the user.
        suffix: Suffix of the file name without a dot.
        max_chars: Maximum number of characters of the text in the file name.
        instead: Name without suffix if the text has no usable characters.
    """
    seen = "".join(
        " " if unicodedata.category(letter)[0] in "CZ" or letter in '<>:"/\\|?*' else letter for letter in words
    )
    words = " ".join(seen.split())
    if len(words) > max_chars:
        head, space, _ = words[: max_chars + 1].rpartition(" ")
        words = head if space and len(head) > max_chars // 2 else words[:max_chars]
    name = words.strip(" .,;:") or instead
    return f"{'_' if _RESERVED.match(name) else ''}{name}.{suffix}"


def disposition(name: str, *, inline: bool = False) -> str:
    """Return the value of a Content-Disposition header for a file name with any characters."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in " ._-()") else "_" for letter in name)
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
