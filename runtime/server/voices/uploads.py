"""Decoding of reference audio in requests: base64, a ``data:`` URL, or a web address."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from runtime.errors import AddressRefused, BadReferenceAudio, SpeechError
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from runtime.shared.base64_text import decode_base64
from runtime.shared.fetch import Fetcher

_OTHER_URL = re.compile(r"(?!data:)[a-z][a-z0-9+.-]{0,15}:", re.IGNORECASE)


def read_upload(ref_audio: str, limits: Limits, fetcher: Fetcher | None = None) -> NDArray[np.float32] | SpeechError:
    """Decode reference audio and return its samples, or return an error.

    Web addresses are refused if `fetcher` is None.

    Shapes: [N] float32, mono, 24 kHz.

    Thread: a worker. A large file takes one second, a web address up to five seconds.
    """
    try:
        return read_reference(_bytes(ref_audio, limits, fetcher), limits)
    except SpeechError as error:
        error.param = "ref_audio"
        return error


def fetcher_for(is_allowed: bool) -> Fetcher | None:
    """Return a downloader for reference audio, or None if web addresses are not allowed."""
    return Fetcher() if is_allowed else None


def _bytes(ref_audio: str, limits: Limits, fetcher: Fetcher | None) -> bytes:
    if _OTHER_URL.match(ref_audio):
        if fetcher is None:
            raise AddressRefused(
                where="ref_audio", why="this server opens no addresses; send base64 or a data: URL with base64"
            )
        return fetcher.fetch(ref_audio, max_bytes=limits.max_upload_bytes)
    try:
        return decode_base64(ref_audio)
    except ValueError:
        raise BadReferenceAudio(why="it is not valid base64") from None
