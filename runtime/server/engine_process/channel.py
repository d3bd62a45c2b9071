"""Carries messages between the server's process and the engine's over two pipes.

Messages are pickled, which is safe here and nowhere else: both ends are this program, and what a client sends arrives
as the values that the server's process has checked, never as a pickle of its own.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import struct
import threading
from queue import Empty, SimpleQueue
from typing import BinaryIO

from runtime.server.engine_process.messages import Message

log = logging.getLogger(__name__)

# Arrays from this size on (reference audio) are written as they lie in memory, without a copy into the pickle.
APART_BYTES = 64 * 2**10
_COUNT = struct.Struct("<I")  # pieces of a batch: the pickle, then its arrays
_SIZE = struct.Struct("<Q")  # bytes of a piece


class Channel:
    """One end. ``send`` may be called on any thread and returns at once; a thread writes what has gathered, as a batch.

    ``source`` and ``sink`` are buffered. What is sent after the other end has gone is lost.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._unsent: SimpleQueue[Message | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="engine-channel-writer", daemon=True)
        self._writer.start()

    def send(self, message: Message) -> None:
        """Have a message written after all before it."""
        self._unsent.put(message)

    def receive(self) -> list[Message]:
        """Wait for a batch and return its messages in the order in which they were sent.

        Raises:
            EOFError: the other end has gone.
        """
        (count,) = _COUNT.unpack(self._read(_COUNT.size))
        data, *arrays = [self._read(_SIZE.unpack(self._read(_SIZE.size))[0]) for _ in range(count)]
        batch: list[Message] = pickle.loads(data, buffers=arrays)  # noqa: S301  our own, see above
        return batch

    def close(self, patience_s: float) -> None:
        """Write what is left, and then nothing more: the other end finds that this one has gone."""
        self._unsent.put(None)
        self._writer.join(patience_s)

    def _write(self) -> None:
        try:
            self._write_on()
        except OSError:
            pass  # the other end has gone
        except Exception:
            log.critical("a message between the runtime's processes cannot be written", exc_info=True)
        finally:
            with contextlib.suppress(OSError):  # what it still holds of the last batch cannot be written either
                self._sink.close()  # so that the other end does not wait for what does not come

    def _write_on(self) -> None:
        while batch := self._gathered():
            pieces = _pieces(batch)
            self._sink.write(_COUNT.pack(len(pieces)))
            for piece in pieces:
                self._sink.write(_SIZE.pack(piece.nbytes))
                self._sink.write(piece)
            self._sink.flush()

    def _gathered(self) -> list[Message]:
        """Wait for a message and return it with all that have come by then; none: nothing comes any more."""
        batch = []
        message = self._unsent.get()
        with contextlib.suppress(Empty):
            while message is not None:
                batch.append(message)
                message = self._unsent.get_nowait()
            self._unsent.put(None)  # the end, for the next call
        return batch

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)  # and not bytes, so that arrays that lie in it may be written to
        try:
            count = self._source.readinto(data)  # type: ignore[attr-defined]  # of every buffered reader
        except (OSError, ValueError):
            count = 0
        if count < size:
            raise EOFError
        return data


def _pieces(batch: list[Message]) -> list[memoryview]:
    """The batch's pickle, and the large arrays that are not in it."""
    arrays: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < APART_BYTES:
            return True
        arrays.append(raw)
        return False

    return [memoryview(pickle.dumps(batch, protocol=5, buffer_callback=stays)), *arrays]
