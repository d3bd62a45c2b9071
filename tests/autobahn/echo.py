"""WebSocket echo server on the runtime's HTTP port: `python -m tests.autobahn.echo`.

The server prints its port, and exits when its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

from starlette.types import Receive, Scope, Send

from runtime.settings import ServerSettings, Settings
from runtime.shared.port.connections.server import Server, server_config
from runtime.shared.port.serving import listen


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send every received WebSocket message back, as an ASGI application."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        said = {name: value for name in ("text", "bytes") if (value := message.get(name)) is not None}
        await send({"type": "websocket.send", **said})


async def serve() -> None:
    settings = Settings(server=ServerSettings(port=0))
    listener = listen(settings.server, "127.0.0.1", 0, option="--port")
    server = Server(server_config(echo, settings, linger_s=1, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    print(listener.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(serve())
