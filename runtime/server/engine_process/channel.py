"""Message channel between the server process and the engine process, over two pipes.

Messages are pickled. Pickle is safe here, because both ends run this program and the server has validated all client
data.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import struct
import threading
from collections import deque
from collections.abc import Generator
from typing import BinaryIO

from runtime.server.engine_process.messages import Message
from runtime.shared import system

log = logging.getLogger(__name__)

# Minimum size in bytes of an array, such as reference audio, that is written separately instead of being copied into
# the pickle.
MIN_SEPARATE_BYTES = 64 * 2**10
# Size in bytes of the pipe's buffer, which should hold the audio of a whole batch. The default of 64 KiB holds only a
# few chunks.
PIPE_BYTES = 2**20
POLL_INTERVAL_S = 0.5  # Poll interval in seconds while a pipe is full.
# Format of the number of pieces in a message. The pieces are the pickle and its arrays.
_PIECE_COUNT = struct.Struct("<I")
_LENGTH_BYTES = 8  # Number of bytes of the field with the length of a piece.


class Channel:
    """One end of a message channel that consists of two pipes.

    `send` may be called on any thread and does not block: it writes as much as fits into the pipe, and a writer thread
    writes the remaining data. `source` must be a buffered reader. After the other end has closed, messages are
    discarded.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._message = self._assemble_messages()  # Generator that assembles the message that is being received.
        self._missing = memoryview(b"")  # Part of the current piece that was not received yet.
        # True if `send` writes to the pipe. On Windows, the free space of a pipe is unknown, so only the writer thread
        # writes.
        self._writes_itself = os.name == "posix"
        if self._writes_itself:
            os.set_blocking(sink.fileno(), False)
        system.set_pipe_size(sink.fileno(), PIPE_BYTES)
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        # Condition that is notified if there is unsent data, and when the channel closes.
        self._is_behind = threading.Condition(self._lock)
        self._closing = self._is_gone = False
        self._writer = threading.Thread(target=self._write_on, name="engine-channel-writer", daemon=True)
        self._writer.start()

    def send(self, message: Message) -> None:
        """Queue a message, and write as much queued data as fits into the pipe."""
        try:
            pieces = _pieces(message)
        except Exception:
            log.critical("a message to the other process of the runtime cannot be encoded", exc_info=True)
            self._fail()  # The channel is closed, because the other end would wait for the rest of the message.
            return
        with self._lock:
            if self._is_gone:
                return
            was_behind = bool(self._unsent)
            self._unsent += pieces
            if was_behind:
                return
            if self._writes_itself:
                self._write()
            if self._unsent:
                self._is_behind.notify()

    def receive(self) -> Message:
        """Wait for the next message and return it.

        Raises:
            EOFError: The other end is closed.
        """
        message = self.receive_now()
        assert message is not None, "receive_now waits for a message"
        return message

    def receive_now(self) -> Message | None:
        """Return the next message, or None if the message has not arrived completely.

        The source must be non-blocking.

        Raises:
            EOFError: The other end is closed.
        """
        while True:
            if not self._missing:
                try:
                    self._missing = memoryview(next(self._message))
                except StopIteration as whole:
                    self._message = self._assemble_messages()
                    message: Message = whole.value
                    return message
            try:
                count = self._source.readinto(self._missing)  # type: ignore[attr-defined]
            except (OSError, ValueError):
                count = 0
            if count is None:
                return None
            if count == 0:
                raise EOFError
            self._missing = self._missing[count:]

    @property
    def source(self) -> int:
        """Return the file descriptor of the pipe with incoming messages."""
        return self._source.fileno()

    def close(self, timeout_s: float) -> None:
        """Write the remaining messages for at most `timeout_s`, then close the pipe."""
        with self._lock:
            self._closing = True
            self._is_behind.notify()
        self._writer.join(timeout_s)

    def _write(self) -> None:
        """Write as much queued data as the pipe accepts (the caller holds the lock)."""
        try:
            while self._unsent:
                piece = self._unsent[0]
                count = os.write(self._sink.fileno(), piece)
                if count < len(piece):
                    self._unsent[0] = piece[count:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except (OSError, ValueError):  # One end of the pipe is closed.
            self._is_gone = True
            self._unsent.clear()

    def _write_on(self) -> None:
        """Write queued data whenever the pipe has space (on the writer thread)."""
        while True:
            with self._lock:
                self._is_behind.wait_for(lambda: self._unsent or self._closing)
                if not self._unsent:
                    break
            with contextlib.suppress(ValueError):  # Another thread has closed the pipe.
                self._await_room()
            with self._lock:
                self._write()
        self._fail()

    def _await_room(self) -> None:
        if self._writes_itself:
            # `select.select` is not used, because it does not support file descriptors above 1023.
            poller = select.poll()
            poller.register(self._sink.fileno(), select.POLLOUT)
            poller.poll(1000 * POLL_INTERVAL_S)

    def _fail(self) -> None:
        with self._lock:
            self._is_gone = True
            self._unsent.clear()
            with contextlib.suppress(OSError):
                self._sink.close()

    def _assemble_messages(self) -> Generator[bytearray, None, Message]:
        """Yield the buffers of one message, which the caller fills, and return the message."""
        yield (head := bytearray(_PIECE_COUNT.size))
        (count,) = _PIECE_COUNT.unpack(head)
        yield (table := bytearray(count * _LENGTH_BYTES))
        # The buffers are bytearrays, so that the received arrays are writable.
        data, *arrays = pieces = [bytearray(size) for size in struct.unpack(f"<{count}Q", table)]
        yield from pieces
        message: Message = pickle.loads(data, buffers=arrays)  # noqa: S301  Only this program writes messages.
        return message


def _pieces(message: Message) -> list[memoryview]:
    """Return the buffers of a message: sizes and pickle, followed by the large arrays."""
    arrays: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < MIN_SEPARATE_BYTES:
            return True
        arrays.append(raw)
        return False

    data = pickle.dumps(message, protocol=5, buffer_callback=stays)
    sizes = [len(data), *(array.nbytes for array in arrays)]
    head = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return [memoryview(head + data), *arrays]
