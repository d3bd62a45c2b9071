"""Tests for invalid and unusual WebSocket frames (RFC 6455)."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.settings import ServerSettings
from tests.conftest import FolderOf
from tests.support.raw_websocket import CLOSE, CONTINUATION, HANDSHAKE, PING, PONG, TEXT, frame
from tests.support.runtime_server import RunningServer
from tests.support.timeouts import TEST_TIMEOUT_S, until
from tests.wire.conftest import Serving

PING_MESSAGE = b'{"type":"ping","t":42}'


class Raw:
    """WebSocket connection that sends and receives raw bytes.

    The constructor reads the first messages of the server.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TEST_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self.send(HANDSHAKE)
        while self._stream.readline() != b"\r\n":
            pass
        opcode, created = self.hear()
        assert opcode == TEXT
        assert json.loads(created)["type"] == "session.created"

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self) -> tuple[int, bytes]:
        """Return the opcode and the payload of the next frame.

        At the end of the connection, return CLOSE and an empty payload.
        """
        head = self._stream.read(2)
        if len(head) < 2:
            return CLOSE, b""
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(self._stream.read(2 if size == 126 else 8), "big")
        return head[0] & 15, self._stream.read(size)

    def until(self, wanted: int) -> bytes:
        """Skip frames until one with the opcode `wanted` arrives, and return its payload."""
        while True:
            opcode, payload = self.hear()
            if opcode == wanted:
                return payload
            assert opcode != CLOSE, payload

    def close_code(self) -> int:
        """Read up to the close frame, check that no data follows, and return the close code."""
        while (heard := self.hear())[0] != CLOSE:
            pass
        assert self._stream.read() == b"", "nothing follows a close"
        return int.from_bytes(heard[1][:2], "big")

    def pong(self) -> dict[str, Any]:
        """Return the next JSON message, which must be the pong to a ping."""
        return dict(json.loads(self.until(TEXT)))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def raw(server: RunningServer) -> Iterator[Raw]:
    with closing(Raw(server.port)) as connection:
        yield connection


@pytest.mark.parametrize("sizes", [[1] * 22, [5, 0, 17], [22, 0]], ids=["bytes", "an empty one", "an empty end"])
@pytest.mark.parametrize("between", [b"", frame(PING, b"?"), frame(PONG, b"!")], ids=["", "ping", "pong"])
def test_fragments_with_pings_between_form_one_message(either: RunningServer, sizes: list[int], between: bytes) -> None:
    with raw(either) as connection:
        start = 0
        for number, size in enumerate(sizes):
            piece, start = PING_MESSAGE[start : start + size], start + size
            is_last = number == len(sizes) - 1
            connection.send(frame(CONTINUATION if number else TEXT, piece, fin=is_last) + between)
        assert connection.pong() == {"type": "pong", "t": 42}


@pytest.mark.parametrize(
    "broken", [frame(TEXT, PING_MESSAGE, rsv=1), frame(CONTINUATION, b"x")], ids=["reserved bit", "no beginning"]
)
def test_protocol_violation_closes_with_1002(server: RunningServer, broken: bytes) -> None:
    with raw(server) as connection:
        connection.send(broken)
        assert connection.close_code() == 1002
    with raw(server) as other:
        other.send(frame(TEXT, PING_MESSAGE))
        assert other.pong()["t"] == 42


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in pieces"])
@pytest.mark.logs_errors
def test_invalid_utf_8_closes_with_1007(server: RunningServer, cut: bool, caplog: pytest.LogCaptureFixture) -> None:
    text = "κόσμε".encode() + b"\x80"
    with raw(server) as connection:
        pieces = [bytes([byte]) for byte in text] if cut else [text]
        for number, piece in enumerate(pieces):
            connection.send(frame(CONTINUATION if number else TEXT, piece, fin=number == len(pieces) - 1))
        assert connection.close_code() == 1007
    (line,) = until(lambda: [record for record in caplog.records if "UTF-8" in record.getMessage()])
    assert not line.exc_info


def test_character_may_be_split_between_fragments(either: RunningServer) -> None:
    text = '{"type":"ping","t":42,"note":"κόσμε 🙂"}'.encode()
    with raw(either) as connection:
        for number in range(len(text)):
            piece = text[number : number + 1]
            connection.send(frame(CONTINUATION if number else TEXT, piece, fin=number == len(text) - 1))
        assert connection.pong() == {"type": "pong", "t": 42}


@pytest.mark.parametrize("size", [2**31, 2**63 - 1, 2**64 - 1])
def test_announced_length_allocates_no_memory(server: RunningServer, size: int) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    with raw(server) as connection:
        connection.send(bytes([0x80 | TEXT, 0xFF]) + struct.pack("!Q", size) + bytes(4) + b"x" * 1000)
        assert connection.close_code() in {1002, 1009}
    assert resident() - before < 16 * 2**20


def test_client_missing_two_pongs_is_disconnected(folder_of: FolderOf, serving: Serving) -> None:
    """A client whose network was cut sends no close frame, but its slot must be released."""
    with (
        serving(folder_of("brief", "custom_voice"), server=ServerSettings(ping_s=0.5, send_s=60)) as server,
        raw(server) as dead,
    ):
        config = {"type": "session.config", "task_type": "custom_voice", "max_frames": 4000}
        for message in (config, {"type": "input.text", "text": "Speak for a long time. "}):
            dead.send(frame(TEXT, json.dumps(message).encode()))
        began = time.monotonic()
        while not server.load()["active"] and not server.load()["waiting_for_text"]:
            assert time.monotonic() - began < TEST_TIMEOUT_S
            time.sleep(0.01)
        while 'voicewright_sessions{dialect="voicewright"} 0.0' not in server.metrics():
            assert time.monotonic() - began < TEST_TIMEOUT_S
            time.sleep(0.02)
        server.wait_until_idle()
