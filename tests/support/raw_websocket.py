"""WebSocket handshakes and frames as bytes, including invalid ones (RFC 6455)."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from tests.support.speech_client import PROTOCOL

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
SPEECH_PATH = "/v1/audio/speech/stream"


def handshake(path: str = SPEECH_PATH, protocol: str = "") -> bytes:
    """Return the bytes of a client's opening handshake."""
    offer = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{offer}\r\n"
    ).encode()


HANDSHAKE = handshake(protocol=PROTOCOL)


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0, masked: bool = True) -> bytes:
    """Return the bytes of a WebSocket frame.

    The mask is zero, so that the payload is unchanged.
    """
    size = len(payload)
    head = bytes([fin << 7 | rsv << 4 | opcode])
    if size < 126:
        head += bytes([masked << 7 | size])
    elif size < 2**16:
        head += bytes([masked << 7 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([masked << 7 | 127]) + struct.pack("!Q", size)
    return head + (bytes(4) if masked else b"") + payload


def message(**fields: Any) -> bytes:
    """Return a text frame with a JSON message."""
    return frame(TEXT, json.dumps(fields).encode())


def deaf_socket(port: int) -> socket.socket:
    """Return a socket that is connected to a port, for a client that never reads.

    The socket has a small receive buffer.
    """
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    return deaf
