"""Reads the address of a port that is not HTTP's, as Wyoming writes it."""

from __future__ import annotations

from urllib.parse import urlsplit

from runtime.errors import InvalidSetting

WYOMING = "VOICEWRIGHT_WYOMING"  # Also --uri of `voicewright wyoming`.


def address_of(uri: str, *, setting: str) -> tuple[str, int]:
    """The host and port of ``tcp://HOST:PORT``, which ``setting`` holds.

    Raises:
        InvalidSetting: it is none.
    """
    try:
        parts = urlsplit(uri)
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if name is None or port is None or parts.scheme != "tcp" or parts.path or parts.query:
        raise InvalidSetting(name=setting, value=repr(uri), why="it must be tcp://HOST:PORT")
    return name, port
