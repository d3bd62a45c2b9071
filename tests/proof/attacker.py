"""Process that floods a port with traffic: `python -m tests.proof.attacker KIND PORT`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

from tests.support.raw_websocket import CONTINUATION, HANDSHAKE, PING, TEXT, frame, handshake, message

# Size and interval of the pieces that are sent repeatedly. The rate is 640 kB per second, as from one client on a slow
# connection.
PIECE_BYTES, PAUSE_S = 65536, 0.1


_HOST = b"Host: 127.0.0.1\r\n"
_CHUNKED = b"POST /v1/audio/speech HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + _HOST + b"\r\n"
_PLAIN, _OURS = handshake(), HANDSHAKE
_CONFIG = message(type="session.config", voice="eric")
_ENDS = message(type="input.text", text=". " * 60_000)
_MARKS = json.dumps({"items": [{"input": "![" * 2048}] * 32, "text_filter": "markdown", "voice": "eric"}).encode()
_BATCH = b"POST /v1/audio/speech/batch HTTP/1.1\r\nContent-Length: %d\r\n" % len(_MARKS) + _HOST + b"\r\n" + _MARKS
_MARKUP = json.dumps({"input": "![a](" * 25_000, "text_filter": "markdown", "voice": "eric"}).encode()
_LONG = b"POST /v1/audio/speech HTTP/1.1\r\nContent-Length: %d\r\n" % len(_MARKUP) + _HOST + b"\r\n" + _MARKUP
# A slot has fewer than `max_frames` frames, so the request is refused after its whole text was validated.
_DIGITS = json.dumps({"input": "1234567890" * 400, "max_frames": 4096, "voice": "eric"}).encode()
_REFUSED = b"POST /v1/audio/speech HTTP/1.1\r\nContent-Length: %d\r\n" % len(_DIGITS) + _HOST + b"\r\n" + _DIGITS
# Each of 8 contexts gets a text whose end takes long to process, and is cancelled immediately.
_OPEN_TEXTS = b"".join(
    message(type=kind, context_id=str(context), **fields)
    for context in range(8)
    for kind, fields in (
        ("session.config", {"voice": "eric"}),
        ("input.text", {"text": "Hi "}),
        ("input.text", {"text": "1" * 4090}),
        ("input.done", {}),
        ("context.cancel", {}),
    )
)
_BODY = b"POST /v1/audio/speech HTTP/1.1\r\nContent-Length: 16000000\r\n" + _HOST + b"\r\n"
# For each kind of traffic: data that is sent once per connection, and data that is then sent repeatedly.
ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "headers": (b"GET / HTTP/1.1\r\n" + _HOST, b"a: b\r\n"),
    "trailers": (_CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n"),
    "chunks": (_CHUNKED, b"1\r\n{\r\n"),
    "bad requests": (b"", b"GET / HTTP/1.1\r\n\r\n"),
    "pings": (_OURS, frame(PING)),
    "continuations": (_OURS, frame(TEXT, b"{", fin=False) + frame(CONTINUATION, fin=False) * 10_000),
    "messages": (_OURS, frame(TEXT, b"{}")),
    "messages of vLLM-Omni": (_PLAIN, frame(TEXT, b"{}")),
    "ends of sentences": (_PLAIN, _CONFIG + _ENDS),
    "ends of open texts": (_OURS, _OPEN_TEXTS),
    "marks": (b"", _BATCH),
    "markup": (b"", _LONG),
    "refused texts": (b"", _REFUSED),
    "body of spaces": (_BODY, b" "),
    "pipelined requests": (b"", b"GET /v1/models HTTP/1.1\r\n" + _HOST + b"\r\n"),
    "unmasked frames": (_OURS, frame(TEXT, b"{}", masked=False)),
    "reserved bits": (_OURS, frame(TEXT, b"{}", rsv=4)),
}


async def attack(name: str, port: int) -> None:
    """Send a flood of traffic to the port until this process is killed.

    A line is printed at the start. If the server closes the connection, the function connects again.

    Args:
        name: Kind of traffic.
        port: Local TCP port.
    """
    before, again = ATTACKS[name]
    piece = again * max(1, PIECE_BYTES // len(again))
    has_begun = False
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(before)
            if before.startswith(_PLAIN[:40]):
                await reader.readuntil(b"\r\n\r\n")
            reading = asyncio.create_task(_discard(reader))
            while not reading.done():
                writer.write(piece)
                await writer.drain()
                if not has_begun:
                    has_begun = True
                    print("begun", flush=True)
                await asyncio.sleep(PAUSE_S)
            writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


async def _discard(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(attack(sys.argv[1], int(sys.argv[2])))
