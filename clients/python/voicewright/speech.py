"""Class for one utterance, which sends text to the runtime and receives audio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import suppress
from typing import Any, Protocol, Self

from voicewright.errors import ConnectionLost, SpeechRefused, SpeechTimeout, VoicewrightError
from voicewright.values import Chunk, Done, End, Queued, Start

MAX_WAITING = 32  # Maximum number of unread chunks. A chunk has at most 250 ms, so an utterance needs at most 384 KiB.


class Open(Protocol):
    """Callback that starts an utterance at the runtime.

    The callback may raise ConnectionLost.
    """

    def __call__(self, speech: Speech, /) -> Awaitable[None]: ...


class Send(Protocol):
    """Callback that sends one message of an utterance to the runtime.

    The callback may raise ConnectionLost.
    """

    async def __call__(self, kind: str, **fields: Any) -> None: ...


class OnQueue(Protocol):
    """Callback for an utterance that waits for a free slot of the runtime.

    It receives the queue position and the estimated waiting time.
    """

    def __call__(self, queued: Queued, /) -> None: ...


class Speech:
    """Utterance (speech of one text), which is an async iterator over its audio chunks.

    The utterance starts when it is first entered, awaited, read or written to. `queued`, `start` and `end` are None
    until the runtime has reported them. `end` is a `Done`, a `Cancelled`, or the exception that the iteration raises.
    """

    def __init__(
        self,
        context_id: str,
        open_it: Open,
        send: Send,
        *,
        live: bool,
        timeout: float | None,
        on_queue: OnQueue | None,
    ) -> None:
        self.context_id = context_id
        self.queued: Queued | None = None
        self.start: Start | None = None
        self.end: End | None = None
        self._open = open_it
        self._send = send
        self._on_queue = on_queue
        self._timeout = timeout
        self._read_timeout: asyncio.Timeout | None = None  # Timeout of a reader that waits for audio.
        self._beginning = asyncio.Lock()
        self._has_begun = False
        self._ended = asyncio.Event()
        # The value None in the queue only wakes a waiting reader.
        self._sound: asyncio.Queue[Chunk | None] = asyncio.Queue(MAX_WAITING)
        self._samples = 0
        self._finished = not live
        self._silenced = False

    @property
    def done(self) -> Done | None:
        """Return the statistics, stop reason and seed of the utterance.

        The result is None if the utterance has not finished.
        """
        return self.end if isinstance(self.end, Done) else None

    # --- Methods that send the text.

    async def write(self, text: str) -> None:
        """Append text to an utterance that was created without text.

        Raises:
            SpeechRefused, ConnectionLost: The utterance has already failed.
            ValueError: The text is already complete, or the utterance was cancelled.
        """
        await self._send_text("input.text", text=text)

    async def flush(self) -> None:
        """Generate speech for all text that was written, even if its last word may be incomplete.

        Raises the same exceptions as `write`.
        """
        await self._send_text("input.flush")

    async def finish(self) -> None:
        """Mark the text of the utterance as complete.

        Raises the same exceptions as `write`.
        """
        await self._send_text("input.done")
        self._finished = True

    # --- Methods that receive the audio, report its playback and cancel it.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        """Wait for the next audio chunk and return it.

        Raises:
            SpeechRefused, ConnectionLost: The utterance failed after the chunks that were returned.
            SpeechTimeout: No audio arrived within the timeout, so the utterance is cancelled.
        """
        await self._begin()
        while not self._silenced:
            if self.end is not None and self._sound.empty():
                if isinstance(self.end, VoicewrightError):
                    raise self.end
                break
            if (chunk := await self._next()) is not None:
                return chunk
        raise StopAsyncIteration

    async def read(self) -> bytes:
        """Wait for the end of the utterance and return the complete audio as bytes.

        The audio is s16le, mono, at `SAMPLE_RATE`.

        Raises the same exceptions as iterating over the utterance.
        """
        return b"".join([chunk.pcm async for chunk in self])

    async def played(self, ms: float, buffered_ms: float | None = None) -> None:
        """Report the playback position to the runtime.

        The runtime generates audio first for utterances with little unplayed audio.

        Args:
            ms: Total duration of the played audio in milliseconds.
            buffered_ms: Duration of the received audio that has not been played, in milliseconds, or None.
        """
        more = {} if buffered_ms is None else {"buffered_ms": buffered_ms}
        await self._send("playback", context_id=self.context_id, played_ms=ms, **more)

    async def cancel(self, played_ms: float | None = None) -> None:
        """Cancel the utterance, after which no more audio chunks are returned.

        `played_ms` is the duration of the played audio in milliseconds. `end` is set when the runtime confirms the
        cancellation.
        """
        if self._silenced:
            return
        self._silenced = True
        while not self._sound.empty():
            self._sound.get_nowait()
        self._sound.put_nowait(None)
        if self.end is None and self._has_begun:
            more = {} if played_ms is None else {"played_ms": played_ms}
            await self._send("context.cancel", context_id=self.context_id, **more)

    async def ended(self) -> End:
        """Wait for the end of the utterance, and return the event or exception that ended it.

        The end arrives after all audio, so read all audio first or cancel the utterance.
        """
        await self._ended.wait()
        assert self.end is not None
        return self.end

    def __await__(self) -> Generator[Any, None, Self]:
        return self._begun().__await__()

    async def __aenter__(self) -> Self:
        return await self._begun()

    async def __aexit__(self, *_: object) -> None:
        with suppress(ConnectionLost, SpeechRefused):
            await self.cancel()

    # --- Methods that `Client` calls when it receives messages.

    async def on_sound(self, first_sample: int, pcm: bytes) -> None:
        """Add an audio chunk to the queue of the utterance, and wait while the queue is full."""
        if self.end is not None or self._silenced:  # The runtime sent this audio before it processed the cancel.
            return
        if first_sample != self._samples:  # Audio is missing, which is an error of the runtime.
            self.on_end(SpeechRefused("generation_failed", "Audio arrived out of order.", retryable=True))
            await self._send("context.cancel", context_id=self.context_id)
        else:
            self._samples += len(pcm) // 2
            await self._sound.put(Chunk(pcm, first_sample))

    def on_queued(self, queued: Queued) -> None:
        self.queued = queued
        # A new queue position proves that the runtime is alive, so it restarts the reader's timeout.
        if self._read_timeout is not None and self._timeout is not None:
            self._read_timeout.reschedule(asyncio.get_running_loop().time() + self._timeout)
        if self._on_queue is not None:
            # The callback runs later, because its exception must not end the task that reads messages.
            asyncio.get_running_loop().call_soon(self._on_queue, queued)

    def on_end(self, end: End) -> None:
        """Record the event or exception that ended the utterance, unless the end is already known."""
        if self.end is None:
            self.end = end
            self._ended.set()
            with suppress(asyncio.QueueFull):  # A waiting reader has an empty queue, so a full queue needs no entry.
                self._sound.put_nowait(None)

    async def _begun(self) -> Self:
        await self._begin()
        return self

    async def _begin(self) -> None:
        """Start the utterance if it has not been started or cancelled.

        Raises:
            ConnectionLost: The connection was lost.
            SpeechRefused: The runtime has closed the connection with an error.
        """
        async with self._beginning:
            if not self._has_begun and not self._silenced:
                self._has_begun = True
                try:
                    await self._open(self)
                except VoicewrightError as error:
                    self.on_end(error)
                    raise

    async def _next(self) -> Chunk | None:
        try:
            async with asyncio.timeout(self._timeout) as self._read_timeout:
                return await self._sound.get()
        except TimeoutError:
            await self.cancel()
            raise SpeechTimeout from None
        finally:
            self._read_timeout = None

    async def _send_text(self, kind: str, **kwargs: str) -> None:
        await self._begin()
        if isinstance(self.end, VoicewrightError):
            raise self.end
        if self._finished or self._silenced:
            raise ValueError("the text of this utterance is finished")
        await self._send(kind, context_id=self.context_id, **kwargs)
