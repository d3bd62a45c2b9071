"""Wire format of the protocol ``voicewright.speech.v1`` (docs/api.md)."""

from __future__ import annotations

import struct
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

PROTOCOL = "voicewright.speech.v1"
ROUTE = "/v1/audio/speech/stream"
SAMPLE_RATE = 24_000  # Sample rate of all audio in Hz.
HEADER = struct.Struct("<BBHIQ")  # Fields: version, kind, channel, message number, index of the first sample.
VERSION = 1
KIND_S16LE = 1


class Frame(NamedTuple):
    """Binary audio message: utterance channel, index of its first sample, and PCM bytes."""

    channel: int
    first_sample: int
    pcm: bytes


def read_frame(message: bytes) -> Frame | None:
    """Parse a binary audio message.

    The result is None if the version or the kind of the message is unknown.
    """
    version, kind, channel, _, first_sample = HEADER.unpack_from(message)
    return Frame(channel, first_sample, message[HEADER.size :]) if (version, kind) == (VERSION, KIND_S16LE) else None


def base_address(url: str) -> str:
    """Return the http(s) base URL of a runtime, given any of its URLs.

    The URL may start with http(s) or ws(s), and may include the path of the route.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix(ROUTE).removesuffix("/v1")
    return urlunsplit((parts.scheme.replace("ws", "http", 1), parts.netloc, path, "", ""))


def socket_address(url: str) -> str:
    """Return the WebSocket URL (ws or wss) of the speech route of a runtime.

    `url` is any URL of the runtime. Its query is kept.
    """
    base, query = urlsplit(base_address(url)), urlsplit(url).query
    return urlunsplit((base.scheme.replace("http", "ws", 1), base.netloc, base.path + ROUTE, query, ""))
