"""Certificate authorities for connections to HTTPS servers."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Return the public authorities, for ``verify`` of every client that asks a runtime or a studio.

    They are read once a process: reading them takes 30 ms, in which an event loop stands still, and a client that is
    made for one question would read them each time, though most runtimes are asked by plain HTTP.
    """
    return httpx.create_ssl_context(trust_env=False)
