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


@pytest.mark.parametrize("size", [0, 1, 125])
def test_pongs_repeat_the_ping_payload(either: RunningServer, size: int) -> None:
    with raw(either) as connection:
        connection.send(frame(PONG, b"nobody asked") + frame(PING, b"x" * size) * 3)
        assert [connection.until(PONG) for _ in range(3)] == [b"x" * size] * 3


BREAKS = {
    "a reserved bit": frame(TEXT, PING_MESSAGE, rsv=1),
    "the bit of compression": frame(TEXT, PING_MESSAGE, rsv=4),
    "a reserved bit of a ping": frame(PING, rsv=2),
    **{f"opcode {opcode}": frame(opcode, b"x") for opcode in (3, 7, 11, 15)},
    "no mask": frame(TEXT, PING_MESSAGE, masked=False),
    "a ping of 126 bytes": frame(PING, b"x" * 126),
    "a ping in pieces": frame(PING, b"x", fin=False),
    "a close in pieces": frame(CLOSE, fin=False),
    "a middle without a beginning": frame(CONTINUATION, b"x"),
    "an end twice": frame(TEXT, PING_MESSAGE) + frame(CONTINUATION, b"x"),
    "a text in a text": frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"),
    "a close of one byte": frame(CLOSE, b"\x03"),
    **{f"close code {code}": frame(CLOSE, struct.pack("!H", code)) for code in (0, 999, 1004, 1005, 1006, 1015, 2999)},
}


@pytest.mark.parametrize("broken", list(BREAKS.values()), ids=list(BREAKS))
def test_protocol_violations_close_with_1002(server: RunningServer, broken: bytes) -> None:
    with raw(server) as connection:
        connection.send(broken)
        assert connection.close_code() == 1002
    with raw(server) as other:
        other.send(frame(TEXT, PING_MESSAGE))
        assert other.pong()["t"] == 42


NO_UTF8 = {
    "no beginning": b"\xff",
    "over-long": b"\xc0\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "beyond the last": b"\xf4\x90\x80\x80",
    "cut off": b"\xe2\x82",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "a byte too many": b"\xce\xba\xe1\xbd\xb9\x80",
}


@pytest.mark.parametrize("text", list(NO_UTF8.values()), ids=list(NO_UTF8))
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in pieces"])
@pytest.mark.logs_errors
def test_invalid_utf_8_closes_with_1007(
    server: RunningServer, text: bytes, cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
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


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"", 1000), (struct.pack("!H", 1000), 1000), (struct.pack("!H", 1000) + b"bye", 1000)]
    + [(struct.pack("!H", code), code) for code in (1001, 1003, 1011, 3000, 4999)],
)
def test_close_frames_are_echoed(server: RunningServer, payload: bytes, code: int) -> None:
    with raw(server) as connection:
        connection.send(frame(CLOSE, payload) + frame(TEXT, PING_MESSAGE))  # Frames after a close frame have no effect.
        answer = connection.close_code()
        assert answer == (code if payload else answer)
        assert answer in {code, 0, 1005} or not payload


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
