"""Base64 decoder that accepts line breaks, the URL-safe alphabet, and missing padding."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote

DATA_URL = re.compile(r"data:[^,]{0,128};base64,", re.IGNORECASE)
TO_STANDARD = str.maketrans("-_", "+/")


def decode_base64(text: str) -> bytes:
    """Decode base64 text or a base64 ``data:`` URL into bytes.

    Raises:
        ValueError: The text has invalid characters or an invalid length.
    """
    head = DATA_URL.match(text)
    if head is not None:
        text = unquote(text[head.end() :])
    digits = "".join(text.split()).translate(TO_STANDARD).rstrip("=")
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
