"""Proxy for the runtime's API (``/v1/*`` and Cartesia's routes) on the studio's port.

The proxy changes only hop-by-hop headers and headers that identify the client. The runtime detects disconnected clients
and slow readers as with a direct connection. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from runtime.errors import Draining, SlowReader, SpeechError
from runtime.settings import Settings
from runtime.shared.port.errors import error_response, socket_error
from runtime.shared.port.limits import ACCOUNT_KEY_HEADER, ALLOWANCE_HEADERS, Allowance, within
from runtime.shared.port.serving import set_kernel_timeout
from studio.errors import RuntimeUnavailable
from studio.relay.draining import Drain
from studio.relay.proxy_response import ProxyResponse
from studio.relay.upstream import Upstream
from studio.runtimes.supervisor import Runtime

log = logging.getLogger(__name__)

HTTP_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# Client headers that are forwarded for a WebSocket. The studio checks the Origin header itself and does not forward it.
PASSED_ON = ("authorization", "x-api-key", "xi-api-key", "cartesia-version", "user-agent", "x-voice-owner")
OWNER_HEADER = "x-voice-owner"  # Header with the owner of stored voices (docs/api.md).
ONE_HOP = {
    "connection",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",  # The visitor's account is sent instead. The runtime trusts addresses only from trusted proxies.
    "x-forwarded-host",
    "x-forwarded-proto",
}
# Maximum number of buffered messages. Buffered audio cannot be cancelled, and the runtime counts it as played.
MAX_WAITING_FRAMES = 1
# Size in bytes of the kernel's receive buffer for data of the runtime. If it is less than half of the loopback
# interface's first window (64 KiB), the runtime's kernel delays each message by 0.2 s (RFC 9293, 3.8.6.2.1).
RECEIVE_BYTES = 49_152
# Timeout of the closing handshake in seconds. A runtime whose audio is not read cannot respond to a close frame.
CLOSE_S = 0.5
DISCONNECTED = (RuntimeError, WebSocketDisconnect)  # Exceptions that are raised if the page has disconnected.


# Function that returns the owner of a visitor's stored voices, or "" for the host (shared voices).
OwnerOf = Callable[[HTTPConnection], str]
# Function that returns the account of a request and the account's speech allowance.
Allowed = Callable[[HTTPConnection], Allowance]


class Relay:
    """Proxy that forwards HTTP requests and WebSockets to the current runtime.

    The middleware `RequestGuard` has already checked the Origin headers of the requests.
    """

    def __init__(
        self,
        runtime: Runtime,
        api_key: str = "",
        owner_of: OwnerOf | None = None,
        allowed: Allowed | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Create a proxy to a runtime.

        Args:
            runtime: Runtime to which requests are forwarded.
            api_key: API key of the runtime, or "". The proxy sends it with every request, so all users may use the
                runtime.
            owner_of: Function that returns the owner of a request, or None. The proxy sends the owner to the runtime in
                a header, and removes such headers of the client.
            allowed: Function that returns the account and the speech allowance of a request, or None.
            settings: Settings of the runtime.
        """
        self.runtime = runtime
        self.owner_of = owner_of
        self.allowed = allowed
        self.settings = settings or Settings.from_env()
        secret = self.settings.server.account_key
        self.key = ({"x-api-key": api_key} if api_key else {}) | ({ACCOUNT_KEY_HEADER: secret} if secret else {})
        self.drain = Drain()
        # There is no read timeout, because a stream is silent while its text waits for a slot. Connections are not
        # limited here, because the runtime limits them. There is no pool, because the runtime may close a pooled
        # connection at any time.
        self.client = httpx.AsyncClient(
            trust_env=False,
            timeout=httpx.Timeout(10.0, read=None),
            transport=Upstream([(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)]),
        )

    async def aclose(self) -> None:
        await self.client.aclose()

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the runtime's API at the studio's port."""
        routes: list[BaseRoute] = [Route("/ready", self.http, methods=["GET", "HEAD"])]
        for prefix in ("/v1", "/tts"):  # Paths of the runtime's API and of Cartesia's API.
            routes.append(Route(f"{prefix}/{{path:path}}", self.http, methods=HTTP_METHODS))
            routes.append(WebSocketRoute(f"{prefix}/{{path:path}}", self.websocket))
        for path in ("/voices", "/pronunciation-dicts"):  # Two more routes of Cartesia's API.
            routes.append(Route(path, self.http, methods=HTTP_METHODS))
            routes.append(Route(f"{path}/{{path:path}}", self.http, methods=HTTP_METHODS))
        routes.append(Route("/v2/voices", self.http, methods=HTTP_METHODS))  # A route of ElevenLabs's API.
        return routes

    # --- Methods that forward HTTP requests.

    async def http(self, request: Request) -> Response:
        """Forward one HTTP request to the runtime and stream the response."""
        if self.drain.has_begun and request.url.path != "/ready":
            return error_response(Draining())
        if self.runtime.url is None:
            return error_response(RuntimeUnavailable())
        try:
            own_headers = self._own_headers(request)
        except SpeechError as error:
            return error_response(error)
        # Trailing spaces are not part of a header value (RFC 9110, 5.5), and httpx refuses them. curl sends a trailing
        # space if the key in "Bearer $KEY" is empty.
        headers = [
            (name, value.strip(b" \t"))
            for name, value in request.headers.raw
            if name.decode("latin-1") not in {*ONE_HOP, *own_headers}
        ]
        headers += [(name.encode(), value.encode()) for name, value in own_headers.items() if value]
        url = _target(self.runtime.url, request.scope)
        limits = self.settings.limits
        return ProxyResponse(
            self.client,
            url,
            headers,
            dropped={*ONE_HOP, "date"},
            max_body_bytes=limits.max_body_bytes,
            body_s=limits.config_s,
            send_s=self.settings.server.send_s,
            drain=self.drain,
        )

    def _own_headers(self, connection: HTTPConnection) -> dict[str, str]:
        """Return the headers that the studio adds to a request to the runtime.

        An empty value removes the client's header with that name.

        Raises:
            SpeechError: The owner of the request is unknown but required.
        """
        own_headers = dict.fromkeys(ALLOWANCE_HEADERS, "") | self.key
        if self.owner_of is not None:
            own_headers[OWNER_HEADER] = self.owner_of(connection)
        allowed = self.allowed(connection) if self.allowed is not None else None
        return own_headers if allowed is None else own_headers | allowed.headers()

    async def send(self, connection: HTTPConnection, method: str, path: str, **content: Any) -> httpx.Response:
        """Send a request to the runtime on behalf of a caller.

        The runtime treats the request like a request of this caller.

        Args:
            connection: Connection of the caller.
            method: HTTP method of the request.
            path: URL path at the runtime.
            content: Keyword arguments of `httpx.AsyncClient.request`.

        Raises:
            RuntimeUnavailable: The runtime does not respond.
            SpeechError: The caller's owner cannot be determined.
        """
        return await self._request(method, path, self._own_headers(connection), **content)

    async def send_as(self, owner: str, method: str, path: str) -> httpx.Response:
        """Send a request to the runtime on behalf of an owner of stored voices.

        Raises:
            RuntimeUnavailable: The runtime does not respond.
        """
        return await self._request(method, path, self.key | {OWNER_HEADER: owner})

    async def _request(self, method: str, path: str, headers: Mapping[str, str], **content: Any) -> httpx.Response:
        if self.runtime.url is None:
            raise RuntimeUnavailable
        own_headers = {name: value for name, value in headers.items() if value}
        try:
            return await self.client.request(method, self.runtime.url + path, headers=own_headers, **content)
        except httpx.HTTPError:
            raise RuntimeUnavailable from None

    # --- Methods that forward WebSockets.

    async def websocket(self, browser: WebSocket) -> None:
        """Forward messages between a client's WebSocket and a new WebSocket to the runtime.

        The call returns when one of the two WebSockets is closed.
        """
        url = self.runtime.url
        if url is None or self.drain.has_begun:
            await _refuse_websocket(browser, Draining() if self.drain.has_begun else RuntimeUnavailable())
            return
        try:
            own_headers = self._own_headers(browser)
        except SpeechError as error:
            await browser.send_denial_response(error_response(error))
            return
        forwarded = {
            name: browser.headers[name] for name in PASSED_ON if name in browser.headers and name not in own_headers
        }
        try:
            upstream = await connect(
                _target(url.replace("http", "ws", 1), browser.scope),
                subprotocols=browser.scope["subprotocols"] or None,
                additional_headers=forwarded | {name: value for name, value in own_headers.items() if value},
                user_agent_header=None,
                compression=None,
                max_size=None,
                max_queue=MAX_WAITING_FRAMES,
                # There is no pong timeout, because a pong may be queued after unread audio. The kernel detects lost
                # peers.
                ping_timeout=None,
                close_timeout=CLOSE_S,
                proxy=None,
            )
        except InvalidStatus as refused:
            answer = refused.response
            refusal = Response(
                bytes(answer.body or b""), answer.status_code, media_type=answer.headers.get("content-type")
            )
            await browser.send_denial_response(refusal)
            return
        except (OSError, TimeoutError, InvalidHandshake):
            await _refuse_websocket(browser, RuntimeUnavailable())
            return
        raw: socket.socket = upstream.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        set_kernel_timeout(raw, self.settings.server)
        async with upstream:
            await browser.accept(subprotocol=upstream.subprotocol)
            with self.drain.count_as_open():
                await _join(browser, upstream, self.drain, self.settings.server.send_s)


@dataclass(slots=True)
class Traffic:
    """Record of the time of a WebSocket's last message, on the event loop's clock."""

    last_message_at: float

    def record_message(self) -> None:
        self.last_message_at = asyncio.get_running_loop().time()


async def _join(browser: WebSocket, upstream: ClientConnection, drain: Drain, send_s: float) -> None:
    traffic = Traffic(asyncio.get_running_loop().time())
    up = asyncio.create_task(_up(browser, upstream, traffic))
    down = asyncio.create_task(_down(browser, upstream, traffic, send_s))
    must_end = asyncio.create_task(drain.wait_for_websocket_close(lambda: traffic.last_message_at))
    tasks = (up, down, must_end)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        must_close = must_end.done() and not (up.done() or down.done())
    finally:
        for task in tasks:
            task.cancel()
        _, ended, _ = await asyncio.gather(*tasks, return_exceptions=True)
    if must_close:
        await _close_with_error(browser, Draining(), 1001)
    elif isinstance(ended, SlowReader):
        log.warning("a client read nothing for %g s and was disconnected", send_s)
        code, reason = ended.close_code, ended.code
        with suppress(*DISCONNECTED):
            await browser.close(code, reason)
        await upstream.close(code, reason)
    elif browser.client_state is WebSocketState.CONNECTED:
        await _end_browser(browser, upstream)


async def _up(browser: WebSocket, upstream: ClientConnection, traffic: Traffic) -> None:
    while True:
        message = await browser.receive()
        traffic.record_message()
        if message["type"] == "websocket.disconnect":
            await upstream.close(_sendable(message.get("code")), (message.get("reason") or "")[:100])
            return
        text = message.get("text")
        try:
            await upstream.send(message["bytes"] if text is None else text)
        except ConnectionClosed:
            return


async def _down(browser: WebSocket, upstream: ClientConnection, traffic: Traffic, send_s: float) -> None:
    """Forward messages from the runtime to the page until the runtime closes the connection.

    Raises:
        SlowReader: The page read nothing for `send_s` seconds.
    """
    try:
        async for message in upstream:
            traffic.record_message()
            async with within(send_s):
                await (browser.send_text(message) if isinstance(message, str) else browser.send_bytes(message))
    except ConnectionClosed:
        return


async def _end_browser(browser: WebSocket, upstream: ClientConnection) -> None:
    """Close the page's WebSocket with the runtime's close code, or with an error code."""
    code = upstream.close_code
    if code is None or code == 1006:
        await _close_with_error(browser, RuntimeUnavailable(), RuntimeUnavailable.close_code)
    else:
        with suppress(*DISCONNECTED):
            await browser.close(_sendable(code), upstream.close_reason or "")


async def _refuse_websocket(browser: WebSocket, error: SpeechError) -> None:
    # The handshake is accepted first, because a page can read a message, but not the status of a refused handshake.
    offered = browser.scope["subprotocols"]
    await browser.accept(subprotocol=offered[0] if offered else None)
    await _close_with_error(browser, error, error.close_code)


async def _close_with_error(browser: WebSocket, error: SpeechError, code: int) -> None:
    with suppress(*DISCONNECTED):
        await browser.send_text(json.dumps(socket_error(error, browser.scope["path"])))
        await browser.close(code, error.code)


def _sendable(code: int | None) -> int:
    """Return a close code that may be sent: 1005, 1006 and 1015 are replaced."""
    if code is None or code == 1005:
        return 1000
    return 1001 if code in {1006, 1015} else code


def _target(url: str, scope: Scope) -> str:
    # The raw path is used, because decoding and encoding might change it. httpx would resolve dot segments, but
    # `RequestGuard` refuses such paths.
    path: str = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    query: str = scope["query_string"].decode("latin-1")
    return f"{url}{path}?{query}" if query else url + path
