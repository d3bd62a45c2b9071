"""Queues the messages for one client of the native protocol, and puts headers before its sound."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterator

from runtime.request import AudioChunk
from runtime.server.commands import AudioMessage, Close, Outgoing, TextMessage
from runtime.server.native.contexts import NativeUtterance
from runtime.server.native.replies import BYTES_PER_SAMPLE, PIECE_BYTES, Reply

# Version, kind, channel, number of the message, first sample: 16 bytes, so that the samples stay aligned.
HEADER = struct.Struct("<BBHIQ")
_VERSION, _KIND_S16LE = 1, 1
_CONGESTED = 256  # untaken replies; a client that does not read these is not listened to either


class SendQueue:
    """A queue that knows to which utterance its sound belongs, so that a cancel takes it back."""

    def __init__(self) -> None:
        self.untaken_ends = 0  # terminal messages the client cannot have seen yet
        self._untaken_texts = 0
        self._items: deque[Outgoing] = deque()
        self._speakers: dict[int, NativeUtterance] = {}  # with sound that waits, by number

    @property
    def is_congested(self) -> bool:
        return self._untaken_texts > _CONGESTED

    def say(self, reply: Reply, *, is_terminal: bool = False) -> None:
        self._items.append(TextMessage(json.dumps(reply, separators=(",", ":"), allow_nan=False), is_terminal))
        self._untaken_texts += 1
        self.untaken_ends += is_terminal

    def sound(self, one: NativeUtterance, chunk: AudioChunk) -> None:
        for pcm, first_sample in _pieces(chunk):
            header = HEADER.pack(_VERSION, _KIND_S16LE, one.channel, one.messages, first_sample)
            self._items.append(
                AudioMessage(header + pcm if one.labelled else pcm, one.number, len(pcm) // BYTES_PER_SAMPLE)
            )
            self._speakers[one.number] = one
            one.messages += 1
            one.total_bytes += len(pcm)

    def close(self, code: int, reason: str = "") -> None:
        self._items.append(Close(code, reason))

    def drop_sound_of(self, one: NativeUtterance) -> None:
        self._items = deque(
            item for item in self._items if not (isinstance(item, AudioMessage) and item.number == one.number)
        )
        self._speakers.pop(one.number, None)

    def clear(self) -> None:
        self._items.clear()
        self._speakers.clear()

    def take(self) -> Outgoing | None:
        """Return the next item, or None."""
        if not self._items:
            return None
        item = self._items.popleft()
        if isinstance(item, AudioMessage):
            one = self._speakers[item.number]
            one.sent_bytes += item.samples * BYTES_PER_SAMPLE
            if one.sent_bytes == one.total_bytes:
                del self._speakers[item.number]  # until there is more of it
        elif isinstance(item, TextMessage):
            self._untaken_texts -= 1
            self.untaken_ends -= item.is_terminal
        return item


def _pieces(chunk: AudioChunk) -> Iterator[tuple[bytes, int]]:
    for start in range(0, len(chunk.pcm), PIECE_BYTES):
        yield chunk.pcm[start : start + PIECE_BYTES], chunk.first_sample + start // BYTES_PER_SAMPLE
