"""Start page that is served while Gradio is being imported.

All other routes (health, status, the runtime's API) respond immediately. Thread: event loop.
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
    """ASGI application that serves a start page until the web page is built.

    After that, it forwards all requests to the application of the web page.
    """

    def __init__(self) -> None:
        self._waiting_page = WAITING.read_text("utf-8")
        self._current_app: ASGIApp = self._wait
        self.opened = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._current_app(scope, receive, send)

    async def serve_page(self, build: Callable[[], FastAPI]) -> None:
        """Build the page in a thread, and serve it until this task is cancelled.

        Raises:
            Exception: The exception of `build`; the studio then exits.
        """
        page = await asyncio.to_thread(build)
        async with page.router.lifespan_context(page):
            self._current_app = page
            self.opened.set()
            await asyncio.Event().wait()

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = StudioOpening()
        if scope["type"] != "http":  # A WebSocket that is closed before it is accepted gets HTTP status 403.
            await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
            return
        request = Request(scope)
        # A Hugging Face Space counts as started once the path / responds with status 200.
        if request.method in {"GET", "HEAD"} and request.url.path == "/":
            response: Response = HTMLResponse(
                self._waiting_page.replace("@nonce", nonce_of(scope)), headers={"cache-control": "no-store"}
            )
        else:
            response = error_response(error)
        await response(scope, receive, send)
