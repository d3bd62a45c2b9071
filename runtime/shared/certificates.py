"""Public certificate authorities for HTTPS clients."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Return a cached SSL context with the public certificate authorities.

    The context is the ``verify`` argument of HTTP clients. It is created once per process, because reading the
    authorities blocks the event loop for 30 ms.
    """
    return httpx.create_ssl_context(trust_env=False)
