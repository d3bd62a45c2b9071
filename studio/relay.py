"""The runtime's API on the studio's own origin: ``/v1/*``, HTTP and WebSocket, passed on as it comes.

Nothing is read, held back or changed but headers of one hop. Thread: the event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from runtime.errors import RuntimeUnavailable, SpeechError
from studio.supervisor import Runtime

HTTP_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
# What a client may tell the runtime of itself on a WebSocket; Origin was judged here and ends here.
PASSED_ON = ("authorization", "x-api-key", "xi-api-key", "cartesia-version", "user-agent", "x-voice-owner")
OWNER = "x-voice-owner"  # by whom a request is, for the runtime (docs/api.md)
ONE_HOP = {
    "connection",
    "host",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
# A few frames: what waits here is sound that a cancel cannot take back.
MAX_WAITING_FRAMES = 4
# A runtime whose sound nobody reads cannot answer a close; after this the connection is cut.
CLOSE_S = 0.5


# The word under which the runtime keeps the voices of whoever is there; empty for the host, whose are the common ones.
Whose = Callable[[HTTPConnection], str]


class Relay:
    """Passes requests on to wherever the runtime is now."""

    def __init__(self, runtime: Runtime, api_key: str = "", whose: Whose | None = None) -> None:
        """``api_key`` is the runtime's, if it asks for one: who may use the page may use what is behind it.

        With ``whose`` the runtime is told by whom each request is, and what a client says of that itself is dropped.
        """
        self.runtime = runtime
        self.whose = whose
        self.key = {"x-api-key": api_key} if api_key else {}
        # No read timeout: a stream may be silent for as long as a sentence waits for its slot.
        timeout = httpx.Timeout(10.0, read=None)
        self.client = httpx.AsyncClient(trust_env=False, timeout=timeout, limits=httpx.Limits())

    async def aclose(self) -> None:
        await self.client.aclose()

    # --- HTTP

    async def http(self, request: Request) -> Response:
        """Pass one request on and stream its answer back."""
        if request.method not in SAFE_METHODS and not same_origin(request.headers):
            return Response("This origin may not use the studio.", status_code=403)
        if self.runtime.url is None:
            return refused(RuntimeUnavailable())
        try:
            own = self._own_headers(request)
        except SpeechError as error:
            return refused(error)
        headers = [(name, value) for name, value in request.headers.items() if name not in {*ONE_HOP, *own}]
        headers += [(name, value) for name, value in own.items() if value]
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        outgoing = self.client.build_request(
            request.method,
            _target(self.runtime.url, request.scope),
            headers=headers,
            content=request.stream() if has_body else None,
        )
        try:
            answer = await self.client.send(outgoing, stream=True)
        except httpx.HTTPError:
            return refused(RuntimeUnavailable())
        back = StreamingResponse(_body(answer), status_code=answer.status_code)
        back.raw_headers = [
            (name.lower(), value) for name, value in answer.headers.raw if name.decode("latin-1").lower() not in ONE_HOP
        ]
        return back

    def _own_headers(self, connection: HTTPConnection) -> dict[str, str]:
        """What the runtime hears of us; an empty one is what no client may say in our place.

        Raises:
            SpeechError: nobody knows whose the request is, and it matters.
        """
        return self.key if self.whose is None else {**self.key, OWNER: self.whose(connection)}

    async def ask(self, connection: HTTPConnection, method: str, path: str, **content: Any) -> httpx.Response:
        """One request of the studio's own, in the name of who asks us. ``content`` is httpx's.

        Raises:
            RuntimeUnavailable: the runtime does not answer.
            SpeechError: as of `whose`.
        """
        own = {name: value for name, value in self._own_headers(connection).items() if value}
        if self.runtime.url is None:
            raise RuntimeUnavailable
        try:
            return await self.client.request(method, self.runtime.url + path, headers=own, **content)
        except httpx.HTTPError:
            raise RuntimeUnavailable from None

    # --- WebSocket

    async def websocket(self, browser: WebSocket) -> None:
        """Join one socket of the page to one of the runtime until either ends."""
        if not same_origin(browser.headers):
            await browser.close(1008)  # before accept: the handshake is answered with 403
            return
        url = self.runtime.url
        if url is None:
            await _turn_away(browser)
            return
        try:
            own = self._own_headers(browser)
        except SpeechError:
            await browser.close(1008)
            return
        heard = {name: browser.headers[name] for name in PASSED_ON if name in browser.headers and name not in own}
        try:
            upstream = await connect(
                _target(url.replace("http", "ws", 1), browser.scope),
                subprotocols=browser.scope["subprotocols"] or None,
                additional_headers=heard | {name: value for name, value in own.items() if value},
                user_agent_header=None,
                compression=None,
                max_size=None,
                max_queue=MAX_WAITING_FRAMES,
                close_timeout=CLOSE_S,
                proxy=None,
            )
        except InvalidStatus as refusal:
            answer = refusal.response
            words = Response(
                bytes(answer.body or b""), answer.status_code, media_type=answer.headers.get("content-type")
            )
            await browser.send_denial_response(words)
            return
        except (OSError, TimeoutError, InvalidHandshake):
            await _turn_away(browser)
            return
        async with upstream:
            await browser.accept(subprotocol=upstream.subprotocol)
            await _join(browser, upstream)


async def _join(browser: WebSocket, upstream: ClientConnection) -> None:
    up = asyncio.create_task(_up(browser, upstream))
    down = asyncio.create_task(_down(browser, upstream))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
    if browser.client_state is WebSocketState.CONNECTED:
        await _end_browser(browser, upstream)


async def _up(browser: WebSocket, upstream: ClientConnection) -> None:
    while True:
        message = await browser.receive()
        if message["type"] == "websocket.disconnect":
            await upstream.close(_sendable(message.get("code")), (message.get("reason") or "")[:100])
            return
        text = message.get("text")
        try:
            await upstream.send(message["bytes"] if text is None else text)
        except ConnectionClosed:
            return


async def _down(browser: WebSocket, upstream: ClientConnection) -> None:
    try:
        async for message in upstream:
            if isinstance(message, str):
                await browser.send_text(message)
            else:
                await browser.send_bytes(message)
    except ConnectionClosed:
        return


async def _end_browser(browser: WebSocket, upstream: ClientConnection) -> None:
    """Close the page's side as the runtime closed ours, or say that it has gone."""
    code = upstream.close_code
    if code is None or code == 1006:
        await _say_unavailable(browser)
    else:
        await browser.close(_sendable(code), upstream.close_reason or "")


async def _turn_away(browser: WebSocket) -> None:
    # Accepted first: a page cannot read the status of a refused handshake, but it can read a message.
    offered = browser.scope["subprotocols"]
    await browser.accept(subprotocol=offered[0] if offered else None)
    await _say_unavailable(browser)


async def _say_unavailable(browser: WebSocket) -> None:
    error = RuntimeUnavailable()
    try:
        await browser.send_text(json.dumps({"type": "error", **fields_of(error)}))
        await browser.close(error.outcome.close, error.code)
    except RuntimeError:
        return  # the page has left as well


def _sendable(code: int | None) -> int:
    """Return a close code that may go over the wire: 1005, 1006 and 1015 only stand for what was not said."""
    if code is None or code == 1005:
        return 1000
    return 1001 if code in {1006, 1015} else code


def fields_of(error: SpeechError) -> dict[str, object]:
    return {
        "code": error.code,
        "message": str(error),
        "param": error.param,
        "retryable": error.outcome.retryable,
    }


def refused(error: SpeechError) -> Response:
    """An error of the studio's own, as the runtime would say it."""
    is_ours = error.outcome.http >= 500
    body = {"error": {"type": "server_error" if is_ours else "invalid_request_error", **fields_of(error)}}
    headers = {"retry-after": "1"} if error.outcome.retryable else {}
    return JSONResponse(body, status_code=error.outcome.http, headers=headers)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    # Closed here in every case, so that a client who leaves is a cancel for the runtime.
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def _target(url: str, scope: Scope) -> str:
    # As it was sent: decoding and encoding a path again may make another one of it.
    path: str = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    query: str = scope["query_string"].decode("latin-1")
    return f"{url}{path}?{query}" if query else url + path


def same_origin(headers: Mapping[str, str]) -> bool:
    """Tell whether a request comes from our own page, or from a program, which sends no Origin."""
    origin = headers.get("origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme in {"http", "https"} and parts.netloc == headers.get("host")
