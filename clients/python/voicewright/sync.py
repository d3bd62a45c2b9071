"""Synchronous client, used as ``with connect(…) as client`` and ``for chunk in speech``.

Each connection has an event loop on a separate thread. Therefore, the client also works in a notebook in which an event
loop is running. Methods may be called on any thread. Callbacks run on the connection's thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar, Unpack

from voicewright import client as aio
from voicewright import speech as aio_speech
from voicewright.client import CONNECT_S, SILENCE_S
from voicewright.routes import Proxy
from voicewright.speech import OnQueue
from voicewright.values import Chunk, Config, Done, End, Queued, Start, Turn

T = TypeVar("T")


class Speech:
    """Utterance (speech of one text), which is an iterator over its audio chunks.

    It has the methods of `voicewright.Speech`, but they are not coroutines.
    """

    def __init__(self, loop: _Loop, speech: aio_speech.Speech) -> None:
        self._loop = loop
        self._speech = speech

    @property
    def context_id(self) -> str:
        return self._speech.context_id

    @property
    def queued(self) -> Queued | None:
        return self._speech.queued

    @property
    def start(self) -> Start | None:
        return self._speech.start

    @property
    def end(self) -> End | None:
        return self._speech.end

    @property
    def done(self) -> Done | None:
        return self._speech.done

    def write(self, text: str) -> None:
        self._loop.run(self._speech.write(text))

    def flush(self) -> None:
        self._loop.run(self._speech.flush())

    def finish(self) -> None:
        self._loop.run(self._speech.finish())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        chunk = self._loop.run(_next(self._speech))
        if chunk is None:
            raise StopIteration
        return chunk

    def read(self) -> bytes:
        return self._loop.run(self._speech.read())

    def played(self, ms: float, buffered_ms: float | None = None) -> None:
        self._loop.run(self._speech.played(ms, buffered_ms))

    def cancel(self, played_ms: float | None = None) -> None:
        self._loop.run(self._speech.cancel(played_ms))

    def ended(self) -> End:
        return self._loop.run(self._speech.ended())

    def __enter__(self) -> Self:
        self._loop.run(self._speech.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._speech.__aexit__())


class Client:
    """Open session with a runtime.

    It has the methods of `voicewright.Client`, but they are not coroutines.
    """

    def __init__(self, loop: _Loop, client: aio.Client) -> None:
        self.session = client.session
        self._loop = loop
        self._client = client

    @property
    def expires_in_s(self) -> float | None:
        return self._client.expires_in_s

    def speak(
        self,
        text: str | None = None,
        *,
        inputs: Sequence[Turn] | None = None,
        turn_pause_ms: float | None = None,
        timeout: float | None = SILENCE_S,
        on_queue: OnQueue | None = None,
        **config: Unpack[Config],
    ) -> Speech:
        """Start an utterance, which generates the speech of a text or a dialogue.

        ``with client.speak(…) as speech`` cancels the utterance if the block is left early. `voicewright.Client.speak`
        describes the arguments.

        Raises:
            ConnectionLost, SpeechRefused: The connection was lost, or the runtime refuses the request.
        """

        async def begun() -> aio_speech.Speech:
            return await self._client.speak(
                text, inputs=inputs, turn_pause_ms=turn_pause_ms, timeout=timeout, on_queue=on_queue, **config
            )

        return Speech(self._loop, self._loop.run(begun()))

    def models(self) -> list[dict[str, Any]]:
        return self._loop.run(self._client.models())

    def voices(self, search: str | None = None) -> list[dict[str, Any]]:
        return self._loop.run(self._client.voices(search))

    def voice(self, voice: str) -> dict[str, Any]:
        return self._loop.run(self._client.voice(voice))

    def add_voice(self, name: str, audio: bytes, *, consent: str, **kwargs: str) -> dict[str, Any]:
        return self._loop.run(self._client.add_voice(name, audio, consent=consent, **kwargs))

    def check_voice(self, audio: bytes, ref_text: str | None = None) -> dict[str, Any]:
        return self._loop.run(self._client.check_voice(audio, ref_text))

    def edit_voice(self, voice: str, **changes: Any) -> dict[str, Any]:
        return self._loop.run(self._client.edit_voice(voice, **changes))

    def export_voice(self, voice: str) -> bytes:
        return self._loop.run(self._client.export_voice(voice))

    def import_voice(self, file: bytes, **kwargs: str) -> dict[str, Any]:
        return self._loop.run(self._client.import_voice(file, **kwargs))

    def voice_audio(self, voice: str) -> bytes:
        return self._loop.run(self._client.voice_audio(voice))

    def delete_voice(self, voice: str) -> None:
        self._loop.run(self._client.delete_voice(voice))

    def pronunciation_dictionaries(self) -> list[dict[str, Any]]:
        return self._loop.run(self._client.pronunciation_dictionaries())

    def pronunciation_dictionary(self, dictionary: str) -> dict[str, Any]:
        return self._loop.run(self._client.pronunciation_dictionary(dictionary))

    def add_pronunciation_dictionary(
        self, name: str, pronunciations: Sequence[Mapping[str, Any]], description: str = ""
    ) -> dict[str, Any]:
        return self._loop.run(self._client.add_pronunciation_dictionary(name, pronunciations, description))

    def edit_pronunciation_dictionary(self, dictionary: str, **changes: Any) -> dict[str, Any]:
        return self._loop.run(self._client.edit_pronunciation_dictionary(dictionary, **changes))

    def delete_pronunciation_dictionary(self, dictionary: str) -> None:
        self._loop.run(self._client.delete_pronunciation_dictionary(dictionary))

    def ticket(self) -> str:
        return self._loop.run(self._client.ticket())


@contextmanager
def connect(
    url: str, *, api_key: str | None = None, timeout: float | None = CONNECT_S, proxy: Proxy = True
) -> Iterator[Client]:
    """Open a session with the runtime or studio at a URL, and close it on exit.

    The arguments and exceptions are those of `voicewright.connect`.
    """
    with _running_loop() as loop:
        opening = aio.connect(url, api_key=api_key, timeout=timeout, proxy=proxy)
        client = loop.run(opening.__aenter__())
        try:
            yield Client(loop, client)
        finally:
            loop.run(opening.__aexit__(None, None, None))


def say(
    url: str,
    text: str,
    *,
    api_key: str | None = None,
    timeout: float | None = SILENCE_S,
    proxy: Proxy = True,
    **config: Unpack[Config],
) -> bytes:
    """Speak one text and return its audio as bytes (s16le, mono, at `SAMPLE_RATE`).

    The function opens a connection for this text. It also works in a notebook.

    Raises:
        SpeechRefused, ConnectionLost: The runtime refuses the request, or the connection was lost.
    """
    with connect(url, api_key=api_key, proxy=proxy) as client:
        return client.speak(text, timeout=timeout, **config).read()


class _Loop:
    """Event loop that runs on another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, wait for it and return its result.

        An interrupt (Ctrl-C) cancels the coroutine.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


@contextmanager
def _running_loop() -> Iterator[_Loop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="voicewright-client", daemon=True)
    thread.start()
    try:
        yield _Loop(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _next(speech: aio_speech.Speech) -> Chunk | None:
    """Return the next chunk, or None at the end (a future cannot raise StopAsyncIteration)."""
    return await anext(speech, None)
