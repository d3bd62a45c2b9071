"""The connection: opening it, several utterances over it, and the words for programs without an event loop."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from typing import Any, Literal, Unpack
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Response
from websockets.typing import Subprotocol

from runtime.client.speech import OnQueue, Speech
from runtime.client.values import Cancelled, Config, ConnectionLost, Done, End, SpeechRefused, Start
from runtime.request import SAMPLE_RATE, Queued, RequestStats

PROTOCOL = "voicewright.speech.v1"
ROUTE = "/v1/audio/speech/stream"
MAX_QUEUE = 4  # messages that wait beside those of the utterances
PING_S = 30.0  # an idle session is closed after two minutes
GREETING_S = 10.0  # until the runtime has introduced itself
CLOSE_S = 1.0  # a runtime whose sound was not read cannot answer a close at once
HEADER = struct.Struct("<BBHIQ")  # version, kind, channel, number of the message, first sample
SOUND = (1, 1)  # version and kind of the frames that are known here


class Client:
    """An open session. ``session`` is the runtime's introduction: its models and limits."""

    def __init__(self, connection: ClientConnection, session: dict[str, Any]) -> None:
        self.session = session
        self._connection = connection
        self._speeches: dict[str, Speech] = {}
        self._channels: dict[int, Speech] = {}
        self._complaint: SpeechRefused | None = None  # bound to no utterance: why the socket is about to close
        self._count = 0

    async def speak(
        self, text: str | None = None, *, on_queue: OnQueue | None = None, **config: Unpack[Config]
    ) -> Speech:
        """Start an utterance; without a text it is live: `Speech.write` it, then `Speech.finish`.

        ``on_queue`` is called with the position and the estimated wait where no slot is free.

        Raises:
            ConnectionLost: nothing was started. Refusals come where the utterance is read.
        """
        self._count += 1
        speech = Speech(f"u{self._count}", self._send, on_queue, live=text is None)
        self._speeches[speech.context_id] = speech
        reference = config.get("ref_audio")
        if isinstance(reference, bytes):
            config["ref_audio"] = base64.b64encode(reference).decode()
        context_id = speech.context_id
        if text is not None:
            config = {"text_filter": "none", **config}
        await self._send("session.config", **config, context_id=context_id, frames="labelled")
        if text is not None:
            await self._send("input.text", context_id=context_id, text=text)
            await self._send("input.done", context_id=context_id)
        return speech

    async def _send(self, kind: str, **message: Any) -> None:
        try:
            await self._connection.send(json.dumps({"type": kind, **message}))
        except ConnectionClosed:
            raise self._complaint or ConnectionLost() from None

    async def read(self) -> None:
        """Sort what comes until the connection ends. A full utterance holds up the others, by design."""
        try:
            async for message in self._connection:
                if isinstance(message, str):
                    self._sort(json.loads(message))
                    continue
                version, kind, channel, _, first_sample = HEADER.unpack_from(message)
                if (version, kind) == SOUND and (speech := self._channels.get(channel)):
                    await speech.on_sound(first_sample, message[HEADER.size :])
        except (ConnectionClosed, ConnectionLost):
            pass
        finally:
            for speech in self._speeches.values():
                speech.on_end(self._complaint or ConnectionLost())

    async def keep_open(self) -> None:
        """Ping at once, since the runtime waits ten seconds for a first message, and then now and again."""
        with suppress(SpeechRefused):
            while True:
                await self._send("ping")
                await asyncio.sleep(PING_S)

    def _sort(self, message: dict[str, Any]) -> None:
        kind, speech = message["type"], self._speeches.get(message.get("context_id") or "")
        if speech is None:
            if kind == "error":
                self._complaint = SpeechRefused.from_fields(message)
            return
        match kind:
            case "queue":
                speech.on_queued(Queued(message["position"], message.get("eta_ms")))
            case "audio.start":
                self._channels[message["channel"]] = speech
                speech.start = _start(message)
            case "audio.done":
                self._end(speech, _done(message))
            case "context.cancelled":
                self._end(speech, Cancelled(message["sent_ms"], message["played_ms"]))
            case "error":
                self._end(speech, SpeechRefused.from_fields(message))

    def _end(self, speech: Speech, end: End) -> None:
        del self._speeches[speech.context_id]
        self._channels = {channel: one for channel, one in self._channels.items() if one is not speech}
        speech.on_end(end)


@asynccontextmanager
async def connect(
    url: str, *, api_key: str | None = None, proxy: str | Literal[True] | None = True
) -> AsyncIterator[Client]:
    """Open a session with the runtime, or the studio, at this address; leaving the block cancels what is in flight.

    ``url`` is http(s) or ws(s), with or without the route. ``proxy`` is as the websockets library takes it.

    Raises:
        SpeechRefused: the runtime takes no session now, or not with this key.
        ConnectionLost: nobody answers there.
    """
    try:
        connection = await open_socket(
            _address(url),
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            compression=None,  # sound does not compress
            max_queue=MAX_QUEUE,
            close_timeout=CLOSE_S,
            proxy=proxy,
        )
    except InvalidStatus as refusal:
        raise _refusal(refusal.response) from None
    except (OSError, TimeoutError, InvalidHandshake):
        raise ConnectionLost from None
    async with connection:
        client = Client(connection, await _greeting(connection))
        tasks = [asyncio.create_task(client.read()), asyncio.create_task(client.keep_open())]
        try:
            yield client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def say(url: str, text: str, *, api_key: str | None = None, **config: Unpack[Config]) -> bytes:
    """Speak one text and return its sound, mono s16le at ``SAMPLE_RATE``; for programs without an event loop.

    Raises:
        SpeechRefused, ConnectionLost: as `connect` and `Speech.read`.
    """

    async def heard() -> bytes:
        async with connect(url, api_key=api_key) as client:
            return await (await client.speak(text, **config)).read()

    return asyncio.run(heard())


def wav(pcm: bytes) -> bytes:
    """Return a WAV file of mono s16le sound at ``SAMPLE_RATE``."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "not compressed"))
        out.writeframes(pcm)
    return file.getvalue()


async def _greeting(connection: ClientConnection) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(connection.recv(), GREETING_S))
    except (ConnectionClosed, TimeoutError):
        raise ConnectionLost from None
    if message["type"] == "error":
        raise SpeechRefused.from_fields(message)
    return message


def _refusal(response: Response) -> SpeechRefused:
    """The error that a refused handshake came with."""
    try:
        return SpeechRefused.from_fields(json.loads(response.body or b"")["error"])
    except (ValueError, KeyError, TypeError):  # not a runtime of ours, or one behind somebody else's door
        sentence = f"The address answers with HTTP status {response.status_code} and takes no session."
        return SpeechRefused("unknown_route", sentence)


def _start(message: dict[str, Any]) -> Start:
    named = {name: message[name] for name in ("model", "mode", "voice", "seed")}
    return Start(**named, notes=tuple(message["notes"]))


def _done(message: dict[str, Any]) -> Done:
    known = {field.name for field in fields(RequestStats)}
    return Done(
        stop_reason=message["stop_reason"],
        seed=message["seed"],
        samples=message["total_samples"],
        stats=RequestStats(**{name: value for name, value in message["metrics"].items() if name in known}),
    )


def _address(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix(ROUTE) + ROUTE
    return urlunsplit((parts.scheme.replace("http", "ws", 1), parts.netloc, path, parts.query, ""))
