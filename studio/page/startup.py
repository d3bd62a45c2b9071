"""Response on the port until Gradio is imported and the page takes over.

Everything else on the port (health, state, the runtime's API) answers from the first moment. Thread: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.shared.port.errors import error_response
from runtime.shipped import shipped
from studio.errors import StudioOpening
from studio.page.security_headers import nonce_of

WAITING = shipped("studio", "assets/html/opening.html")


class StartupPage:
    """An ASGI application that waits, and then is another one, on the same socket and for the same routes."""

    def __init__(self) -> None:
        self._waiting_page = WAITING.read_text("utf-8")
        self._now: ASGIApp = self._wait
        self.opened = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._now(scope, receive, send)

    async def hand_over(self, build: Callable[[], FastAPI]) -> None:
        """Build the page beside the loop, serve it, and keep it until cancelled.

        Raises:
            Exception: whatever `build` raises; there is no studio without its page.
        """
        page = await asyncio.to_thread(build)
        async with page.router.lifespan_context(page):
            self._now = page
            self.opened.set()
            await asyncio.Event().wait()

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = StudioOpening()
        if scope["type"] != "http":  # A WebSocket closed before it is accepted gets a 403.
            await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
            return
        request = Request(scope)
        # Anything that asks for a page gets one: a Space is up once / answers GET and HEAD with 200.
        if request.method in {"GET", "HEAD"} and request.url.path == "/":
            response: Response = HTMLResponse(
                self._waiting_page.replace("@nonce", nonce_of(scope)), headers={"cache-control": "no-store"}
            )
        else:
            response = error_response(error)
        await response(scope, receive, send)
