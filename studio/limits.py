"""What one visitor may ask for at once and in a day, where each has an own history; around everything.

A visitor is told by the cookie or the account; who has neither, by the address. What is counted lives in memory: it
starts anew with the process. Thread: the event loop.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.errors import RateLimited, SignInNeeded, SpeechError, SpeechSpent, TooManyConnections
from studio.relay import fields_of, refused
from studio.settings import VisitSettings
from studio.visitors import Visitors

DAY_S = 86400
RETRY_S = 2.0
API = ("/v1/", "/tts/")
SPEECH = ("/v1/audio/speech", "/v1/audio/speech/batch", "/tts/bytes")
# Of everything else, what needs no visitor: the page itself, how it does, and signing in.
OPEN = (
    "/studio/me",
    "/studio/status",
    "/studio/presets",
    "/studio/i18n/",
    "/studio/js/",
    "/studio/css/",
    "/studio/sign",
)
CLOSED = (*API, "/studio/", "/gradio_api/", "/mcp")
PCM = 48_000  # bytes of a second: s16le at 24 kHz
# Bytes of a second of each kind of reply; what is compressed by ear varies about these.
RATES = {
    "audio/pcm": PCM,
    "audio/wav": PCM,
    "audio/flac": PCM // 2,
    "audio/mpeg": 8_000,
    "audio/aac": 8_000,
    "audio/ogg": 6_000,
    "text/event-stream": PCM * 4 // 3,
    "application/json": PCM * 4 // 3,
}
LONG_TEXT = 1024  # characters of a message that holds sound in base64


class VisitLimits:
    """ASGI middleware. Programs count as the page does, since they come through the same routes."""

    def __init__(self, app: ASGIApp, visitors: Visitors, settings: VisitSettings, *, must_sign_in: bool) -> None:
        self.app, self.visitors, self.settings, self.must_sign_in = app, visitors, settings, must_sign_in
        self._sockets: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()  # bytes of PCM today
        self._day = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.visitors.each or scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        connection, path = HTTPConnection(scope), str(scope["path"])
        try:
            kind, who = self._who(connection)
            if self.must_sign_in and kind != "member" and path.startswith(CLOSED) and not path.startswith(OPEN):
                raise SignInNeeded
            if scope["type"] == "websocket" and path.startswith(API):
                with self._within(self._sockets, who, self.settings.visitor_sockets, TooManyConnections):
                    self._check_day(kind, who)
                    await self.app(scope, self._listening(receive, send, kind, who), self._counting(send, who))
            elif path in SPEECH and scope.get("method") == "POST":
                with self._within(self._requests, who, self.settings.visitor_requests, RateLimited):
                    self._check_day(kind, who)
                    await self.app(scope, receive, self._counting(send, who))
            else:
                await self.app(scope, receive, send)
        except (SignInNeeded, TooManyConnections, RateLimited, SpeechSpent) as error:
            await _say_no(scope, receive, send, error)

    def _who(self, connection: HTTPConnection) -> tuple[str, str]:
        visitor = self.visitors.of(connection)
        address = connection.client.host if connection.client else ""
        return visitor.kind, visitor.owner or f"address:{address}"

    @contextmanager
    def _within(self, counter: Counter[str], who: str, limit: int, error: type[SpeechError]) -> Iterator[None]:
        if counter[who] >= limit:
            raise error(limit=limit, retry_after_s=RETRY_S)
        counter[who] += 1
        try:
            yield
        finally:
            counter[who] -= 1
            if not counter[who]:
                del counter[who]

    # --- seconds of speech a day

    def _check_day(self, kind: str, who: str) -> None:
        day = int(time.time()) // DAY_S
        if day != self._day:
            self._day = day
            self._spent.clear()
        limit = self.settings.member_speech_s if kind == "member" else self.settings.visitor_speech_s
        if limit and self._spent[who] >= limit * PCM:
            raise SpeechSpent(limit=limit, retry_after_s=DAY_S - int(time.time()) % DAY_S)

    def _counting(self, send: Send, who: str) -> Send:
        """Count the sound that is sent."""
        rate = 0

        async def counted(message: Message) -> None:
            nonlocal rate
            match message["type"]:
                case "http.response.start":
                    rate = _rate(message) if message["status"] < 400 else 0
                case "http.response.body" if rate:
                    self._spent[who] += len(message.get("body", b"")) * PCM // rate
                case "websocket.send":
                    self._spent[who] += _sound_in(message)
            await send(message)

        return counted

    def _listening(self, receive: Receive, send: Send, kind: str, who: str) -> Receive:
        """A socket whose visitor has had enough for today takes nothing more; what is under way is heard to its end."""

        async def heard() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive" or '"input.' not in (message.get("text") or ""):
                return message
            try:
                self._check_day(kind, who)
            except SpeechSpent as error:
                await _end(send, error)
                return {"type": "websocket.disconnect", "code": error.outcome.close}
            return message

        return heard


def _rate(start: Message) -> int:
    kinds = [value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"content-type"]
    return RATES.get(kinds[0].partition(";")[0], 0) if kinds else 0


def _sound_in(message: MutableMapping[str, Any]) -> int:
    if (sound := message.get("bytes")) is not None:
        return len(sound)
    text = message.get("text") or ""
    return len(text) * 3 // 4 if len(text) > LONG_TEXT else 0


async def _say_no(scope: Scope, receive: Receive, send: Send, error: SpeechError) -> None:
    if scope["type"] == "http":
        await refused(error)(scope, receive, send)
        return
    # Accepted first: a page cannot read the status of a refused handshake, but it can read a message.
    offered = scope["subprotocols"]
    await receive()
    await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
    await _end(send, error)


async def _end(send: Send, error: SpeechError) -> None:
    await send({"type": "websocket.send", "text": json.dumps({"type": "error", **fields_of(error)})})
    await send({"type": "websocket.close", "code": error.outcome.close, "reason": error.code})
