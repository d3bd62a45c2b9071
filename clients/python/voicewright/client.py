"""WebSocket connection to a runtime, on which several utterances run at the same time."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from typing import Any, Unpack

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from voicewright.errors import ConnectionLost, SpeechRefused, SpeechTimeout, VoicewrightError
from voicewright.routes import Http, Proxy, Routes, refusal_of
from voicewright.speech import OnQueue, Speech
from voicewright.values import Cancelled, Config, Done, End, Queued, Start, Stats, Turn
from voicewright.wire import PROTOCOL, read_frame, socket_address

CONNECT_S = 10.0  # Timeout in seconds for the runtime's first message.
# Timeout in seconds without audio. It is long because the runtime may first have to load a checkpoint.
SILENCE_S = 300.0
MAX_QUEUE = 4  # Maximum number of queued messages, excluding the chunks that are queued in utterances.
PING_S = 30.0  # Interval between pings in seconds. The runtime closes idle sessions after two minutes.
CLOSE_S = 1.0  # Timeout in seconds for closing the connection, which may have to wait for unread audio.


class Client(Routes):
    """Open WebSocket session with a runtime.

    `session` is the first message of the runtime, with its models and limits.

    `expires_in_s` is None until the runtime announces that it will close a long session. It is then the number of
    seconds from the announcement to the end of the session. Connect again for further speech.
    """

    def __init__(self, connection: ClientConnection, session: dict[str, Any], http: Http) -> None:
        super().__init__(http)
        self.session = session
        self.expires_in_s: float | None = None
        self._connection = connection
        self._speeches: dict[str, Speech] = {}
        self._channels: dict[int, Speech] = {}
        # Last error of the whole session. The runtime closes the connection after such an error.
        self._complaint: SpeechRefused | None = None
        self._has_ended = False
        self._count = 0

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
        """Create an utterance, which generates the speech of a text or a dialogue.

        Without `text`, send the text piece by piece with `Speech.write` and `Speech.finish`. For a dialogue, pass
        `inputs` instead of `text`. Its turns are spoken in sequence, with a pause of `turn_pause_ms` between them. A
        turn without a voice uses the voice in `config`.

        ``async with client.speak(…) as speech`` starts the utterance, and cancels it if the block is left early.
        ``speech = await client.speak(…)`` only starts the utterance.

        Args:
            text: Complete text, or None.
            inputs: Turns of a dialogue, or None.
            turn_pause_ms: Pause between two turns in milliseconds, or None for the runtime's default.
            timeout: Maximum time in seconds without audio.
            on_queue: Function that is called with the queue position and the estimated wait if no slot is free.
            config: Settings of the utterance.

        Raises:
            ConnectionLost, SpeechRefused: Raised when the utterance starts or while it is read.
        """
        if text is not None and inputs is not None:
            raise ValueError("an utterance has a text or inputs")
        is_live = text is None and inputs is None
        self._count += 1
        reference = config.get("ref_audio")
        if isinstance(reference, bytes):
            config["ref_audio"] = base64.b64encode(reference).decode()

        async def begin(speech: Speech) -> None:
            context_id = speech.context_id
            self._speeches[context_id] = speech
            if self._has_ended:
                raise self._complaint or ConnectionLost
            filtered: Config = config if is_live else {"text_filter": "none", **config}
            await self._send("session.config", **filtered, context_id=context_id, frames="labelled")
            if inputs is not None:
                pause = {} if turn_pause_ms is None else {"turn_pause_ms": turn_pause_ms}
                await self._send("input.dialogue", context_id=context_id, inputs=inputs, **pause)
            elif text is not None:
                await self._send("input.text", context_id=context_id, text=text)
                await self._send("input.done", context_id=context_id)

        return Speech(f"u{self._count}", begin, self._send, live=is_live, timeout=timeout, on_queue=on_queue)

    # --- Methods that read messages and keep the connection open.

    async def read(self) -> None:
        """Receive messages and pass them to their utterances until the connection ends.

        An utterance with too many unread chunks blocks all other utterances.
        """
        try:
            async for message in self._connection:
                if isinstance(message, str):
                    self._sort(json.loads(message))
                elif (frame := read_frame(message)) and (speech := self._channels.get(frame.channel)):
                    await speech.on_sound(frame.first_sample, frame.pcm)
        except (ConnectionClosed, ConnectionLost):
            pass
        finally:
            self._has_ended = True
            for speech in self._speeches.values():
                speech.on_end(self._complaint or ConnectionLost())

    async def keep_open(self) -> None:
        """Send a ping immediately and then at regular intervals.

        The runtime waits only ten seconds for the first message.
        """
        with suppress(VoicewrightError):
            while True:
                await self._send("ping")
                await asyncio.sleep(PING_S)

    async def _send(self, kind: str, **message: Any) -> None:
        try:
            await self._connection.send(json.dumps({"type": kind, **message}))
        except ConnectionClosed:
            raise self._complaint or ConnectionLost from None

    def _sort(self, message: dict[str, Any]) -> None:
        kind, speech = message["type"], self._speeches.get(message.get("context_id") or "")
        if speech is None:
            if kind == "error":
                self._complaint = SpeechRefused.from_fields(message)
            elif kind == "session.expiring":
                self.expires_in_s = message["remaining_s"]
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
        self._channels = {channel: other for channel, other in self._channels.items() if other is not speech}
        speech.on_end(end)


@asynccontextmanager
async def connect(
    url: str,
    *,
    api_key: str | None = None,
    timeout: float | None = CONNECT_S,  # noqa: ASYNC109  as in httpx and openai
    proxy: Proxy = True,
) -> AsyncIterator[Client]:
    """Open a session with the runtime or studio at a URL, and close it on exit.

    When the ``async with`` block is left, running utterances are cancelled.

    Args:
        url: URL with http(s) or ws(s), with or without the path of the route.
        api_key: API key of the runtime or studio.
        timeout: Maximum seconds until the runtime's first message, and between pieces of HTTP responses.
        proxy: Proxy URL, None for no proxy, or True for the proxy of the environment (as in websockets).

    Raises:
        SpeechRefused: The runtime accepts no sessions at present, or the key is invalid.
        ConnectionLost: The connection failed.
        SpeechTimeout: The runtime did not respond within the timeout.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with asyncio.timeout(timeout):
            connection, session = await _opened(url, headers, proxy)
    except TimeoutError:
        raise SpeechTimeout("The runtime did not answer in time.") from None
    async with connection:
        http = Http(url, headers, timeout, proxy)
        client = Client(connection, session, http)
        tasks = [asyncio.create_task(client.read()), asyncio.create_task(client.keep_open())]
        try:
            yield client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await http.close()


async def _opened(url: str, headers: dict[str, str], proxy: Proxy) -> tuple[ClientConnection, dict[str, Any]]:
    """Open a WebSocket, and return it with the runtime's first message."""
    try:
        connection = await open_socket(
            socket_address(url),
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers=headers,
            compression=None,  # PCM audio does not become smaller by compression.
            max_queue=MAX_QUEUE,
            open_timeout=None,  # The caller applies its own timeout.
            close_timeout=CLOSE_S,
            proxy=proxy,
        )
    except InvalidStatus as refusal:
        raise refusal_of(refusal.response.status_code, refusal.response.body or b"") from None
    except (OSError, InvalidHandshake) as error:
        raise ConnectionLost from error
    try:
        message: dict[str, Any] = json.loads(await connection.recv())
        if message["type"] == "error":
            raise SpeechRefused.from_fields(message)
    except ConnectionClosed:
        raise ConnectionLost from None
    except BaseException:
        await connection.close()
        raise
    return connection, message


def _start(message: dict[str, Any]) -> Start:
    named = {name: message[name] for name in ("model", "mode", "voice", "seed")}
    return Start(**named, notes=tuple(message["notes"]))


def _done(message: dict[str, Any]) -> Done:
    known = {field.name for field in fields(Stats)}
    return Done(
        stop_reason=message["stop_reason"],
        seed=message["seed"],
        samples=message["total_samples"],
        notes=tuple(message.get("notes", ())),
        stats=Stats(**{name: value for name, value in message["metrics"].items() if name in known}),
    )
