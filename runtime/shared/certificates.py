"""Public certificate authorities for HTTPS clients."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Return the SSL context with the public certificate authorities.

    It is the ``verify`` argument of HTTP clients. The context is created once per process because reading the
    authorities blocks the event loop for 30 ms. Otherwise each short-lived client would read them, even for plain HTTP.
    """
    return httpx.create_ssl_context(trust_env=False)
