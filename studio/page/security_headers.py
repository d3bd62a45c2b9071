"""HTTP security headers of the page, such as the content security policy (CSP)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SPACE_ANCESTORS = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
# Content security policy of the page. Gradio needs 'unsafe-eval' for its templates, and has inline styles. Recordings
# have blob: URLs.
POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors {ancestors}"
)


def nonce_of(scope: Scope) -> str:
    """Return the CSP nonce of the inline scripts in the response to this request."""
    return str(scope.get("state", {}).get("nonce", ""))


class SecurityHeaders:
    """ASGI middleware that adds security headers to every response that lacks them.

    Args:
        ancestors: Origins whose pages may embed the studio in a frame, separated by spaces.
    """

    def __init__(self, app: ASGIApp, ancestors: str, env: Mapping[str, str] = os.environ) -> None:
        self.app = app
        self._ancestors = " ".join(filter(None, ("'self'", ancestors, SPACE_ANCESTORS if env.get("SPACE_ID") else "")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request, and add the missing security headers to its HTTP response."""
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-content-type-options", "nosniff")
                headers.setdefault("referrer-policy", "same-origin")
                if headers.get("content-type", "").startswith("text/html"):
                    policy = POLICY.format(nonce=nonce, ancestors=self._ancestors)
                    headers.setdefault("content-security-policy", policy)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)
