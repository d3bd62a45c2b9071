"""Reference audio as a message carries it: base64, bare or in a ``data:`` URL."""

from __future__ import annotations

import base64
import binascii
import re

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, SpeechError
from runtime.settings import Limits
from runtime.voices.reference import read_reference

_DATA_URL = re.compile(r"data:[^,]{0,128};base64,", re.IGNORECASE)
_OTHER_URL = re.compile(r"[a-z][a-z0-9+.-]{0,15}:", re.IGNORECASE)


def read_upload(ref_audio: str, limits: Limits) -> NDArray[np.float32] | SpeechError:
    """Decode the audio, or return why it cannot be used.

    Shapes: [N] float32, mono, 24 kHz.
    Thread: a worker; a large file takes a second.
    """
    try:
        return read_reference(_bytes(ref_audio), limits)
    except SpeechError as error:
        error.param = "ref_audio"
        return error


def _bytes(ref_audio: str) -> bytes:
    head = _DATA_URL.match(ref_audio)
    # No address is opened for a client: neither a file of this machine nor a page that only this machine sees.
    if head is None and _OTHER_URL.match(ref_audio):
        raise BadReferenceAudio(why="only base64 and data: URLs with base64 are taken, no other addresses")
    try:
        return base64.b64decode(ref_audio[head.end() if head else 0 :], validate=True)
    except (binascii.Error, ValueError):
        raise BadReferenceAudio(why="it is not valid base64") from None
