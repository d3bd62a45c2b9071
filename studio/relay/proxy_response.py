"""Response class that forwards one HTTP request to the runtime and streams the response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing

import httpx
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from runtime.errors import Draining, SlowReader, SpeechError
from runtime.shared.port.errors import error_response
from runtime.shared.port.limits import bounded, send_stream
from studio.errors import RuntimeUnavailable
from studio.relay.draining import Drain
from studio.relay.upstream import connections_closed

log = logging.getLogger(__name__)


class ProxyResponse(Response):
    """Response that forwards the request to the runtime and streams the runtime's response.

    If the client disconnects, the request at the runtime is cancelled. A client that sends no body data for `body_s`
    seconds, or reads no response data for `send_s` seconds, is treated as disconnected.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        dropped: Collection[str],
        max_body_bytes: int,
        body_s: float,
        send_s: float,
        drain: Drain,
    ) -> None:
        """Create a response for one request.

        Args:
            client: HTTP client for the runtime.
            url: URL of the route at the runtime.
            headers: Headers that are sent to the runtime.
            dropped: Names of response headers that are not forwarded.
            max_body_bytes: Maximum size of the request body in bytes.
            body_s: Timeout in seconds for the next piece of the request body.
            send_s: Timeout in seconds for sending a piece of the response.
            drain: Shutdown state, which counts open requests.
        """
        super().__init__()
        self._drain = drain
        self._has_begun = False  # True if the response has started.
        self._client = client
        self._url = url
        self._asked = headers
        self._dropped = dropped
        self._max_body_bytes = max_body_bytes
        self._body_s = body_s
        self._send_s = send_s
        self._body: asyncio.Queue[Message] = asyncio.Queue(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        forwarding = asyncio.create_task(self._pass(scope, receive, send), name="passage")
        listening = asyncio.create_task(self._listen(receive), name="passage-listener")
        must_end = asyncio.create_task(self._drain.wait_for_close_all(), name="passage-drain")
        tasks = (forwarding, listening, must_end)
        try:
            with self._drain.count_as_open():
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if forwarding.done():
                forwarding.result()
            must_close = must_end.done() and not forwarding.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if must_close and not self._has_begun:
            await error_response(Draining())(scope, receive, send)

    async def _listen(self, receive: Receive) -> None:
        """Wait until the client disconnects, and queue its body messages."""
        while (message := await receive())["type"] != "http.disconnect":
            if message.get("body") or not message.get("more_body"):
                await self._body.put(message)

    async def _received(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the request body when they arrive."""
        while True:
            message = await self._body.get()
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body"):
                return

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        with connections_closed():
            await self._ask(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        has_body = "content-length" in headers or "transfer-encoding" in headers
        # The proxy applies the same limits as the runtime, because clients do not read a response while they send the
        # body.
        body = bounded(self._received(), headers, max_bytes=self._max_body_bytes, idle_s=self._body_s)
        content = body if has_body else None
        request = httpx.Request(scope["method"], self._url, headers=self._asked, content=content)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError:
            self._has_begun = True
            await error_response(RuntimeUnavailable())(scope, receive, send)
            return
        except SpeechError as error:
            self._has_begun = True
            await error_response(error)(scope, receive, send)
            return
        # The connection is always closed, so that a client's disconnect cancels the request at the runtime.
        async with aclosing(answer):
            try:
                await self._return(answer, send)
            except httpx.HTTPError:
                log.warning("the connection to the runtime was lost during a response")
            except SlowReader:
                log.warning("a client read nothing of a response for %g s and was disconnected", self._send_s)

    async def _return(self, answer: httpx.Response, send: Send) -> None:
        """Stream the runtime's response to the client (an incomplete one ends the connection)."""
        self._has_begun = True
        headers = [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.decode("latin-1").lower() not in self._dropped
        ]
        await send_stream(send, answer.status_code, headers, answer.aiter_raw(), self._send_s)
