"""TCP port of the Wyoming protocol, open while the server accepts requests."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from functools import partial

from starlette.websockets import WebSocketDisconnect

from runtime.errors import RateLimited, SpeechError
from runtime.server.caller import CALLER, Caller
from runtime.server.engine_host import EngineHost
from runtime.server.rate_limit import RateLimit
from runtime.server.websocket_routes import new_id, serve_session, session_arguments
from runtime.server.wyoming import messages
from runtime.server.wyoming.announcement import announce_port, check_announcement_support
from runtime.server.wyoming.event_socket import EventSocket
from runtime.server.wyoming.session import WyomingSession
from runtime.shared.port.limits import ConnectionCaps
from runtime.shared.port.origins import network_of
from runtime.shared.port.serving import LISTEN_BACKLOG, WYOMING_VARIABLE, address_of, bind

log = logging.getLogger(__name__)

DIALECT = "wyoming"


class WyomingPort:
    """Listening port of the Wyoming protocol.

    Thread: event loop.
    """

    def __init__(self, host: EngineHost, uri: str) -> None:
        """Bind the port without listening on it.

        When a runtime is replaced, the new runtime binds the same port and listens when it is ready. The old runtime
        then stops listening.

        Raises:
            InvalidSetting, PortInUse: The address is invalid or cannot be bound, or announcements are not available.
        """
        if host.settings.server.wyoming_announced:
            check_announcement_support()
        name, port = address_of(uri, setting=WYOMING_VARIABLE)
        self._host = host
        self._limit = host.settings.limits.max_message_bytes
        self._caps = ConnectionCaps(host.settings.server)
        self._rate_limit = RateLimit(host.settings.server.requests_per_minute)
        self._listener = bind(host.settings.server, name, port, option=WYOMING_VARIABLE, is_shared=True)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._announcing: asyncio.Task[None] | None = None
        bound = self._listener.getsockname()[1]
        self.uri = f"tcp://[{name}]:{bound}" if ":" in name else f"tcp://{name}:{bound}"

    async def open(self) -> None:
        """Start listening, and list the port in the response of /ready."""
        if self._host.settings.server.needs_key:
            log.warning("Wyoming has no keys: everyone who can reach %s can generate speech", self.uri)
        self._server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=self._limit, backlog=LISTEN_BACKLOG
        )
        self._host.ports[DIALECT] = self.uri
        if self._host.settings.server.wyoming_announced:
            address, port = self._listener.getsockname()[:2]
            self._announcing = asyncio.create_task(announce_port(address, port), name="wyoming-announcement")

    def close(self) -> None:
        """Stop accepting new connections without closing the open connections."""
        self._host.ports.pop(DIALECT, None)
        if self._server is not None:
            self._server.close()
        self._listener.close()
        if self._announcing is not None:
            self._announcing.cancel()

    async def leave(self) -> None:
        """Close the port and wait until the announcement is withdrawn."""
        self.close()
        if self._announcing is not None:
            await asyncio.gather(self._announcing, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a new task, because asyncio logs a cancellation of its own task."""
        serving = asyncio.create_task(self._serve(reader, writer), name="speech-wyoming")
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = EventSocket(reader, writer, self._limit)
        address = network_of(str((writer.get_extra_info("peername") or [""])[0]))
        try:
            self._check(address)
        except SpeechError as error:
            self._host.metrics.count_refusal(error.code)
            with suppress(WebSocketDisconnect):
                await socket.send_text(json.dumps(messages.error(error)))
                await socket.close()
        else:
            CALLER.set(Caller(address, wait_s=partial(self._rate_limit.wait_s, address.encode())))
            with self._caps.holding(address):
                dialect = WyomingSession(**session_arguments(self._host, socket))
                await serve_session(socket, self._host, dialect, name=DIALECT, session_id=new_id())
        finally:
            await socket.leave()

    def _check(self, address: str) -> None:
        """Check that a new connection from `address` can be accepted.

        Raises:
            SpeechError: There are too many connections, or the server does not accept requests now.
        """
        self._caps.check(address)
        if wait_s := self._rate_limit.wait_s(address.encode()):
            raise RateLimited(retry_after_s=round(wait_s, 3))
        if self._host.problem is not None:
            raise self._host.problem
