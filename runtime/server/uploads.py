"""Reference audio as a message carries it: base64, bare or in a ``data:`` URL, or an address where that is allowed."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from runtime.errors import AddressRefused, BadReferenceAudio, SpeechError
from runtime.settings import Limits
from runtime.voices.reference import read_reference

_DATA_URL = re.compile(r"data:[^,]{0,128};base64,", re.IGNORECASE)
Fetch = Callable[[str], bytes]  # an https address to what is there; raises AddressRefused. Thread: a worker

_ADDRESS = re.compile(r"(?!data:)[a-z][a-z0-9+.-]{0,15}:", re.IGNORECASE)


def read_upload(ref_audio: str, limits: Limits, fetch: Fetch | None = None) -> NDArray[np.float32] | SpeechError:
    """Decode the audio, or return why it cannot be used. Without ``fetch`` no address is opened.

    Shapes: [N] float32, mono, 24 kHz.
    Thread: a worker; a large file takes a second.
    """
    try:
        return read_reference(_bytes(ref_audio, fetch), limits)
    except SpeechError as error:
        error.param = "ref_audio"
        return error


def _bytes(ref_audio: str, fetch: Fetch | None) -> bytes:
    head = _DATA_URL.match(ref_audio)
    if head is None and _ADDRESS.match(ref_audio):
        # No other address is opened for a client: neither a file of this machine nor a page that only it sees.
        if fetch is None or ref_audio[:8].lower() != "https://":
            raise AddressRefused(where="ref_audio", why="send the audio itself, as base64 or a data: URL with base64")
        return fetch(ref_audio)
    try:
        return base64.b64decode(ref_audio[head.end() if head else 0 :], validate=True)
    except (binascii.Error, ValueError):
        raise BadReferenceAudio(why="it is not valid base64") from None
