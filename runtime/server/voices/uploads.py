"""Reads reference audio out of a message: base64, bare or in a ``data:`` URL, or the address where it lies."""

from __future__ import annotations

import base64
import binascii
import re

import numpy as np
from numpy.typing import NDArray

from runtime.errors import AddressRefused, BadReferenceAudio, MessageTooLarge, SpeechError
from runtime.settings import Limits
from runtime.shared.reference import read_reference
from runtime.voices.fetch import Fetcher

_DATA_URL = re.compile(r"data:[^,]{0,128};base64,", re.IGNORECASE)
_OTHER_URL = re.compile(r"(?!data:)[a-z][a-z0-9+.-]{0,15}:", re.IGNORECASE)


def read_upload(ref_audio: str, limits: Limits, fetcher: Fetcher | None = None) -> NDArray[np.float32] | SpeechError:
    """Decode the audio, or return why it cannot be used. Without a fetcher no address is opened.

    Shapes: [N] float32, mono, 24 kHz.
    Thread: a worker; a large file takes a second, an address five.
    """
    try:
        return read_reference(_bytes(ref_audio, limits, fetcher), limits)
    except SpeechError as error:
        error.param = "ref_audio"
        return error


def fetcher_for(is_allowed: bool) -> Fetcher | None:
    """What opens addresses, where the operator allows that (``ServerSettings.reference_addresses``)."""
    return Fetcher() if is_allowed else None


def _bytes(ref_audio: str, limits: Limits, fetcher: Fetcher | None) -> bytes:
    head = _DATA_URL.match(ref_audio)
    if head is None and _OTHER_URL.match(ref_audio):
        if fetcher is None:
            raise AddressRefused(
                where="ref_audio", why="this server opens none; send base64 or a data: URL with base64"
            )
        return fetcher.fetch(ref_audio, most=limits.max_upload_bytes)
    start = head.end() if head else 0
    size = (len(ref_audio) - start) * 3 // 4
    if size > limits.max_upload_bytes + 2:  # of padding
        raise MessageTooLarge(what="The recording", size=size, limit=limits.max_upload_bytes)
    try:
        return base64.b64decode(ref_audio[start:], validate=True)
    except (binascii.Error, ValueError):
        raise BadReferenceAudio(why="it is not valid base64") from None
