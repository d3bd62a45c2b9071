"""Keeps the key that signs visitors' cookies, so that visitors are known again after a restart."""

from __future__ import annotations

import secrets
from pathlib import Path

from runtime.shared.files import locked, replace_file

FILE = "cookie.key"
KEY_BYTES = 32


def cookie_key(folder: Path) -> bytes:
    """Return the folder's key, made at the first call. Studios that share the folder share the key.

    Raises:
        OSError: it cannot be read or written.
    """
    with locked(folder):
        path = folder / FILE
        key = path.read_bytes() if path.exists() else b""
        if len(key) != KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            replace_file(folder, FILE, key)
    return key
