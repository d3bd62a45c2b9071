"""Header of a binary audio message that contains a channel number (docs/api.md)."""

from __future__ import annotations

import struct

from runtime.server.native.contexts import NativeUtterance

# Version, kind, channel, message number and index of the first sample. The header has 16 bytes, so that the samples are
# aligned.
HEADER = struct.Struct("<BBHIQ")
VERSION = 1
KIND_S16LE = 1


def header(utterance: NativeUtterance, first_sample: int) -> bytes:
    """Return the header of the utterance's next audio message."""
    return HEADER.pack(VERSION, KIND_S16LE, utterance.channel, utterance.messages, first_sample)
