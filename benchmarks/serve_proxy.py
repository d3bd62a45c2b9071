"""Serves the runtime's own application inside a replica of Ray Serve, behind Serve's HTTP proxy.

No cluster of ours runs so (docs/scaling.md says why); ``benchmarks.cluster`` compares it with what does. The engine
loads in Serve's replica, and every message goes through two processes of Serve. ``python -m benchmarks.serve_proxy``
prints a line when it is ready and ends with SIGTERM.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from collections.abc import MutableMapping
from typing import Any

from runtime.server.app import create_app
from runtime.server.engine_host import Host
from runtime.settings import Settings

READY = "Serve's proxy ready"


def serve_on(port: int, slots: int) -> None:
    """Serve until told to end."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # as `voicewright cluster` has it
    import ray
    from ray import serve

    from runtime.engine.engine import Engine

    class Application:
        """The runtime's, once the engine is loaded. Serve's replica runs its lifespan before it takes requests."""

        def __init__(self) -> None:
            self._app: Any = None

        async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "lifespan":
                await self._app(scope, receive, send)
                return
            await receive()
            host = Host(Settings.from_env({**os.environ, "VOICEWRIGHT_MAX_SLOTS": str(slots)}), Engine.open)
            await host.load()
            self._app = create_app(host)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            host.close()
            await send({"type": "lifespan.shutdown.complete"})

    class Runtime:
        """A Serve replica."""

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ray.init(address="local", include_dashboard=False, logging_level=logging.WARNING, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config={"enable_access_log": False})
    deployment = serve.deployment(serve.ingress(Application())(Runtime), max_ongoing_requests=1000)
    serve.run(deployment.bind(), route_prefix="/")
    print(READY, flush=True)
    ended.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    told = parser.parse_args()
    serve_on(told.port, told.slots)
